use super::{Digest, Network, is_passing, retry_after};
use crate::{HubError, Job, Result};
use reqwest::{Response, StatusCode, header};
use serde_json::Value;
use std::{fmt, str::FromStr, time::Duration};

/// `owner/name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RepoId {
    pub owner: String,
    pub name: String,
}

impl RepoId {
    /// The folder of the Hugging Face cache: `models--owner--name`.
    pub(crate) fn folder(&self) -> String {
        format!("models--{}--{}", self.owner, self.name)
    }

    pub(crate) fn from_folder(folder: &str) -> Option<Self> {
        let (owner, name) = folder.strip_prefix("models--")?.split_once("--")?;
        format!("{owner}/{name}").parse().ok()
    }
}

impl fmt::Display for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

impl FromStr for RepoId {
    type Err = HubError;

    fn from_str(text: &str) -> Result<Self> {
        let part = |part: &str| {
            !part.is_empty()
                && part.len() <= 96
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
                && !part.contains("..")
                && !part.contains("--")
                && !part.starts_with(['.', '-'])
                && !part.ends_with(['.', '-'])
        };
        match text.split_once('/') {
            Some((owner, name)) if part(owner) && part(name) => Ok(Self {
                owner: owner.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err(HubError::BadName { name: text.to_owned() }),
        }
    }
}

/// A file of a repository, as the hub describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoFile {
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// The hub's ETag: SHA-256 for large files, the git blob name for small ones. The cache names its blobs so.
    pub(crate) etag: String,
    pub(crate) digest: Digest,
}

/// A repository at one commit.
#[derive(Debug, Clone)]
pub struct RepoInfo {
    pub id: RepoId,
    pub commit: String,
    pub files: Vec<RepoFile>,
}

impl RepoInfo {
    /// Bytes of the files that [`crate::Hub::download`] would fetch.
    pub fn download_bytes(&self) -> u64 {
        self.wanted().iter().map(|file| file.size).sum()
    }

    /// Bytes of weights among them.
    pub fn weight_bytes(&self) -> u64 {
        self.wanted()
            .iter()
            .filter(|file| file.path.ends_with(".safetensors"))
            .map(|file| file.size)
            .sum()
    }

    /// What the engine reads: weights, configuration, tokenizer, templates. Never code or pickles, nor a second copy of
    /// the weights under another framework's name.
    pub(crate) fn wanted(&self) -> Vec<&RepoFile> {
        let named = |file: &RepoFile, prefix: &str| file.path.starts_with(prefix) && file.path.ends_with(".safetensors");
        let duplicates = self.files.iter().any(|file| named(file, "model"));
        self.files
            .iter()
            .filter(|file| is_wanted(&file.path) && !(duplicates && named(file, "consolidated")))
            .collect()
    }

    /// Why this repository cannot be loaded, where it cannot.
    pub(crate) fn check_loadable(&self) -> Result<()> {
        let has = |suffix: &str| self.files.iter().any(|file| file.path.ends_with(suffix));
        let weights = self.wanted().iter().any(|file| file.path.ends_with(".safetensors"));
        let reason = if weights && self.files.iter().any(|file| file.path == "config.json") {
            return Ok(());
        } else if weights {
            "it has no config.json"
        } else if has(".gguf") {
            "its weights are GGUF files; look for the MLX build of the model"
        } else if has(".bin") || has(".pt") || has(".pth") {
            "its weights are pickles, which can run code; look for a safetensors build"
        } else {
            "it has no safetensors files"
        };
        Err(HubError::NothingToLoad {
            repo: self.id.to_string(),
            reason: reason.into(),
        })
    }
}

fn is_wanted(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let suffix = |list: &[&str]| list.iter().any(|suffix| name.ends_with(suffix));
    match folder {
        "" => suffix(&[".safetensors", ".json", ".jinja", ".txt"]) || name == "tokenizer.model",
        "additional_chat_templates" => suffix(&[".jinja"]),
        _ => false,
    }
}

/// A path from a server becomes a path on this machine only if it stays inside its folder.
fn is_safe(path: &str) -> bool {
    !path.is_empty() && !path.contains(['\\', '\0']) && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

fn is_hex(text: &str, lengths: &[usize]) -> bool {
    lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

impl Network {
    /// Asks the hub what `revision` of a repository holds.
    ///
    /// # Errors
    /// Absent, private, gated, refused, unreachable and offline are told apart.
    pub(crate) async fn info(&self, id: &RepoId, revision: &str, job: &Job) -> Result<RepoInfo> {
        if self.offline {
            return Err(HubError::Offline { what: id.to_string() });
        }
        let url = format!("{}/api/models/{id}/revision/{}?blobs=true", self.endpoint, escape(revision));
        let response = self.get(&url, &id.to_string(), revision, job).await?;
        let nonsense = |reason: &str| HubError::BadReply {
            repo: id.to_string(),
            reason: reason.into(),
        };
        let reply = job.race(async { response.bytes().await.map_err(|e| self.unreachable(&e)) }).await?;
        let reply: Value = serde_json::from_slice(&reply).map_err(|_| nonsense("it is not JSON; a login page of the network, perhaps"))?;
        let commit = reply["sha"]
            .as_str()
            .filter(|sha| is_hex(sha, &[40]))
            .ok_or_else(|| nonsense("it names no commit"))?;
        let mut files = Vec::new();
        for entry in reply["siblings"].as_array().ok_or_else(|| nonsense("it lists no files"))? {
            let path = entry["rfilename"].as_str().ok_or_else(|| nonsense("a file has no name"))?;
            if !is_safe(path) {
                return Err(nonsense("a file's name leads out of its folder"));
            }
            match described(path, entry) {
                Some(file) => files.push(file),
                // A mirror may leave sizes out; only files that will be fetched are worth a question each.
                None if is_wanted(path) => files.push(self.describe(id, commit, path, job).await?),
                None => files.push(RepoFile {
                    path: path.to_owned(),
                    size: 0,
                    etag: String::new(),
                    digest: Digest::Unknown,
                }),
            }
        }
        Ok(RepoInfo {
            id: id.clone(),
            commit: commit.to_owned(),
            files,
        })
    }

    /// A small JSON file of a repository.
    pub(crate) async fn json(&self, info: &RepoInfo, path: &str, job: &Job) -> Result<Value> {
        const MOST: u64 = 16 << 20;
        let repo = info.id.to_string();
        let bad = |reason: &str| HubError::BadReply {
            repo: repo.clone(),
            reason: format!("`{path}` {reason}"),
        };
        let size = info.files.iter().find(|file| file.path == path).map(|file| file.size);
        match size {
            Some(size) if size <= MOST => {}
            Some(_) => return Err(bad("is far too large")),
            None => {
                return Err(HubError::FileNotFound {
                    repo: repo.clone(),
                    file: path.to_owned(),
                });
            }
        }
        let response = self
            .get(&self.file_url(&info.id, &info.commit, path), &repo, &info.commit, job)
            .await?;
        if response.content_length().is_some_and(|length| length > MOST) {
            return Err(bad("is far too large"));
        }
        let bytes = job.race(async { response.bytes().await.map_err(|e| self.unreachable(&e)) }).await?;
        serde_json::from_slice(&bytes).map_err(|_| bad("is not JSON"))
    }

    pub(crate) fn file_url(&self, id: &RepoId, commit: &str, path: &str) -> String {
        let path: Vec<String> = path.split('/').map(escape).collect();
        format!("{}/{id}/resolve/{commit}/{}", self.endpoint, path.join("/"))
    }

    /// A file's size and ETag from the headers of its own address. Redirects are not followed: the hub's answer carries
    /// both, the content network's does not.
    async fn describe(&self, id: &RepoId, commit: &str, path: &str, job: &Job) -> Result<RepoFile> {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(self.patience.connect)
            .build()
            .map_err(|e| self.unreachable(&e))?;
        let request = self.authorized(
            client
                .head(self.file_url(id, commit, path))
                .header(header::ACCEPT_ENCODING, "identity"),
        );
        let response = job
            .race(async { request.timeout(self.patience.stall).send().await.map_err(|e| self.unreachable(&e)) })
            .await?;
        if response.status().is_client_error() {
            return Err(self.refusal(&id.to_string(), commit, Some(path), &response));
        }
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let etag = header("x-linked-etag")
            .or_else(|| header("etag"))
            .map(|etag| etag.trim_start_matches("W/").trim_matches('"'));
        let size = header("x-linked-size")
            .or_else(|| header("content-length"))
            .and_then(|text| text.parse().ok());
        etag.zip(size)
            .and_then(|(etag, size)| file(path, size, etag))
            .ok_or_else(|| HubError::BadReply {
                repo: id.to_string(),
                reason: format!("it does not say how large `{path}` is"),
            })
    }

    pub(super) async fn get(&self, url: &str, repo: &str, revision: &str, job: &Job) -> Result<Response> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let request = self.authorized(self.client()?.get(url)).timeout(self.patience.stall);
            let sent = job.race(async { Ok(request.send().await) }).await?;
            let (error, after) = match sent {
                Ok(response) if response.status().is_success() => return Ok(response),
                Ok(response) if is_passing(response.status()) => {
                    let after = retry_after(&response);
                    let error = if response.status() == StatusCode::TOO_MANY_REQUESTS {
                        HubError::TooMany {
                            host: self.host(),
                            after: after.map(|after| after.as_secs()),
                        }
                    } else {
                        HubError::Network {
                            what: format!("asking about `{repo}`"),
                            attempts: attempt,
                            reason: response.status().to_string(),
                        }
                    };
                    (error, after)
                }
                Ok(response) => return Err(self.refusal(repo, revision, None, &response)),
                Err(e) => (self.unreachable(&e), None),
            };
            if attempt >= self.patience.attempts.min(3) {
                return Err(error);
            }
            let wait = after.unwrap_or(self.patience.backoff * attempt).min(Duration::from_secs(30));
            job.race(async {
                tokio::time::sleep(wait).await;
                Ok(())
            })
            .await?;
        }
    }
}

fn described(path: &str, entry: &Value) -> Option<RepoFile> {
    let size = entry["lfs"]["size"].as_u64().or_else(|| entry["size"].as_u64())?;
    let etag = entry["lfs"]["sha256"].as_str().or_else(|| entry["blobId"].as_str())?;
    file(path, size, etag)
}

fn file(path: &str, size: u64, etag: &str) -> Option<RepoFile> {
    let etag = etag.to_ascii_lowercase();
    let digest = match etag.len() {
        64 => Digest::Sha256(etag.clone()),
        _ => Digest::GitBlob(etag.clone()),
    };
    is_hex(&etag, &[40, 64]).then(|| RepoFile {
        path: path.to_owned(),
        size,
        etag,
        digest,
    })
}

/// Percent-encodes one part of a path.
pub(super) fn escape(part: &str) -> String {
    use std::fmt::Write;
    part.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(byte as char);
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_names() {
        for good in ["mlx-community/Qwen3-4B-8bit", "a/b", "prism-ml/Ternary-Bonsai-27B-mlx-2bit"] {
            assert_eq!(good.parse::<RepoId>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "a",
            "a/",
            "/b",
            "a/b/c",
            "../b",
            "a/..",
            "a/b c",
            "a/b--c",
            "a/.hidden",
            "a\\b/c",
        ] {
            assert!(bad.parse::<RepoId>().is_err(), "{bad}");
        }
        assert_eq!(RepoId::from_folder("models--a-b--c").unwrap().to_string(), "a-b/c");
        assert!(RepoId::from_folder("datasets--a--b").is_none());
    }

    #[test]
    fn only_what_the_engine_reads_is_wanted() {
        for good in [
            "config.json",
            "model-00001-of-00002.safetensors",
            "chat_template.jinja",
            "tokenizer.model",
            "merges.txt",
        ] {
            assert!(is_wanted(good), "{good}");
        }
        for bad in [
            "modeling_x.py",
            "pytorch_model.bin",
            "model.gguf",
            "original/model.safetensors",
            "onnx/config.json",
            "README.md",
        ] {
            assert!(!is_wanted(bad), "{bad}");
        }
        assert!(!is_safe("../x") && !is_safe("a//b") && !is_safe("/etc/passwd") && !is_safe("a\\..\\b"));
        assert!(is_safe("additional_chat_templates/tool.jinja"));
        assert_eq!(escape("a b#é"), "a%20b%23%C3%A9");
    }
}
