//! Every knob of the server, with the defaults of `serve`.

use crate::ApiKey;
use dspark_protocol::SamplingDefaults;
use std::{net::IpAddr, time::Duration};

/// Where the `usage` of a stream goes (asked for with `stream_options.include_usage`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UsageChunk {
    /// In a last chunk of its own with empty `choices`, as OpenAI sends it.
    #[default]
    Separate,
    /// In the chunk that carries `finish_reason`, for readers that index `choices[0]` without looking.
    Merged,
}

#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// A name or address; every address it resolves to is tried.
    pub host: String,
    /// 0 takes a free one.
    pub port: u16,
    pub api_key: Option<ApiKey>,
    /// Serve beyond this machine without a key.
    pub insecure_no_key: bool,
    /// Host names that clients may use besides the loopback ones.
    pub allowed_hosts: Vec<String>,
    /// Origins (`https://example.org`, or a scheme such as `app://`) whose pages may call, besides loopback ones.
    pub allowed_origins: Vec<String>,
    /// Let any web page call the `/v1` routes.
    pub any_origin: bool,
    /// Bytes of a request body.
    pub body_limit: usize,
    /// Requests that may wait for the engine; one more is answered 429.
    pub max_queue: usize,
    /// Silence after which a stream sends an empty delta.
    pub keep_alive: Duration,
    /// A running generation without a delivered event for this long makes `/health` say `stalled`.
    pub stall_after: Duration,
    /// Silence while a request's head or body is being read after which the connection is closed.
    pub read_timeout: Duration,
    /// `max_tokens` of a request that names none.
    pub default_max_tokens: usize,
    /// Upper bound of `max_tokens`.
    pub max_tokens_cap: usize,
    /// Beats what the checkpoint recommends; the request beats both.
    pub sampling: SamplingDefaults,
    /// `None` leaves the template's own default.
    pub enable_thinking: Option<bool>,
    pub reasoning_effort: Option<String>,
    /// 404 for every model name but the loaded one. Without it, only names that are clearly another model's hub id
    /// (`owner/name`) are refused; plain names (`gpt-4o`) are answered by the loaded model.
    pub strict_model_names: bool,
    /// Drop images and files with a warning instead of refusing them.
    pub ignore_attachments: bool,
    pub usage_chunk: UsageChunk,
    /// Log a line per request at info level (otherwise at debug level). Never bodies, never keys.
    pub log_requests: bool,
    /// The version told in `/health`.
    pub version: String,
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".into(),
            port: 8080,
            api_key: None,
            insecure_no_key: false,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            any_origin: false,
            body_limit: 64 << 20,
            max_queue: 32,
            keep_alive: Duration::from_secs(15),
            stall_after: Duration::from_mins(2),
            read_timeout: Duration::from_secs(30),
            default_max_tokens: 2048,
            max_tokens_cap: 32_768,
            sampling: SamplingDefaults::default(),
            enable_thinking: None,
            reasoning_effort: None,
            strict_model_names: false,
            ignore_attachments: false,
            usage_chunk: UsageChunk::default(),
            log_requests: false,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    #[error(
        "`{host}` is reachable from other machines, and no API key is set, so anyone on the network could use this model: \
         set a key (`--api-key`, or MLX_DSPARK_API_KEY), or say `--insecure-no-key` if that is what you want"
    )]
    KeyRequired { host: String },
    #[error("MLX_DSPARK_STREAM_KEEPALIVE_S is `{0}`: expected seconds above 0, such as 15 or 0.5")]
    KeepAlive(String),
    #[error("MLX_DSPARK_PORT is `{0}`: expected a port, 0 to 65535")]
    Port(String),
}

impl ServeConfig {
    /// The defaults, with what the environment says in their place: `MLX_DSPARK_HOST`, `MLX_DSPARK_PORT`,
    /// `MLX_DSPARK_API_KEY`, `MLX_DSPARK_STREAM_KEEPALIVE_S` (empty counts as unset).
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let set = |name| lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let mut config = Self::default();
        if let Some(host) = set("MLX_DSPARK_HOST") {
            config.host = host;
        }
        if let Some(port) = set("MLX_DSPARK_PORT") {
            config.port = port.parse().map_err(|_| ConfigError::Port(port))?;
        }
        config.api_key = set("MLX_DSPARK_API_KEY").and_then(ApiKey::new);
        if let Some(seconds) = set("MLX_DSPARK_STREAM_KEEPALIVE_S") {
            config.keep_alive = seconds
                .parse()
                .ok()
                .filter(|seconds| *seconds > 0.0)
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                .ok_or(ConfigError::KeepAlive(seconds))?;
        }
        Ok(config)
    }

    /// # Errors
    /// The resolved address is reachable from elsewhere, and neither a key nor the explicit opt-out is set.
    pub(crate) fn check_exposure(&self, address: IpAddr) -> Result<(), ConfigError> {
        if address.is_loopback() || self.api_key.is_some() || self.insecure_no_key {
            Ok(())
        } else {
            Err(ConfigError::KeyRequired { host: self.host.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_sets_host_port_key_and_keep_alive() {
        let config = ServeConfig::from_lookup(|name| {
            Some(
                match name {
                    "MLX_DSPARK_HOST" => "0.0.0.0",
                    "MLX_DSPARK_PORT" => "9000",
                    "MLX_DSPARK_API_KEY" => "K",
                    _ => "0.05",
                }
                .into(),
            )
        })
        .unwrap();
        assert_eq!((config.host.as_str(), config.port), ("0.0.0.0", 9000));
        assert_eq!(config.keep_alive, Duration::from_millis(50));
        assert_eq!(config.api_key, ApiKey::new("K"));
    }

    #[test]
    fn blank_is_unset_and_nonsense_is_named() {
        let blank = ServeConfig::from_lookup(|_| Some("  ".into())).unwrap();
        assert_eq!(blank.keep_alive, Duration::from_secs(15));
        assert_eq!(blank.api_key, None);
        for bad in ["soon", "0", "-1", "inf", "NaN"] {
            let error = ServeConfig::from_lookup(|name| (name == "MLX_DSPARK_STREAM_KEEPALIVE_S").then(|| bad.into())).unwrap_err();
            assert_eq!(error, ConfigError::KeepAlive(bad.into()));
        }
    }

    /// Case se-004.
    #[test]
    fn an_open_bind_needs_a_key_or_an_explicit_no() {
        let open = "0.0.0.0".parse().unwrap();
        let mut config = ServeConfig::default();
        assert!(config.check_exposure(open).unwrap_err().to_string().contains("--insecure-no-key"));
        assert!(config.check_exposure("127.0.0.1".parse().unwrap()).is_ok());
        assert!(config.check_exposure("::1".parse().unwrap()).is_ok());
        config.insecure_no_key = true;
        assert!(config.check_exposure(open).is_ok());
        config = ServeConfig {
            api_key: ApiKey::new("K"),
            ..ServeConfig::default()
        };
        assert!(config.check_exposure(open).is_ok());
    }
}
