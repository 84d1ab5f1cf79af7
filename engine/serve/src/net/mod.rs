//! The listening side: binding, serving, stopping.

mod accept;
mod bind;
mod ready;

pub use bind::{BindError, PortHolder, who_holds};
pub use ready::{check_ready_file, write_ready_file};

use crate::{
    App, Host, ServeConfig,
    registry::{Activity, ClientStats, LiveRequest},
};
use dspark_protocol::EngineHandle;
use std::{fmt::Write, future::Future, net::SocketAddr, sync::Arc, time::Duration};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How long a stop waits for generations to reach a round boundary and replies to go out.
const GRACE: Duration = Duration::from_millis(4500);

/// A bound, not yet serving server.
pub struct Server {
    app: App,
    listener: TcpListener,
    address: SocketAddr,
    stop: CancellationToken,
}

impl Server {
    /// Binds the configured address. Nothing is answered before [`Server::serve`].
    ///
    /// # Errors
    /// [`BindError`]: the name does not resolve, the port is taken (and by whom), or the address would let strangers in
    /// without a key.
    pub async fn bind(config: ServeConfig, engine: EngineHandle) -> Result<Self, BindError> {
        Self::bind_with(config, engine, None).await
    }

    /// The same, with a program around it that can load models and tell about the machine.
    ///
    /// # Errors
    /// As [`Server::bind`].
    pub async fn bind_with(config: ServeConfig, engine: EngineHandle, host: Option<Arc<dyn Host>>) -> Result<Self, BindError> {
        Self::bind_again(config, engine, host, Activity::default()).await
    }

    /// The same, going on with what an earlier server of this program has seen.
    ///
    /// # Errors
    /// As [`Server::bind`].
    pub async fn bind_again(
        config: ServeConfig,
        engine: EngineHandle,
        host: Option<Arc<dyn Host>>,
        activity: Activity,
    ) -> Result<Self, BindError> {
        let (listener, address) = bind::listen(&config).await?;
        Ok(Self {
            app: App::going_on(config, engine, address.ip(), host, activity),
            listener,
            address,
            stop: CancellationToken::new(),
        })
    }

    /// The address in use, with the port that 0 turned into.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where a client on this machine reaches it, without `/v1`.
    pub fn url(&self) -> String {
        url(self.address)
    }

    pub fn control(&self) -> ServerControl {
        ServerControl {
            app: self.app.clone(),
            address: self.address,
            stop: self.stop.clone(),
        }
    }

    /// Where to point clients, and how it is protected: for a terminal.
    pub fn banner(&self) -> String {
        let (url, config) = (self.url(), &self.app.config);
        let snapshot = self.app.engine.snapshot();
        let model = snapshot.model.as_ref().map_or("none yet", |model| model.name.as_str());
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(text, "{name:<12}{value}");
        };
        line("listening", &url);
        line("OpenAI", &format!("{url}/v1   (any key works unless one is set)"));
        line("Anthropic", &format!("{url}   (`mlx-dspark claude` starts Claude Code on it)"));
        line("model", model);
        line("queue", &format!("{} may wait", config.max_queue));
        line(
            "limits",
            &format!(
                "max_tokens {} by default, at most {}",
                config.default_max_tokens, config.max_tokens_cap
            ),
        );
        let beyond = !self.address.ip().is_loopback();
        line(
            "access",
            match (config.api_key.is_some(), beyond) {
                (true, true) => "the network, with the API key",
                (true, false) => "this machine, with the API key",
                (false, true) => "THE NETWORK, WITHOUT A KEY: anyone who reaches this port can use the model",
                (false, false) => "this machine only, no key",
            },
        );
        let auth = if config.api_key.is_some() {
            " -H \"Authorization: Bearer $MLX_DSPARK_API_KEY\""
        } else {
            ""
        };
        line(
            "try",
            &format!(
                "curl {url}/v1/chat/completions{auth} -H \"Content-Type: application/json\" -d '{{\"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}'"
            ),
        );
        text
    }

    /// Serves until `shutdown` resolves or [`ServerControl::shutdown`] is called; then stops accepting, ends running
    /// generations at their next round, and returns within 5 s.
    pub async fn serve(self, shutdown: impl Future<Output = ()> + Send) {
        let stop = self.stop.clone();
        let shutdown = async {
            tokio::select! {
                () = shutdown => {}
                () = stop.cancelled() => {}
            }
        };
        accept::serve(self.listener, self.app, shutdown, GRACE).await;
    }
}

/// A handle to a server that runs elsewhere.
#[derive(Clone)]
pub struct ServerControl {
    app: App,
    address: SocketAddr,
    stop: CancellationToken,
}

impl ServerControl {
    /// Answers new work with 503 `paused` from now on; running generations finish. The port stays ours, so clients
    /// learn why instead of meeting a closed door, and nobody else takes it.
    pub fn pause(&self) {
        self.app.set_paused(true);
    }

    pub fn resume(&self) {
        self.app.set_paused(false);
    }

    pub fn is_paused(&self) -> bool {
        self.app.is_paused()
    }

    /// Begins the stop that [`Server::serve`] describes.
    pub fn shutdown(&self) {
        self.stop.cancel();
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        url(self.address)
    }

    /// The requests in flight.
    pub fn live(&self) -> Vec<LiveRequest> {
        self.app.live()
    }

    /// Who has asked for what since the start.
    pub fn clients(&self) -> Vec<ClientStats> {
        self.app.clients()
    }
}

/// An unspecified address (`0.0.0.0`) is reached at loopback.
fn url(address: SocketAddr) -> String {
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("http://{address}")
}

#[cfg(test)]
mod tests {
    use super::url;

    #[test]
    fn urls_can_be_pasted() {
        for (address, text) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("0.0.0.0:1", "http://127.0.0.1:1"),
            ("[::]:1", "http://[::1]:1"),
            ("[::1]:1", "http://[::1]:1"),
        ] {
            assert_eq!(url(address.parse().unwrap()), text);
        }
    }
}
