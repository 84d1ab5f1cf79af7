//! From a published checkpoint (Hugging Face names or MLX's, or a GGUF file) to an MLX folder, quantized where asked. A tensor
//! goes from the disk to the disk in pieces, so memory does not grow with the model; what is written is what
//! `mlx_lm.convert` writes, byte for byte in affine packings. Contract: `spec/checkpoints.md` §1, §2–4 (names), §1.3 (packings).

mod choose;
mod companions;
mod floats;
mod pack;
mod plan;
mod stream;
mod verify;
mod writer;

pub use choose::{Override, Rule};
pub use floats::Float;

use crate::load::{Checkpoint, LoadError, Packing};
use dspark_hub::{HubError, Job, Stage, free_space, gguf};
use serde_json::{Value, json};
use std::{
    ffi::OsString,
    fs::{File, TryLockError},
    path::{Path, PathBuf},
};

/// Larger models are written as several files, as MLX does, bytes.
pub const SHARD: u64 = 5 << 30;
/// Kept free beside what is written, bytes.
const RESERVE: u64 = 1 << 30;

/// What to make of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct ConvertOptions {
    /// How matrices are packed; `None` leaves them as floats.
    pub packing: Option<Packing>,
    /// Exceptions by module path; the last that matches counts.
    pub overrides: Vec<Override>,
    /// The float type of what is not packed, and of affine scales. Left out: what `config.json` names, else as stored.
    pub float: Option<Float>,
    /// Most bytes of a file.
    pub shard: u64,
}

impl Default for ConvertOptions {
    fn default() -> Self {
        Self {
            packing: None,
            overrides: Vec::new(),
            float: None,
            shard: SHARD,
        }
    }
}

/// A finished conversion.
#[derive(Debug, Clone, PartialEq)]
pub struct Converted {
    pub path: PathBuf,
    pub model_type: String,
    pub tensors: usize,
    pub files: usize,
    /// Bytes of weights read and written.
    pub read: u64,
    pub written: u64,
    pub parameters: u64,
    /// Bits a parameter takes, scales included.
    pub bits_per_weight: f64,
    /// Tensors that an earlier run had already written.
    pub resumed: usize,
    /// What a person should know, one sentence each.
    pub notes: Vec<String>,
}

/// Why a conversion was not done: what happened, the likely cause, what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Hub(HubError),
    /// Asked for something that cannot be.
    #[error("{0}")]
    Usage(String),
    /// Could be done, but the result would be worse than it looks.
    #[error("{0}")]
    Refused(String),
    #[error("`{}` is there already: name another folder, or delete it first", .0.display())]
    Exists(PathBuf),
    #[error("another process is converting to `{}`: wait for it", .0.display())]
    Busy(PathBuf),
    #[error("not enough disk space for `{}`: {} needed, {} free; delete something or name a folder on another disk", path.display(), dspark_hub::size(*needed), dspark_hub::size(*free))]
    DiskFull { path: PathBuf, needed: u64, free: u64 },
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("tensor `{name}` of `{}` holds a value that is not a finite number: the file is damaged, or training went wrong; download it again", path.display())]
    NotFinite { name: String, path: PathBuf },
    #[error("tensor `{name}` does not read back as it was written to `{}`: the disk may be failing; delete the folder and convert again", path.display())]
    Readback { name: String, path: PathBuf },
    #[error("conversion was interrupted; what is done is kept: give the same command to go on")]
    Cancelled,
}

impl ConvertError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

impl From<HubError> for ConvertError {
    fn from(error: HubError) -> Self {
        match error {
            HubError::Cancelled => Self::Cancelled,
            other => Self::Hub(other),
        }
    }
}

type Result<T> = std::result::Result<T, ConvertError>;

/// Converts the checkpoint at `source`, a folder or a GGUF file, to the new folder `dest`.
///
/// `dest` appears complete or not at all: everything is written to `.<dest>.partial` beside it, read back and renamed. A run
/// that was stopped goes on where it was when it is asked for the same again. Resident memory stays below 300 MB beside what
/// the process held, whatever the size of the model.
///
/// # Errors
/// [`ConvertError`]; nothing is written where headers, options or disk space tell that it would not end well.
pub fn convert(source: &Path, dest: &Path, options: &ConvertOptions, job: &Job) -> Result<Converted> {
    if dest.exists() {
        return Err(ConvertError::Exists(dest.to_owned()));
    }
    if let Some(file) = gguf_file(source)? {
        return from_gguf(&file, dest, options, job);
    }
    from_folder(source, dest, options, job, &source.display().to_string())
}

fn from_folder(source: &Path, dest: &Path, options: &ConvertOptions, job: &Job, origin: &str) -> Result<Converted> {
    let checkpoint = Checkpoint::open(source)?;
    let plan = plan::Plan::new(&checkpoint, options)?;
    let parent = dest
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(ConvertError::io("create", parent))?;
    let _lock = lock(&sibling(dest, ".lock"), dest)?;
    let partial = sibling(dest, ".partial");
    let mut writer = writer::Writer::open(&partial, &plan, options.shard)?;
    room(parent, writer.left())?;

    let resumed = writer.done();
    stream::run(&plan, &mut writer, job)?;
    let (files, written) = writer.finish()?;
    companions::copy(source, &partial)?;
    companions::config(&checkpoint, &plan, &partial)?;
    verify::run(&plan, &partial, writer.digests(), job)?;
    writer.forget()?;
    let notes = plan.notes(&checkpoint);
    companions::record(&partial, origin, &plan)?;
    std::fs::rename(&partial, dest).map_err(ConvertError::io("create", dest))?;
    job.report(Stage::Ready, dest.display().to_string(), written, written);
    let parameters = checkpoint.spec.parameters();
    Ok(Converted {
        path: dest.to_owned(),
        model_type: checkpoint.model_type,
        tensors: plan.tensors(),
        files,
        read: plan.bytes(),
        written,
        parameters,
        bits_per_weight: written as f64 * 8.0 / parameters as f64,
        resumed,
        notes,
    })
}

/// The exact conversion of the file; packed on from there where that is asked for and the file holds floats.
fn from_gguf(file: &Path, dest: &Path, options: &ConvertOptions, job: &Job) -> Result<Converted> {
    let floats = gguf::GgufFile::open(file)?
        .tensors
        .iter()
        .all(|tensor| matches!(tensor.dtype, gguf::DType::F32 | gguf::DType::F16 | gguf::DType::BF16));
    let origin = file.display().to_string();
    let plain = options.packing.is_none() && options.float.is_none() && options.overrides.is_empty();
    if plain {
        let done = gguf::convert(file, dest, &origin, job)?;
        let checkpoint = Checkpoint::open(dest)?;
        let parameters = checkpoint.spec.parameters();
        return Ok(Converted {
            path: done.path,
            model_type: checkpoint.model_type,
            tensors: done.tensors,
            files: 1.max(done.bytes.div_ceil(SHARD) as usize),
            read: done.bytes,
            written: done.bytes,
            parameters,
            bits_per_weight: done.bytes as f64 * 8.0 / parameters as f64,
            resumed: 0,
            notes: vec!["Every weight is exactly the GGUF file's.".into()],
        });
    }
    if !floats {
        return Err(ConvertError::Refused(format!(
            "`{origin}` is quantized already, and packing it again would lose more: leave out the options to get exactly its \
             weights, or take the F16 or BF16 file"
        )));
    }
    let between = sibling(dest, ".gguf");
    gguf::convert(file, &between, &origin, job)?;
    let converted = from_folder(&between, dest, options, job, &origin)?;
    std::fs::remove_dir_all(&between).map_err(ConvertError::io("delete", &between))?;
    Ok(converted)
}

/// The GGUF file that `source` is, or that it alone holds as a folder without safetensors.
fn gguf_file(source: &Path) -> Result<Option<PathBuf>> {
    let is = |path: &Path, wanted: &str| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(wanted));
    if source.is_file() {
        return if is(source, "gguf") {
            Ok(Some(source.to_owned()))
        } else {
            Err(ConvertError::Usage(format!(
                "`{}` is neither a folder nor a GGUF file: name the folder that holds config.json",
                source.display()
            )))
        };
    }
    let Ok(entries) = std::fs::read_dir(source) else { return Ok(None) };
    let files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    if files.iter().any(|path| is(path, "safetensors")) {
        return Ok(None);
    }
    let mut ggufs: Vec<PathBuf> = files.into_iter().filter(|path| is(path, "gguf")).collect();
    ggufs.sort();
    match ggufs.len() {
        0 => Ok(None),
        1 => Ok(ggufs.pop()),
        _ => {
            let names: Vec<_> = ggufs
                .iter()
                .filter_map(|path| path.file_name())
                .map(|name| name.to_string_lossy())
                .collect();
            Err(ConvertError::Usage(format!(
                "`{}` holds several GGUF files ({}): name the one that is wanted",
                source.display(),
                names.join(", ")
            )))
        }
    }
}

/// `dir/name` → `dir/.name<suffix>`: hidden and on the same file system, so that a rename is atomic.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(suffix);
    path.with_file_name(name)
}

/// Held until it is dropped or its process ends.
fn lock(path: &Path, dest: &Path) -> Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(path);
    let file = file.map_err(ConvertError::io("create", path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ConvertError::Busy(dest.to_owned())),
        Err(TryLockError::Error(error)) => Err(ConvertError::io("lock", path)(error)),
    }
}

fn room(dir: &Path, bytes: u64) -> Result<()> {
    let needed = bytes.saturating_add(bytes.min(RESERVE));
    match free_space(dir) {
        Some(free) if free < needed => Err(ConvertError::DiskFull {
            path: dir.to_owned(),
            needed,
            free,
        }),
        _ => Ok(()),
    }
}

/// JSON for `--json`.
impl Converted {
    pub fn object(&self) -> Value {
        json!({
            "path": self.path, "model_type": self.model_type, "tensors": self.tensors, "files": self.files,
            "bytes_read": self.read, "bytes_written": self.written, "parameters": self.parameters,
            "bits_per_weight": self.bits_per_weight, "resumed_tensors": self.resumed, "notes": self.notes,
        })
    }
}
