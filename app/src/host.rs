//! The program around the HTTP server: the hub's models, this machine, and agents' settings.

use crate::{cli, gauges::Meter, last_model, pairing};
use dspark_agents::{CLIENTS, Places};
use dspark_hub::{Hub, HubError, Job, Limit};
use dspark_protocol::{LoadRequest, Snapshot};
use dspark_serve::{Download, Gauges, Host, HostError, LoadWish, Report, Serving};
use dspark_window::state::Measured;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// Models by name, fetched where they are missing.
pub struct HubHost {
    runtime: Handle,
    records: PathBuf,
    limit: Limit,
    meter: Meter,
}

/// What the program keeps that the server needs.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// Undo records of agents' settings.
    pub records: PathBuf,
    /// What the Lab measured of memory.
    pub bandwidth: PathBuf,
    /// Of all downloads of this program.
    pub limit: Limit,
}

impl Kept {
    /// In the folder with the chats, and beside the settings.
    pub fn of(data: &Path, settings: &Path) -> Self {
        Self {
            records: data.join("agents"),
            bandwidth: Measured::file(settings),
            limit: Limit::default(),
        }
    }
}

impl HubHost {
    pub fn new(runtime: Handle, kept: Kept) -> Self {
        Self {
            runtime,
            records: kept.records,
            limit: kept.limit,
            meter: Meter::new(kept.bandwidth),
        }
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
        let hub = Hub::from_env().with_limit(self.limit.clone());
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
            force: wish.force,
            ..LoadRequest::default()
        };
        let pair = pairing::Wish {
            mode: wish.mode,
            drafter: wish.drafter.clone(),
            bits: wish.drafter_bits,
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

    fn gauges(&self, snapshot: &Snapshot) -> Gauges {
        self.meter.read(snapshot)
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
