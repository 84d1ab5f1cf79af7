use super::{Network, cause, is_passing, retry_after};
use crate::{HubError, Job, Result, Stage, disk};
use futures_util::StreamExt;
use reqwest::{Response, StatusCode, header};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use std::{
    fs::File,
    io::Read,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// What the bytes must hash to, lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Digest {
    Sha256(String),
    /// Git's object name: SHA-1 of `blob <size>\0` and the content.
    GitBlob(String),
    Unknown,
}

/// A file on a server.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    pub(crate) url: String,
    /// Repository and file, for messages.
    pub(crate) repo: String,
    pub(crate) file: String,
    pub(crate) size: Option<u64>,
    pub(crate) digest: Digest,
    /// Sends the hub's token.
    pub(crate) authorized: bool,
}

/// Adds the bytes of files that arrive side by side and reports at most ten times a second.
pub(crate) struct Meter {
    job: Job,
    what: String,
    total: u64,
    files: Vec<AtomicU64>,
    last: Mutex<Instant>,
}

impl Meter {
    pub(crate) fn new(job: &Job, what: &str, total: u64, files: usize) -> Self {
        Self {
            job: job.clone(),
            what: what.to_owned(),
            total,
            files: (0..files).map(|_| AtomicU64::new(0)).collect(),
            last: Mutex::new(Instant::now()),
        }
    }

    pub(crate) fn set(&self, file: usize, bytes: u64) {
        self.files[file].store(bytes, Relaxed);
        let done = self.files.iter().map(|n| n.load(Relaxed)).sum();
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if done >= self.total || last.elapsed() > Duration::from_millis(100) {
            *last = Instant::now();
            drop(last);
            self.job.report(Stage::Downloading, self.what.as_str(), done, self.total);
        }
    }
}

/// How one attempt ended.
enum Outcome {
    Complete,
    /// Worth another attempt; what arrived is kept.
    Again {
        reason: String,
        after: Option<Duration>,
    },
}

/// Brings `remote` into `partial`, going on from what is already there, and checks it. The bytes are on the disk when
/// this returns; the caller renames.
///
/// A partial file survives every failure but a wrong checksum. Another attempt is made while attempts bring bytes; after
/// [`super::Patience::attempts`] in a row that brought none it is given up.
pub(crate) async fn fetch(net: &Network, remote: &Remote, partial: &Path, job: &Job, report: &(dyn Fn(u64) + Sync)) -> Result<()> {
    let mut fruitless = 0;
    let mut discarded = false;
    loop {
        job.check()?;
        let before = length(partial);
        match attempt(net, remote, partial, job, report).await? {
            Outcome::Complete => match verify(remote, partial, job).await? {
                Ok(()) => {
                    disk::remove_file(&validator_path(partial))?;
                    return Ok(());
                }
                Err(reason) => {
                    disk::remove_file(partial)?;
                    disk::remove_file(&validator_path(partial))?;
                    // A partial file from before may be at fault: one clean attempt tells.
                    if before == 0 || discarded {
                        return Err(HubError::Checksum {
                            file: remote.file.clone(),
                            reason,
                        });
                    }
                    tracing::warn!(file = remote.file, reason, "the resumed file is damaged; starting over");
                    discarded = true;
                }
            },
            Outcome::Again { reason, after } => {
                fruitless = if length(partial) > before { 0 } else { fruitless + 1 };
                tracing::debug!(file = remote.file, reason, fruitless, "download interrupted");
                if fruitless >= net.patience.attempts {
                    return Err(HubError::Network {
                        what: format!("downloading `{}` of `{}`", remote.file, remote.repo),
                        attempts: fruitless,
                        reason,
                    });
                }
                let backoff = net.patience.backoff.saturating_mul(1 << fruitless.min(10)) / 2;
                let wait = after.unwrap_or_else(|| backoff.min(Duration::from_secs(30)));
                job.race(async {
                    tokio::time::sleep(wait).await;
                    Ok(())
                })
                .await?;
            }
        }
    }
}

async fn attempt(net: &Network, remote: &Remote, partial: &Path, job: &Job, report: &(dyn Fn(u64) + Sync)) -> Result<Outcome> {
    let mut have = length(partial);
    if remote.size.is_some_and(|size| have > size) {
        truncate(partial)?;
        have = 0;
    }
    report(have);
    if remote.size == Some(have) && have > 0 {
        return Ok(Outcome::Complete);
    }
    let mut request = net.client()?.get(&remote.url).header(header::ACCEPT_ENCODING, "identity");
    if remote.authorized {
        request = net.authorized(request);
    }
    if have > 0 {
        request = request.header(header::RANGE, format!("bytes={have}-"));
        // A server whose copy has changed answers with the whole new file instead of a piece that does not fit.
        if let Ok(validator) = std::fs::read_to_string(validator_path(partial)) {
            request = request.header(header::IF_RANGE, validator);
        }
    }
    let sent = job
        .race(async { Ok(tokio::time::timeout(net.patience.stall, request.send()).await) })
        .await?;
    let response = match sent {
        Ok(Ok(response)) => response,
        Ok(Err(e)) => return Ok(again(cause(&e))),
        Err(_) => return Ok(again("the server does not answer".into())),
    };
    match response.status() {
        StatusCode::PARTIAL_CONTENT => {
            let (start, total) = content_range(&response).unwrap_or((u64::MAX, None));
            if have == 0 || start != have || (total.is_some() && remote.size.is_some() && total != remote.size) {
                truncate(partial)?;
                return Ok(again("the server sent another piece than was asked for".into()));
            }
        }
        StatusCode::OK => {
            if let (Some(announced), Some(size)) = (response.content_length(), remote.size)
                && announced != size
            {
                return Ok(again(format!("the server announces {announced} bytes instead of {size}")));
            }
            // The whole file comes, whether or not a piece was asked for.
            truncate(partial)?;
            have = 0;
            keep_validator(&response, partial)?;
        }
        StatusCode::RANGE_NOT_SATISFIABLE => {
            let total = content_range(&response).and_then(|(_, total)| total);
            if remote.size.is_none() && total == Some(have) {
                return Ok(Outcome::Complete);
            }
            truncate(partial)?;
            return Ok(again("the server does not have that part".into()));
        }
        status if is_passing(status) => {
            return Ok(Outcome::Again {
                reason: status.to_string(),
                after: retry_after(&response),
            });
        }
        _ => return Err(net.refusal(&remote.repo, "main", Some(&remote.file), &response)),
    }
    Body {
        net,
        remote,
        partial,
        job,
        report,
    }
    .receive(have, response)
    .await
}

struct Body<'a> {
    net: &'a Network,
    remote: &'a Remote,
    partial: &'a Path,
    job: &'a Job,
    report: &'a (dyn Fn(u64) + Sync),
}

impl Body<'_> {
    /// Streams a body to `partial` from byte `have` on, written by a thread of its own: a slow disk must not stop the
    /// other downloads. Writes are positional, so a writer that outlives its dropped download does no harm.
    async fn receive(self, mut have: u64, response: Response) -> Result<Outcome> {
        let (sender, mut pieces) = tokio::sync::mpsc::channel::<(u64, bytes::Bytes)>(16);
        let path = self.partial.to_owned();
        let writer = tokio::task::spawn_blocking(move || -> std::io::Result<()> {
            let file = File::options().create(true).truncate(false).write(true).open(&path)?;
            while let Some((at, piece)) = pieces.blocking_recv() {
                file.write_all_at(&piece, at)?;
            }
            Ok(())
        });
        let announced = response.content_length().map(|length| have + length).or(self.remote.size);
        let mut stream = response.bytes_stream();
        let stall = self.net.patience.stall;
        let ended = loop {
            let piece = tokio::select! {
                biased;
                () = self.job.token().cancelled() => break Err("cancelled".into()),
                piece = tokio::time::timeout(stall, stream.next()) => piece,
            };
            match piece {
                Err(_) => break Err(format!("nothing came for {} s", stall.as_secs_f32())),
                Ok(Some(Err(e))) => break Err(cause(&e)),
                Ok(None) => break Ok(()),
                Ok(Some(Ok(piece))) => {
                    let at = have;
                    have += piece.len() as u64;
                    if self.remote.size.is_some_and(|size| have > size) {
                        break Err("the server sent more bytes than the file has".into());
                    }
                    if sender.send((at, piece)).await.is_err() {
                        break Ok(()); // The writer's own error comes below.
                    }
                    (self.report)(have);
                    let came = (have - at) as usize;
                    tokio::select! {
                        biased;
                        () = self.job.token().cancelled() => {}
                        () = self.net.limit.pass(came) => {}
                    }
                }
            }
        };
        drop(sender);
        writer
            .await
            .map_err(|e| HubError::Internal(e.to_string()))?
            .map_err(HubError::io("write", self.partial))?;
        self.job.check()?;
        Ok(match (ended, announced) {
            (Err(reason), _) => again(reason),
            (Ok(()), Some(size)) if have != size => again(format!("the connection ended at byte {have} of {size}")),
            (Ok(()), _) => Outcome::Complete,
        })
    }
}

fn again(reason: String) -> Outcome {
    Outcome::Again { reason, after: None }
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}

fn truncate(partial: &Path) -> Result<()> {
    disk::remove_file(&validator_path(partial))?;
    if length(partial) > 0 {
        File::options()
            .write(true)
            .open(partial)
            .and_then(|file| file.set_len(0))
            .map_err(HubError::io("write", partial))?;
    }
    Ok(())
}

/// The server's own strong validator is kept beside the partial file: content networks name a file differently from
/// the hub, and only their name makes `If-Range` mean anything to them.
fn validator_path(partial: &Path) -> PathBuf {
    let mut name = partial.as_os_str().to_owned();
    name.push(".validator");
    PathBuf::from(name)
}

fn keep_validator(response: &Response, partial: &Path) -> Result<()> {
    let etag = response.headers().get(header::ETAG).and_then(|value| value.to_str().ok());
    match etag.filter(|etag| etag.starts_with('"')) {
        Some(etag) => disk::write_atomic(&validator_path(partial), etag.as_bytes()),
        None => Ok(()),
    }
}

/// Start and total of `Content-Range: bytes 5-9/10`; the start of `bytes */10` is 0.
fn content_range(response: &Response) -> Option<(u64, Option<u64>)> {
    let text = response.headers().get(header::CONTENT_RANGE)?.to_str().ok()?;
    parse_range(text)
}

fn parse_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let start = if range == "*" {
        0
    } else {
        range.split_once('-')?.0.trim().parse().ok()?
    };
    Some((start, total.trim().parse().ok()))
}

/// Checks size and digest and syncs; the inner error is why the file is wrong.
async fn verify(remote: &Remote, partial: &Path, job: &Job) -> Result<Result<(), String>> {
    let (path, digest, size, job) = (partial.to_owned(), remote.digest.clone(), remote.size, job.clone());
    let file = remote.file.clone();
    tokio::task::spawn_blocking(move || {
        let have = length(&path);
        if let Some(size) = size.filter(|size| *size != have) {
            return Ok(Err(format!("{have} bytes instead of {size}")));
        }
        if !check_digest(&path, &digest, &file, &job)? {
            return Ok(Err("its checksum is wrong".into()));
        }
        File::open(&path)
            .and_then(|file| file.sync_all())
            .map_err(HubError::io("write", &path))?;
        Ok(Ok(()))
    })
    .await
    .map_err(|e| HubError::Internal(e.to_string()))?
}

/// True where the file at `path` hashes to `digest`. Blocking.
pub(crate) fn check_digest(path: &Path, digest: &Digest, what: &str, job: &Job) -> Result<bool> {
    let (mut sha256, mut sha1) = (Sha256::new(), Sha1::new());
    let mut file = File::open(path).map_err(HubError::io("open", path))?;
    let total = length(path);
    if let Digest::GitBlob(_) = digest {
        sha1.update(format!("blob {total}\0"));
    }
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0_u64;
    loop {
        job.check()?;
        let count = file.read(&mut buffer).map_err(HubError::io("read", path))?;
        if count == 0 {
            break;
        }
        match digest {
            Digest::Sha256(_) => sha256.update(&buffer[..count]),
            Digest::GitBlob(_) => sha1.update(&buffer[..count]),
            Digest::Unknown => return Ok(true),
        }
        done += count as u64;
        if done.is_multiple_of(64 << 20) {
            job.report(Stage::Verifying, what, done, total);
        }
    }
    Ok(match digest {
        Digest::Sha256(want) => hex(&sha256.finalize()) == *want,
        Digest::GitBlob(want) => hex(&sha1.finalize()) == *want,
        Digest::Unknown => true,
    })
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges() {
        assert_eq!(parse_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(parse_range("bytes 5-9/*"), Some((5, None)));
        assert_eq!(parse_range("bytes */10"), Some((0, Some(10))));
        assert_eq!(parse_range("bytes x-9/10"), None);
        assert_eq!(parse_range("lines 5-9/10"), None);
    }

    #[test]
    fn git_blob_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "hello\n").unwrap();
        let job = Job::silent();
        // `git hash-object` of the same six bytes.
        let digest = Digest::GitBlob("ce013625030ba8dba906f756967f9e9ca394464a".into());
        assert!(check_digest(&path, &digest, "f", &job).unwrap());
        assert!(!check_digest(&path, &Digest::Sha256("00".into()), "f", &job).unwrap());
    }
}
