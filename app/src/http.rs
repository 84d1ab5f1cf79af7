//! The HTTP server as the window's settings start and stop it.

use crate::host::{HubHost, Kept};
use dspark_protocol::EngineHandle;
use dspark_serve::{ApiKey, BindError, ServeConfig, Server};
use dspark_window::bridge::{ServerConfig, ServerControl, ServerFailure};
use std::{
    net::TcpListener,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{runtime::Handle, task::JoinHandle};

/// Runs at most one server on the program's runtime.
pub struct HttpServer {
    engine: EngineHandle,
    runtime: Handle,
    host: Arc<HubHost>,
    running: Mutex<Option<(dspark_serve::ServerControl, JoinHandle<()>)>>,
}

impl HttpServer {
    pub fn new(engine: EngineHandle, runtime: Handle, kept: Kept) -> Self {
        Self {
            engine,
            host: Arc::new(HubHost::new(runtime.clone(), kept)),
            runtime,
            running: Mutex::new(None),
        }
    }
}

impl ServerControl for HttpServer {
    fn start(&self, config: &ServerConfig) -> Result<String, ServerFailure> {
        self.stop();
        let base = ServeConfig::from_env().map_err(|error| ServerFailure {
            reason: error.to_string(),
            next_free: None,
        })?;
        let config = ServeConfig {
            port: config.port,
            api_key: config.api_key.clone().and_then(ApiKey::new),
            ..base
        };
        let wanted = config.port;
        let server = self
            .runtime
            .block_on(Server::bind_with(config, self.engine.clone(), Some(self.host.clone())))
            .map_err(|error| ServerFailure {
                next_free: matches!(error, BindError::PortTaken { .. }).then(|| free_after(wanted)).flatten(),
                reason: error.to_string(),
            })?;
        let (url, control) = (server.url(), server.control());
        let task = self.runtime.spawn(server.serve(std::future::pending()));
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some((control, task));
        Ok(url)
    }

    fn stop(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((control, task)) = running {
            control.shutdown();
            // Until it has ended the port is not free for the next one.
            let _ = self.runtime.block_on(task);
        }
    }
}

/// The next port that could be had.
fn free_after(port: u16) -> Option<u16> {
    (1..=20)
        .filter_map(|step| port.checked_add(step))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
}
