//! Finding a Python wheel: where pip would fetch it from, pip itself, or the package index without pip.

use crate::{HubError, Job, Result};
use reqwest::{Url, header};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::process::Command;

/// A pinned Python package with one pure wheel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

/// Where a wheel is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wheel {
    File(PathBuf),
    Address { url: String, sha256: Option<String> },
}

impl Package {
    fn requirement(self) -> String {
        format!("{}=={}", self.name, self.version)
    }
}

/// Asks pip what it would download, so that index, proxy and certificate settings of the user hold; the bytes are then
/// fetched by us, because pip cannot resume.
pub(crate) async fn locate(python: &Path, package: Package, job: &Job) -> Result<Wheel> {
    let requirement = package.requirement();
    let report = run(
        python,
        &[
            "-m",
            "pip",
            "install",
            "--dry-run",
            "--no-deps",
            "--ignore-installed",
            "--quiet",
            "--report",
            "-",
            &requirement,
        ],
        Duration::from_mins(1),
        job,
    )
    .await?;
    let report: Value = serde_json::from_str(&report).map_err(|_| failed(python, "pip's report is not JSON"))?;
    let info = &report["install"][0]["download_info"];
    let url = info["url"].as_str().ok_or_else(|| failed(python, "pip's report names no file"))?;
    if let Some(path) = Url::parse(url)
        .ok()
        .filter(|url| url.scheme() == "file")
        .and_then(|url| url.to_file_path().ok())
    {
        return Ok(Wheel::File(path));
    }
    Ok(Wheel::Address {
        url: url.to_owned(),
        sha256: info["archive_info"]["hashes"]["sha256"].as_str().map(str::to_owned),
    })
}

/// Lets pip download the wheel into `dir` (an empty folder): the way that works where the index needs a login.
pub(crate) async fn download(python: &Path, package: Package, dir: &Path, job: &Job) -> Result<PathBuf> {
    let requirement = package.requirement();
    let target = dir.display().to_string();
    run(
        python,
        &[
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--quiet",
            "--only-binary",
            ":all:",
            "--dest",
            &target,
            &requirement,
        ],
        Duration::from_hours(1),
        job,
    )
    .await?;
    std::fs::read_dir(dir)
        .map_err(HubError::io("read", dir))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|ext| ext == "whl"))
        .ok_or_else(|| failed(python, "pip downloaded no wheel"))
}

/// Asks the package index itself (PEP 691), for machines without pip.
pub(crate) async fn locate_without_pip(client: &reqwest::Client, index: &str, package: Package, job: &Job) -> Result<Wheel> {
    let url = format!("{}/{}/", index.trim_end_matches('/'), package.name);
    let host = || {
        Url::parse(&url)
            .ok()
            .and_then(|url| url.host_str().map(str::to_owned))
            .unwrap_or_else(|| index.to_owned())
    };
    let unreachable = |e: reqwest::Error| HubError::Unreachable {
        host: host(),
        reason: crate::net::cause(&e),
    };
    let nonsense = |reason: &str| HubError::BadReply {
        repo: package.requirement(),
        reason: reason.into(),
    };
    let request = client
        .get(&url)
        .header(header::ACCEPT, "application/vnd.pypi.simple.v1+json")
        .timeout(Duration::from_secs(10));
    let reply = job
        .race(async {
            request
                .send()
                .await
                .and_then(reqwest::Response::error_for_status)
                .map_err(unreachable)
        })
        .await?;
    let base = reply.url().clone();
    let reply = job.race(async { reply.bytes().await.map_err(unreachable) }).await?;
    let reply: Value = serde_json::from_slice(&reply).map_err(|_| nonsense("the index does not answer in JSON"))?;
    let prefix = format!("{}-{}-", package.name.replace('-', "_"), package.version);
    let file = reply["files"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|file| {
            file["filename"]
                .as_str()
                .is_some_and(|name| Path::new(name).extension().is_some_and(|ext| ext == "whl") && name.starts_with(&prefix))
        })
        .ok_or_else(|| nonsense("the index has no such wheel"))?;
    let url = file["url"]
        .as_str()
        .and_then(|url| base.join(url).ok())
        .ok_or_else(|| nonsense("the index names no address"))?;
    Ok(Wheel::Address {
        url: url.into(),
        sha256: file["hashes"]["sha256"].as_str().map(str::to_owned),
    })
}

/// `python3 -m pip --version` in one line, or why there is none.
pub(crate) async fn version(python: &Path, job: &Job) -> Result<String> {
    let text = run(python, &["-m", "pip", "--version"], Duration::from_secs(10), job).await?;
    // The rest of the line is where pip lies on this machine.
    Ok(text.split(" from ").next().unwrap_or_default().trim().to_owned())
}

/// Runs Python and returns what it prints; the child ends with the job and with the future.
pub(crate) async fn run(python: &Path, args: &[&str], limit: Duration, job: &Job) -> Result<String> {
    let child = Command::new(python)
        .args(args)
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        .env("PIP_NO_INPUT", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| failed(python, &e.to_string()))?;
    let output = job
        .race(async {
            match tokio::time::timeout(limit, child.wait_with_output()).await {
                Ok(output) => output.map_err(|e| failed(python, &e.to_string())),
                Err(_) => Err(failed(python, &format!("no result within {} s", limit.as_secs()))),
            }
        })
        .await?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
    Err(failed(python, last.trim()))
}

fn failed(python: &Path, reason: &str) -> HubError {
    HubError::Program {
        program: format!("`{} -m pip`", python.display()),
        reason: reason.to_owned(),
    }
}
