//! The program around the HTTP server: the hub's models, this machine, and agents' settings.

use crate::{cli, last_model, machine, pairing};
use dspark_agents::{CLIENTS, Places};
use dspark_engine::machine::Machine;
use dspark_hub::{Hub, HubError, Job};
use dspark_protocol::LoadRequest;
use dspark_serve::{Download, Host, HostError, LoadWish, Report, Serving};
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// Models by name, fetched where they are missing.
pub struct HubHost {
    runtime: Handle,
    records: PathBuf,
}

impl HubHost {
    /// `records` is where undo records of agents' settings are kept.
    pub fn new(runtime: Handle, records: PathBuf) -> Self {
        Self { runtime, records }
    }

    fn job(report: &Report, cancel: &CancellationToken) -> Job {
        let report = report.clone();
        Job::new(cancel.clone(), move |at| {
            report(Download {
                repo: at.what.clone(),
                bytes_done: at.done,
                bytes_total: at.total,
            });
        })
    }
}

impl Host for HubHost {
    fn resolve(&self, wish: &LoadWish, report: Report, cancel: &CancellationToken) -> Result<LoadRequest, HostError> {
        let hub = Hub::from_env();
        let job = Self::job(&report, cancel);
        let refused = |error: HubError| match error {
            HubError::Cancelled => HostError::Cancelled,
            error => HostError::Refused(error.to_string()),
        };
        let (model, missed) = self.runtime.block_on(pairing::obtain(&hub, &wish.model, &job)).map_err(refused)?;
        if let Some(missed) = missed {
            tracing::warn!(missed);
        }
        let path_like = model.name.starts_with(['/', '.', '~']);
        let folder = model.path.file_name().map(|folder| folder.to_string_lossy().into_owned());
        let mut request = LoadRequest {
            name: folder.filter(|_| path_like).unwrap_or(model.name),
            path: model.path,
            context_window: wish.context_window,
            warm_up: wish.warm_up,
            ..LoadRequest::default()
        };
        let pair = pairing::Wish {
            mode: wish.mode,
            drafter: wish.drafter.clone(),
            speculation: wish.speculation,
            ..pairing::Wish::default()
        };
        let note = pairing::apply(&hub, &pair, &mut request).map_err(|error| HostError::Refused(error.to_string()))?;
        if let Some(note) = note {
            tracing::info!(model = request.name, note);
        }
        Ok(request)
    }

    fn loaded(&self, request: &LoadRequest) {
        last_model::write(&Hub::from_env(), &request.name, &request.path);
    }

    fn models(&self) -> Value {
        cli::models::object(&Hub::from_env())
    }

    fn machine(&self) -> Value {
        let machine = Machine::detect();
        json!({
            "chip": {"name": machine.chip, "cores": machine.cores},
            "memory": {"total_bytes": machine.ram, "model_budget_bytes": machine::for_fit().budget()},
        })
    }

    fn doctor(&self) -> Value {
        let facts = self.runtime.block_on(Hub::from_env().doctor(&Job::silent()));
        cli::doctor::served(&facts)
    }

    fn integrations(&self, serving: &Serving) -> Value {
        let Some(places) = Places::of_user(self.records.clone()) else {
            return json!([]);
        };
        let serving = dspark_agents::Serving {
            base_url: serving.base_url.clone(),
            model: serving.model.clone(),
            context_window: serving.context_window,
            max_output_tokens: serving.max_output_tokens,
            thinks: serving.thinks,
            key: serving.key.clone(),
        };
        CLIENTS.iter().map(|client| client.describe(&serving, &places)).collect()
    }
}
