//! OpenAI's and Anthropic's own clients against the server. They are installed once, under `target/tmp/clients`, from the package
//! registries; where that is impossible the test fails and says what is missing.

#![allow(clippy::unwrap_used)]

mod install;

use dspark_engine::hub::{self, Hub, Job};
use dspark_protocol::{
    EngineError, EngineHandle, LoadEvent, LoadRequest, Prompt, Role,
    double::{Script, start},
};
use dspark_serve::{ApiKey, ServeConfig, Server, ServerControl};
use install::{once, place, run, scripts};
use std::{fs, path::PathBuf, process::Command, sync::Arc, time::Duration};

const KEY: &str = "sk-test";

/// What a model that thinks writes when it calls a tool.
const CALL: &str =
    "<think>Need it.</think>\n\nLooking.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";

/// A server on its own thread, on a free port, for as long as this lives.
struct Running(ServerControl);

impl Running {
    fn new(config: ServeConfig, engine: EngineHandle) -> Self {
        let (send, control) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let server = Server::bind(ServeConfig { port: 0, ..config }, engine).await.unwrap();
                send.send(server.control()).unwrap();
                server.serve(std::future::pending()).await;
            });
        });
        Self(control.recv().unwrap())
    }

    fn base_url(&self) -> String {
        format!("{}/v1", self.0.url())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

/// A Python with the packages of `clients/requirements.txt`.
fn python() -> PathBuf {
    install::python("requirements.txt").join("python")
}

/// Counts to a thousand; fails, or calls a tool, when asked to.
fn counting() -> Script {
    let words: Vec<String> = (1..=1000).map(|number| format!("n{number}")).collect();
    let text = words.join(" ") + " ";
    Script {
        answer: Arc::new(move |request| {
            let Prompt::Chat { messages, options } = &request.prompt else {
                return Ok(text.clone());
            };
            if let Some(result) = messages.last().filter(|last| last.role == Role::Tool) {
                return Ok(format!("It is {}.", result.content));
            }
            let words: usize = messages.iter().map(|message| message.content.split_whitespace().count()).sum();
            match messages.last().map(|last| last.content.as_str()) {
                _ if words >= 8192 => Err(EngineError::ContextOverflow {
                    prompt: words,
                    window: 8192,
                }),
                Some("CALL") if !options.tools.is_empty() => Ok(CALL.into()),
                Some("FAIL") => Err(EngineError::Compute("scripted".into())),
                Some("FAIL LATE") => {
                    std::thread::sleep(Duration::from_millis(600));
                    Err(EngineError::Compute("scripted".into()))
                }
                _ => Ok(text.clone()),
            }
        }),
        ..Script::saying("").at(400.0)
    }
}

#[test]
fn the_python_client_is_at_home() {
    let python = python();
    let config = ServeConfig {
        api_key: ApiKey::new(KEY),
        ..ServeConfig::default()
    };
    let server = Running::new(config, start(counting()));
    let output = run(
        Command::new(python).arg(scripts().join("openai_client.py")).args([
            "--base-url",
            &server.base_url(),
            "--api-key",
            KEY,
            "--scripted",
        ]),
        "the OpenAI Python client",
    );
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("20 checks passed"), "{said}");
}

#[test]
fn anthropics_python_client_is_at_home() {
    let python = python();
    let config = ServeConfig {
        api_key: ApiKey::new(KEY),
        ..ServeConfig::default()
    };
    let server = Running::new(config, start(counting()));
    let output = run(
        Command::new(python).arg(scripts().join("anthropic_client.py")).args([
            "--base-url",
            &server.0.url(),
            "--api-key",
            KEY,
            "--scripted",
        ]),
        "the Anthropic Python client",
    );
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("9 checks passed"), "{said}");
}

/// Replies of every OpenAI route against the schema that OpenAI publishes; where that cannot be fetched, the script says so.
#[test]
fn replies_are_as_the_published_schema_has_them() {
    let python = python();
    let server = Running::new(ServeConfig::default(), start(counting()));
    let mut command = Command::new(python);
    command.arg(scripts().join("schema.py")).args(["--url", &server.0.url()]);
    if let Some(schema) = std::env::var_os("OPENAI_SCHEMA") {
        command.arg("--schema").arg(schema);
    }
    let output = run(&mut command, "the published schema");
    let said = String::from_utf8_lossy(&output.stdout);
    eprintln!("{}", said.lines().last().unwrap_or_default());
    assert!(said.contains("SKIPPED") || said.contains("replies as published"), "{said}");
}

/// The order of Open WebUI's requests, its tasks between two turns.
#[test]
fn open_webui_is_at_home() {
    let server = Running::new(ServeConfig::default(), start(counting()));
    let mut command = Command::new("python3");
    command.arg(scripts().join("open_webui.py")).args(["--url", &server.0.url()]);
    let said = run(&mut command, "Open WebUI's requests").stdout;
    assert!(String::from_utf8_lossy(&said).contains("7 checks passed"));
}

/// Needs Node.js; a machine without it has nothing to check here, and says so.
#[test]
fn the_javascript_clients_are_at_home() {
    if Command::new("npm").arg("--version").output().is_err() {
        eprintln!("SKIPPED: Node.js is not installed, so the JavaScript clients were not run");
        return;
    }
    let folder = place().join("javascript");
    let manifest = scripts().join("package.json");
    once(&folder, &manifest, || {
        fs::copy(&manifest, folder.join("package.json")).unwrap();
        run(
            Command::new("npm")
                .args(["install", "--silent", "--no-audit", "--no-fund"])
                .current_dir(&folder),
            "installing the JavaScript clients (it needs the package registry)",
        );
    });
    let server = Running::new(ServeConfig::default(), start(counting()));
    for (script, url) in [("openai_client.mjs", server.base_url()), ("anthropic_client.mjs", server.0.url())] {
        fs::copy(scripts().join(script), folder.join(script)).unwrap();
        let output = run(Command::new("node").args([script, &url]).current_dir(&folder), script);
        assert!(String::from_utf8_lossy(&output.stdout).contains("all checks passed"));
    }
}

/// The real engine with the starter model (98 MB, fetched once).
fn starter() -> EngineHandle {
    let engine = dspark_engine::start(dspark_engine::EngineOptions::default());
    let found = hub::block_on(Hub::from_env().starter(&Job::silent()))
        .unwrap()
        .unwrap_or_else(|error| panic!("this test needs the starter model: {error}"));
    let loading = engine.load(LoadRequest {
        name: "starter".into(),
        path: found.path,
        warm_up: true,
        ..LoadRequest::default()
    });
    let mut loading = loading.unwrap();
    while let Some(event) = loading.next_blocking() {
        match event {
            LoadEvent::Ready(_) => return engine,
            LoadEvent::Failed(error) => panic!("{error}"),
            LoadEvent::Stage { .. } => {}
        }
    }
    panic!("the engine ended while it loaded the starter model");
}

/// The same checks, answered by a model.
#[test]
fn the_python_client_talks_to_the_starter_model() {
    let python = python();
    let engine = starter();
    let server = Running::new(ServeConfig::default(), engine.clone());
    let output = run(
        Command::new(python)
            .arg(scripts().join("openai_client.py"))
            .args(["--base-url", &server.base_url()]),
        "the OpenAI Python client against the starter model",
    );
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("19 checks passed"), "{said}");
    let output = run(
        Command::new(self::python())
            .arg(scripts().join("anthropic_client.py"))
            .args(["--base-url", &server.0.url()]),
        "the Anthropic Python client against the starter model",
    );
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("8 checks passed"), "{said}");
    let mut command = Command::new("python3");
    command
        .arg(scripts().join("open_webui.py"))
        .args(["--model-only", "--url", &server.0.url()]);
    let said = run(&mut command, "Open WebUI's requests against the starter model").stdout;
    assert!(String::from_utf8_lossy(&said).contains("7 checks passed"));
    drop(server);
    engine.shutdown();
}
