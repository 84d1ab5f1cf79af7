//! `doctor`: what works on this machine, and what would not.

use super::{args::DoctorArgs, engine, exit::Outcome, models, output::Output};
use crate::machine;
use dspark_engine::{EngineOptions, machine::Machine};
use dspark_hub::{Hub, Job, doctor::Facts, size};
use dspark_protocol::MachineInfo;
use dspark_serve::{PortHolder, who_holds};
use serde_json::{Value, json};

/// Less main memory than this runs only small models.
const SMALL: u64 = 15 << 30;
/// A model and its download want this much free disk.
const DISK: u64 = 10_000_000_000;

const PORT: u16 = 8080;

/// One line: whether it is well, what was found, what to do otherwise.
struct Check {
    name: &'static str,
    state: State,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ok,
    Note,
    Problem,
}

impl Check {
    fn new(name: &'static str, state: State, text: impl Into<String>) -> Self {
        Self {
            name,
            state,
            text: text.into(),
        }
    }
}

pub(super) fn run(args: &DoctorArgs, output: &Output) -> Outcome {
    let hub = Hub::from_env();
    let runtime = engine::runtime()?;
    let (started, facts, holder) = runtime.block_on(async {
        // The engine's start runs the numeric self-test.
        let started = engine::start(EngineOptions::default()).await;
        let job = Job::silent();
        let (facts, holder) = tokio::join!(hub.doctor(&job), port_holder());
        (started, facts, holder)
    });
    let info = started.as_ref().ok().map(|handle| handle.snapshot().machine.clone());
    let mut checks = vec![match (&started, &info) {
        (Ok(_), Some(info)) => Check::new(
            "engine",
            State::Ok,
            format!("MLX {} computes right on {} ({})", info.mlx_version, info.device, info.backend),
        ),
        (Err(failure), _) => Check::new("engine", State::Problem, failure.message.clone()),
        (Ok(_), None) => Check::new("engine", State::Problem, "the engine gave no answer"),
    }];
    if let Ok(handle) = &started {
        handle.shutdown();
    }
    checks.extend(machine_checks());
    checks.extend(place_checks(&facts));
    checks.extend(network_checks(&facts));
    checks.push(port_check(holder.as_ref()));

    let problems: Vec<&str> = checks
        .iter()
        .filter(|check| check.state == State::Problem)
        .map(|check| check.text.as_str())
        .collect();
    if output.json {
        let mut object = report(&checks, &problems, info.as_deref(), &facts);
        if args.models {
            object["models"] = models::object(&hub);
        }
        output.object(&object);
    } else {
        for check in &checks {
            let mark = match check.state {
                State::Ok => "ok     ",
                State::Note => "note   ",
                State::Problem => "PROBLEM",
            };
            output.result(&format!("{mark}  {:<10} {}", check.name, check.text));
        }
    }
    if args.models && !output.json {
        models::list(&hub, output);
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(super::exit::Failure::new(
            super::exit::FAILED,
            format!("{} problem(s): see above", problems.len()),
        ))
    }
}

/// The same from a server, whose engine has passed its self-test already and whose port is its own.
pub(crate) fn served(facts: &Facts) -> Value {
    let mut checks = machine_checks();
    checks.extend(place_checks(facts));
    checks.extend(network_checks(facts));
    let problems: Vec<&str> = checks
        .iter()
        .filter(|check| check.state == State::Problem)
        .map(|check| check.text.as_str())
        .collect();
    report(&checks, &problems, None, facts)
}

fn machine_checks() -> Vec<Check> {
    let machine = Machine::detect();
    let budget = machine::for_fit().budget();
    let text = format!(
        "{} with {} cores and {} of memory, of which a model may use {}",
        machine.chip,
        machine.cores,
        size(machine.ram),
        size(budget)
    );
    let memory = if machine.ram >= SMALL {
        Check::new("machine", State::Ok, text)
    } else {
        Check::new("machine", State::Note, format!("{text}: only small models run well"))
    };
    let system = if cfg!(target_os = "macos") && !cfg!(target_arch = "aarch64") {
        Check::new("system", State::Problem, "an Intel Mac: MLX needs Apple silicon")
    } else {
        Check::new(
            "system",
            State::Ok,
            format!("{} on {}", std::env::consts::OS, std::env::consts::ARCH),
        )
    };
    vec![system, memory]
}

fn place_checks(facts: &Facts) -> impl Iterator<Item = Check> + '_ {
    facts
        .places
        .iter()
        .filter(|place| place.exists || place.label.ends_with("cache"))
        .map(|place| {
            let free = place
                .free
                .map_or_else(|| "free space unknown".to_owned(), |free| format!("{} free", size(free)));
            let text = format!("{} {} ({free})", place.label, place.path.display());
            match place.free {
                _ if !place.writable && place.label.ends_with("cache") => Check::new(
                    "folder",
                    State::Problem,
                    format!("{text}: not writable, so nothing can be kept there"),
                ),
                Some(free) if free < DISK => Check::new("folder", State::Note, format!("{text}: little room for models")),
                _ => Check::new("folder", State::Ok, text),
            }
        })
}

fn network_checks(facts: &Facts) -> Vec<Check> {
    let hub = match (&facts.hub_problem, facts.hub_offline) {
        (_, true) => Check::new(
            "model hub",
            State::Note,
            "offline mode is on (HF_HUB_OFFLINE): only installed models",
        ),
        (None, false) => Check::new(
            "model hub",
            State::Ok,
            format!("{} answers{}", facts.hub, if facts.token { "; a token is set" } else { "" }),
        ),
        (Some(problem), false) => Check::new("model hub", State::Note, problem.clone()),
    };
    let starter = match (facts.starter, &facts.pip) {
        (true, _) => Check::new("starter", State::Ok, "the starter model is here"),
        (false, Ok(pip)) => Check::new(
            "starter",
            State::Note,
            format!("not here yet: `mlx-dspark starter` gets it ({pip} is its second source)"),
        ),
        (false, Err(why)) => Check::new(
            "starter",
            State::Note,
            format!("not here yet: `mlx-dspark starter` gets it from the hub ({why})"),
        ),
    };
    let mut checks = vec![hub, starter];
    if !facts.interrupted.is_empty() {
        checks.push(Check::new(
            "downloads",
            State::Note,
            format!("interrupted, `models pull` goes on: {}", facts.interrupted.join(", ")),
        ));
    }
    checks
}

/// Who has the port that `serve` takes by default; nobody where it can be had.
async fn port_holder() -> Option<PortHolder> {
    let address = ([127, 0, 0, 1], PORT).into();
    if tokio::net::TcpListener::bind(address).await.is_ok() {
        None
    } else {
        Some(who_holds(address).await)
    }
}

fn port_check(holder: Option<&PortHolder>) -> Check {
    match holder {
        None => Check::new("port", State::Ok, format!("{PORT} is free")),
        Some(holder) => Check::new("port", State::Note, format!("{PORT}: {holder}")),
    }
}

fn report(checks: &[Check], problems: &[&str], info: Option<&MachineInfo>, facts: &Facts) -> Value {
    let checks: Vec<_> = checks
        .iter()
        .map(|check| json!({ "name": check.name, "ok": check.state != State::Problem, "text": check.text }))
        .collect();
    json!({
        "ok": problems.is_empty(),
        "problems": problems,
        "checks": checks,
        "environment": {
            "version": env!("CARGO_PKG_VERSION"),
            "platform": std::env::consts::OS,
            "machine": std::env::consts::ARCH,
            "engine": info,
            "families": machine::families(),
        },
        "facts": facts,
    })
}
