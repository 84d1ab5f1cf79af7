//! Talking to the model hub: one client, one way to read its refusals, one way to fetch a file.
//!
//! Not the `hf-hub` crate: its downloads start at byte 0 after every interruption, which is the part that matters here,
//! and what would be left of it (one listing, one cache layout) does not pay for 291 crates and a C build. TLS is
//! rustls with ring, trusting Mozilla's roots and the system's, so that company proxies work.

mod fetch;
mod limit;
mod repo;
mod search;
mod token;

pub(crate) use fetch::{Digest, Meter, Remote, check_digest, fetch};
pub use limit::Limit;
pub use repo::{RepoFile, RepoId, RepoInfo};
pub use search::Found;
use token::Token;
pub use token::TokenFrom;

use crate::{HubError, Result};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, header};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

pub(crate) const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// How long to wait and how often to try again.
#[derive(Debug, Clone)]
pub struct Patience {
    /// To connect.
    pub connect: Duration,
    /// Between two pieces of a body, and for the first byte of a reply.
    pub stall: Duration,
    /// Attempts in a row that bring nothing new.
    pub attempts: u32,
    /// Before the second attempt; doubled after each, up to 30 s.
    pub backoff: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            attempts: 6,
            backoff: Duration::from_millis(500),
        }
    }
}

/// The model hub as the environment describes it.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    pub(crate) endpoint: String,
    pub(crate) offline: bool,
    pub(crate) patience: Patience,
    /// Of everything that is downloaded.
    pub(crate) limit: Limit,
    pub(crate) kept_token: PathBuf,
    token: Option<(TokenFrom, Token)>,
    client: Arc<OnceLock<Client>>,
}

impl Network {
    pub(crate) fn from_vars(hf_home: &Path, home: &Path, var: &dyn Fn(&str) -> Option<String>) -> Self {
        let set = |key: &str| var(key).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let flag = |key: &str| set(key).is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"));
        let token_file = set("HF_TOKEN_PATH").map_or_else(|| hf_home.join("token"), |path| crate::places::expand(&path, home));
        let kept_token = token::kept_file(home, var);
        let token = token::find(&token_file, &kept_token, set("HF_TOKEN").as_deref());
        Self {
            endpoint: set("HF_ENDPOINT").map_or_else(|| DEFAULT_ENDPOINT.to_owned(), |url| url.trim_end_matches('/').to_owned()),
            offline: flag("HF_HUB_OFFLINE") || flag("TRANSFORMERS_OFFLINE"),
            patience: Patience::default(),
            limit: Limit::default(),
            kept_token,
            token,
            client: Arc::default(),
        }
    }

    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    pub(crate) fn token_from(&self) -> Option<&TokenFrom> {
        self.token.as_ref().map(|(from, _)| from)
    }

    /// For messages: `huggingface.co`.
    pub(crate) fn host(&self) -> String {
        Url::parse(&self.endpoint)
            .ok()
            .and_then(|url| {
                let host = url.host_str()?.to_owned();
                Some(url.port().map_or(host.clone(), |port| format!("{host}:{port}")))
            })
            .unwrap_or_else(|| self.endpoint.clone())
    }

    /// The client is made at first use: reading the system's certificates takes a while.
    pub(crate) fn client(&self) -> Result<&Client> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = Client::builder()
            .user_agent(concat!("mlx-dspark/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.patience.connect)
            .pool_idle_timeout(Duration::from_secs(20))
            .build()
            .map_err(|e| HubError::Unreachable {
                host: self.host(),
                reason: cause(&e),
            })?;
        Ok(self.client.get_or_init(|| client))
    }

    /// A GET or HEAD of one of the hub's own pages, with the token. Redirects to other hosts lose it (reqwest).
    pub(crate) fn authorized(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.token {
            Some((_, token)) => request.bearer_auth(token.word()),
            None => request,
        }
    }

    /// What a refusal means. The hub answers 401 for what does not exist and for what is private alike; its
    /// `X-Error-Code` tells them apart where it can.
    pub(crate) fn refusal(&self, repo: &str, revision: &str, file: Option<&str>, response: &Response) -> HubError {
        let header = |name: &str| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
        };
        let (code, message) = (header("x-error-code"), header("x-error-message"));
        let token = self.has_token();
        let repo = repo.to_owned();
        let missing = |repo| HubError::RepoNotFound {
            repo,
            host: self.host(),
            token,
        };
        match (response.status(), code) {
            (_, "GatedRepo") => HubError::Gated {
                url: format!("{}/{repo}", self.endpoint),
                repo,
                token,
            },
            (_, "RevisionNotFound") => HubError::RevisionNotFound {
                repo,
                revision: revision.to_owned(),
            },
            (_, "RepoNotFound") => missing(repo),
            (_, "EntryNotFound") => HubError::FileNotFound {
                repo,
                file: file.unwrap_or("config.json").to_owned(),
            },
            (StatusCode::UNAUTHORIZED, _) if token && message.contains("Invalid") => HubError::BadToken,
            (StatusCode::UNAUTHORIZED, _) => missing(repo),
            (StatusCode::FORBIDDEN, _) => HubError::Forbidden {
                repo,
                reason: if message.is_empty() {
                    "403 Forbidden".into()
                } else {
                    clip(message)
                },
            },
            (StatusCode::NOT_FOUND | StatusCode::GONE, _) => match file {
                Some(file) => HubError::FileNotFound {
                    repo,
                    file: file.to_owned(),
                },
                None => missing(repo),
            },
            (status, _) => HubError::Network {
                what: repo,
                attempts: 1,
                reason: status.to_string(),
            },
        }
    }

    pub(crate) fn unreachable(&self, error: &reqwest::Error) -> HubError {
        HubError::Unreachable {
            host: error
                .url()
                .and_then(|url| url.host_str().map(str::to_owned))
                .unwrap_or_else(|| self.host()),
            reason: cause(error),
        }
    }

    /// True where the hub answers at all within `limit`, whatever it says.
    pub(crate) async fn answers(&self, limit: Duration) -> Result<()> {
        let request = self.client()?.head(&self.endpoint);
        match tokio::time::timeout(limit, request.send()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(e)) => Err(self.unreachable(&e)),
            Err(_) => Err(HubError::Unreachable {
                host: self.host(),
                reason: format!("no answer within {:.1} s", limit.as_secs_f64()),
            }),
        }
    }
}

/// Statuses that say "later", not "no".
pub(crate) fn is_passing(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
        )
}

/// `Retry-After` in seconds (the other form, a date, is left to the ordinary back-off), at most five minutes.
pub(crate) fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(|seconds: u64| Duration::from_secs(seconds.min(300)))
}

/// The innermost cause: reqwest's own text repeats the URL and hides the reason.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    let mut source: &dyn std::error::Error = error;
    while let Some(inner) = source.source() {
        source = inner;
    }
    if error.is_timeout() {
        "no answer in time".into()
    } else {
        clip(&source.to_string())
    }
}

fn clip(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}
