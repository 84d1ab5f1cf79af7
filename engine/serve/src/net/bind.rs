//! Taking the port, and saying who has it when it is taken.

use crate::{ConfigError, ServeConfig};
use serde_json::Value;
use std::{
    fmt,
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, lookup_host},
};

/// Who listens on a port that we wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortHolder {
    /// Another instance of this server.
    Ours {
        url: String,
        status: String,
        model: Option<String>,
        version: Option<String>,
        pid: Option<u64>,
    },
    /// Something else, by its process where the system tells, or its `Server` header.
    Other { process: Option<String>, server: Option<String> },
}

impl fmt::Display for PortHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours {
                url, status, model, pid, ..
            } => {
                write!(f, "mlx-dspark is already running at {url}")?;
                match model {
                    Some(model) => write!(f, ", model {model}")?,
                    None => write!(f, " ({status})")?,
                }
                pid.map_or(Ok(()), |pid| write!(f, ", process {pid}"))
            }
            Self::Other { process, server } => match (process, server) {
                (Some(process), _) => write!(f, "it is held by {process}"),
                (None, Some(server)) => write!(f, "a web server that calls itself `{server}` holds it"),
                (None, None) => write!(f, "another program holds it"),
            },
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the host `{host}` does not name an address of this machine: {reason}")]
    Host { host: String, reason: String },
    #[error("port {port} is taken: {holder}; stop it, or choose another port (`--port 0` takes a free one)")]
    PortTaken { port: u16, holder: PortHolder },
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
}

impl BindError {
    /// The port is held by an instance of this server, which can be used instead.
    pub fn already_running(&self) -> Option<&PortHolder> {
        match self {
            Self::PortTaken {
                holder: holder @ PortHolder::Ours { .. },
                ..
            } => Some(holder),
            _ => None,
        }
    }
}

pub(super) async fn listen(config: &ServeConfig) -> Result<(TcpListener, SocketAddr), BindError> {
    let host = config.host.trim().trim_start_matches('[').trim_end_matches(']');
    let unresolved = |reason: String| BindError::Host {
        host: config.host.clone(),
        reason,
    };
    let mut addresses: Vec<SocketAddr> = lookup_host((host, config.port))
        .await
        .map_err(|error| unresolved(error.to_string()))?
        .collect();
    // Clients that are told `localhost` try IPv4 in any case.
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let mut last = unresolved("it resolves to nothing".into());
    for address in addresses {
        config.check_exposure(address.ip())?;
        match TcpListener::bind(address)
            .await
            .and_then(|listener| listener.local_addr().map(|bound| (listener, bound)))
        {
            Ok(bound) => return Ok(bound),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                return Err(BindError::PortTaken {
                    port: address.port(),
                    holder: who_holds(address).await,
                });
            }
            Err(source) => last = BindError::Listen { address, source },
        }
    }
    Err(last)
}

/// Asks whoever listens at `address` for `/health`, and the system for the process, within about a second.
pub async fn who_holds(mut address: SocketAddr) -> PortHolder {
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    let reply = tokio::time::timeout(Duration::from_secs(1), ask_health(address)).await;
    let reply = reply.ok().and_then(Result::ok).unwrap_or_default();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((&reply, ""));
    let server = head
        .lines()
        .find_map(|line| line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("server")))
        .map(|(_, value)| value.trim().chars().filter(|c| !c.is_control()).take(60).collect::<String>());
    let health: Value = serde_json::from_str(body).unwrap_or_default();
    if server.as_deref() == Some("mlx-dspark") && health.get("status").is_some() {
        let text = |name: &str| health.get(name).and_then(Value::as_str).map(str::to_owned);
        return PortHolder::Ours {
            url: format!("http://{address}"),
            status: text("status").unwrap_or_default(),
            model: text("model"),
            version: text("version"),
            pid: health.get("pid").and_then(Value::as_u64),
        };
    }
    let port = address.port();
    let process = tokio::task::spawn_blocking(move || listening_process(port)).await.ok().flatten();
    PortHolder::Other { process, server }
}

async fn ask_health(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut reply = Vec::new();
    stream.take(64 << 10).read_to_end(&mut reply).await?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}

/// `python3 (process 4711)`: from /proc on Linux, from lsof elsewhere. `None` where the system does not tell.
#[cfg(target_os = "linux")]
fn listening_process(port: u16) -> Option<String> {
    use std::fs;
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| {
            let listening = table.lines().skip(1).filter_map(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                let (_, hex) = fields.get(1)?.rsplit_once(':')?;
                // 0A is LISTEN; field 9 is the socket's inode.
                (u16::from_str_radix(hex, 16) == Ok(port) && fields.get(3) == Some(&"0A"))
                    .then(|| format!("socket:[{}]", fields.get(9).copied().unwrap_or_default()))
            });
            listening.collect::<Vec<_>>()
        })
        .collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    for process in processes {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        let holds = descriptors
            .flatten()
            .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
            .any(|target| inodes.iter().any(|inode| target.as_os_str() == inode.as_str()));
        if holds {
            let command = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some(format!("{} (process {pid})", command.trim()));
        }
    }
    None
}

#[cfg(not(target_os = "linux"))]
fn listening_process(port: u16) -> Option<String> {
    let arguments = ["-nP", &format!("-iTCP:{port}"), "-sTCP:LISTEN", "-Fpc"];
    let output = std::process::Command::new("lsof").args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let field = |letter: char| text.lines().find_map(|line| line.strip_prefix(letter));
    Some(format!("{} (process {})", field('c')?, field('p')?))
}
