//! A model hub on this machine that misbehaves on request.
#![allow(unreachable_pub)]

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, Query, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

/// What the next request of a file meets.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The connection breaks after so many bytes of body.
    Drop(usize),
    /// The body ends early without saying so (no length announced).
    End(usize),
    /// Nothing more comes after so many bytes.
    Stall(usize),
    /// One byte is another.
    Corrupt,
    /// `Range` is ignored: 200 and the whole file.
    WholeFile,
    /// 206 for another part than was asked for.
    WrongPart,
    /// More bytes than the file has.
    TooMuch,
    /// A status, with `Retry-After` seconds.
    Status(u16, Option<u64>),
    /// To a host of another name, without the hub's headers.
    Redirect,
}

#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    pub path: String,
    pub range: Option<String>,
    pub if_range: Option<String>,
    pub token: Option<String>,
}

/// Status, `X-Error-Code`, `X-Error-Message`.
pub type Refusal = (u16, &'static str, &'static str);

#[derive(Default)]
pub struct Repo {
    pub commit: String,
    pub files: Vec<(String, Vec<u8>)>,
    pub faults: HashMap<String, VecDeque<Fault>>,
    /// Answer of the API instead of the listing: status, `X-Error-Code`, `X-Error-Message`.
    pub refuse: Option<Refusal>,
    /// The same for repositories with this in their name.
    pub refused: Vec<(String, Refusal)>,
    /// The API leaves sizes and hashes out, as some mirrors do.
    pub bare: bool,
    /// Names to add to the listing.
    pub extra: Vec<String>,
    pub seen: Vec<Seen>,
    /// Bytes of body sent.
    pub sent: usize,
    /// Between pieces of 16 KiB.
    pub pace: Duration,
    /// Answers of the search, and the status it has instead.
    pub found: Vec<Value>,
    pub search: Option<(u16, Option<u64>)>,
    /// Changes the validator of every file, as a changed copy would.
    pub validator: u32,
}

#[derive(Clone)]
pub struct FakeHub {
    pub repo: Arc<Mutex<Repo>>,
    pub address: SocketAddr,
}

impl FakeHub {
    pub async fn start(files: &[(&str, Vec<u8>)]) -> Self {
        Self::start_at("127.0.0.1:0", files).await
    }

    pub async fn start_at(address: &str, files: &[(&str, Vec<u8>)]) -> Self {
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let repo = Repo {
            commit: "1".repeat(40),
            files: files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone())).collect(),
            ..Repo::default()
        };
        let hub = Self {
            repo: Arc::new(Mutex::new(repo)),
            address: listener.local_addr().unwrap(),
        };
        let app = Router::new()
            .route("/api/models", get(search))
            .route("/api/models/{owner}/{name}/revision/{revision}", get(info))
            .route("/{owner}/{name}/resolve/{commit}/{*path}", get(file))
            .route("/cdn/{*path}", get(cdn))
            .with_state(hub.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        hub
    }

    pub fn fault(&self, path: &str, faults: impl IntoIterator<Item = Fault>) {
        self.edit(|repo| repo.faults.entry(path.to_owned()).or_default().extend(faults));
    }

    pub fn edit<T>(&self, change: impl FnOnce(&mut Repo) -> T) -> T {
        change(&mut self.repo.lock().unwrap())
    }

    /// A file of a snapshot is the one that is served.
    #[allow(dead_code, reason = "not every test binary downloads")]
    pub fn same(&self, snapshot: &std::path::Path, file: &str) {
        let want = self.edit(|repo| repo.files.iter().find(|(name, _)| name == file).unwrap().1.clone());
        assert!(std::fs::read(snapshot.join(file)).unwrap() == want, "`{file}` differs");
    }

    /// Requests for the content of files.
    pub fn requests(&self) -> Vec<Seen> {
        self.edit(|repo| {
            repo.seen
                .iter()
                .filter(|seen| seen.method == Method::GET && seen.path.contains("/resolve/"))
                .cloned()
                .collect()
        })
    }

    fn note(&self, method: &Method, path: String, headers: &HeaderMap) {
        let text = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let seen = Seen {
            method: method.clone(),
            path,
            range: text(header::RANGE),
            if_range: text(header::IF_RANGE),
            token: text(header::AUTHORIZATION),
        };
        self.edit(|repo| repo.seen.push(seen));
    }
}

pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn etag(path: &str, bytes: &[u8]) -> String {
    if path.ends_with(".safetensors") {
        hex(&Sha256::digest(bytes))
    } else {
        let mut sha1 = Sha1::new();
        sha1.update(format!("blob {}\0", bytes.len()));
        sha1.update(bytes);
        hex(&sha1.finalize())
    }
}

async fn info(State(hub): State<FakeHub>, Path((owner, name, revision)): Path<(String, String, String)>, headers: HeaderMap) -> Response {
    hub.note(&Method::GET, format!("/api/{owner}/{name}/{revision}"), &headers);
    hub.edit(|repo| {
        let named = repo.refused.iter().find(|(part, _)| name.contains(part.as_str()));
        if let Some((status, code, message)) = repo.refuse.or(named.map(|(_, refusal)| *refusal)) {
            let mut response = StatusCode::from_u16(status).unwrap().into_response();
            for (key, value) in [("x-error-code", code), ("x-error-message", message)] {
                if !value.is_empty() {
                    response.headers_mut().insert(key, HeaderValue::from_static(value));
                }
            }
            return response;
        }
        let mut siblings: Vec<Value> = repo
            .files
            .iter()
            .map(|(path, bytes)| {
                let mut entry = json!({"rfilename": path});
                if !repo.bare {
                    entry["size"] = json!(bytes.len());
                    entry["blobId"] = json!("0".repeat(40));
                    let name = etag(path, bytes);
                    if name.len() == 64 {
                        entry["lfs"] = json!({"sha256": name, "size": bytes.len()});
                    } else {
                        entry["blobId"] = json!(name);
                    }
                }
                entry
            })
            .collect();
        siblings.extend(
            repo.extra
                .iter()
                .map(|path| json!({"rfilename": path, "size": 1, "blobId": "0".repeat(40)})),
        );
        axum::Json(json!({"id": format!("{owner}/{name}"), "sha": repo.commit, "siblings": siblings})).into_response()
    })
}

/// Rows whose name has all the words, as the hub answers.
async fn search(State(hub): State<FakeHub>, Query(asked): Query<HashMap<String, String>>) -> Response {
    hub.note(&Method::GET, format!("/api/models?{}", asked["search"]), &HeaderMap::new());
    hub.edit(|repo| {
        if let Some((status, after)) = repo.search {
            let mut response = StatusCode::from_u16(status).unwrap().into_response();
            if let Some(after) = after {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after));
            }
            return response;
        }
        let words = asked["search"].to_lowercase();
        let tagged = |row: &&Value| {
            asked
                .get("filter")
                .is_none_or(|tag| row["tags"].as_array().is_some_and(|tags| tags.iter().any(|one| one == tag)))
        };
        let named = |row: &&Value| {
            words
                .split_whitespace()
                .all(|word| row["id"].as_str().unwrap().to_lowercase().contains(word))
        };
        let rows: Vec<&Value> = repo.found.iter().filter(named).filter(tagged).collect();
        axum::Json(rows).into_response()
    })
}

async fn file(
    State(hub): State<FakeHub>,
    Path((owner, name, commit, path)): Path<(String, String, String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    hub.note(&method, format!("/{owner}/{name}/resolve/{commit}/{path}"), &headers);
    let (bytes, fault) = hub.edit(|repo| {
        let bytes = repo.files.iter().find(|(name, _)| *name == path).map(|(_, bytes)| bytes.clone());
        let fault = if method == Method::GET {
            repo.faults.get_mut(&path).and_then(VecDeque::pop_front)
        } else {
            None
        };
        (bytes, fault)
    });
    let Some(bytes) = bytes else {
        return StatusCode::NOT_FOUND.into_response();
    };
    serve(&hub, &path, bytes, fault, &headers, &method)
}

async fn cdn(State(hub): State<FakeHub>, Path(path): Path<String>, method: Method, headers: HeaderMap) -> Response {
    hub.note(&method, format!("/cdn/{path}"), &headers);
    let bytes = hub.edit(|repo| repo.files.iter().find(|(name, _)| *name == path).map(|(_, bytes)| bytes.clone()));
    serve(&hub, &path, bytes.unwrap(), None, &headers, &method)
}

fn serve(hub: &FakeHub, path: &str, mut bytes: Vec<u8>, fault: Option<Fault>, headers: &HeaderMap, method: &Method) -> Response {
    let total = bytes.len();
    let validator = format!("\"v{}-{}\"", hub.edit(|repo| repo.validator), total);
    let mut start = headers
        .get(header::RANGE)
        .and_then(|range| range.to_str().unwrap().strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok())
        .unwrap_or(0_usize);
    if headers
        .get(header::IF_RANGE)
        .is_some_and(|value| value.to_str().unwrap() != validator)
    {
        start = 0;
    }
    let (mut cut, mut hang, mut announce) = (None, false, true);
    match fault {
        Some(Fault::Status(status, after)) => {
            let mut response = StatusCode::from_u16(status).unwrap().into_response();
            if let Some(after) = after {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after));
            }
            return response;
        }
        Some(Fault::Redirect) => {
            let target = format!("http://localhost:{}/cdn/{path}", hub.address.port());
            return (StatusCode::FOUND, [(header::LOCATION, target)]).into_response();
        }
        Some(Fault::Drop(n)) => cut = Some(n),
        Some(Fault::End(n)) => (cut, announce) = (Some(n), false),
        Some(Fault::Stall(n)) => (cut, hang) = (Some(n), true),
        Some(Fault::Corrupt) => bytes[total / 2] ^= 1,
        Some(Fault::WholeFile) => start = 0,
        Some(Fault::WrongPart) => start += 1,
        Some(Fault::TooMuch) => {
            bytes.extend([0; 100]);
            announce = false;
        }
        None => {}
    }
    if start > total {
        return (
            StatusCode::RANGE_NOT_SATISFIABLE,
            [(header::CONTENT_RANGE, format!("bytes */{total}"))],
        )
            .into_response();
    }
    let body = bytes.split_off(start.min(bytes.len()));
    let mut response = Response::builder().header(header::ETAG, validator).header(
        "x-linked-etag",
        format!("\"{}\"", {
            let whole = hub.edit(|repo| {
                repo.files
                    .iter()
                    .find(|(name, _)| name == path)
                    .map(|(_, bytes)| bytes.clone())
                    .unwrap()
            });
            etag(path, &whole)
        }),
    );
    if announce {
        response = response.header(header::CONTENT_LENGTH, body.len());
    }
    if start > 0 {
        response = response
            .status(StatusCode::PARTIAL_CONTENT)
            .header(header::CONTENT_RANGE, format!("bytes {start}-{}/{total}", total.saturating_sub(1)));
    }
    if method == Method::HEAD {
        return response.body(Body::empty()).unwrap();
    }
    let (hub, pace) = (hub.clone(), hub.edit(|repo| repo.pace));
    let pieces: Vec<Bytes> = body[..cut.unwrap_or(body.len()).min(body.len())]
        .chunks(16 << 10)
        .map(Bytes::copy_from_slice)
        .collect();
    let broken = cut.is_some() && announce;
    let stream = futures_util::stream::unfold((pieces.into_iter(), false), move |(mut pieces, ended)| {
        let hub = hub.clone();
        async move {
            if ended {
                return None;
            }
            match pieces.next() {
                Some(piece) => {
                    tokio::time::sleep(pace).await;
                    hub.edit(|repo| repo.sent += piece.len());
                    Some((Ok(piece), (pieces, false)))
                }
                None if hang => {
                    tokio::time::sleep(Duration::from_hours(1)).await;
                    None
                }
                None if broken => Some((Err(std::io::Error::other("broken")), (pieces, true))),
                None => None,
            }
        }
    });
    response.body(Body::from_stream(stream)).unwrap()
}
