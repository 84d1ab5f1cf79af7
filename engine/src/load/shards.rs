//! The safetensors files of a folder: which ones, whether they are whole, and what they hold. Headers are checked
//! before MLX sees a file, because an offset outside it would read beyond its end.

use super::{LoadError, config::read_json};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Read,
    path::{Component, Path, PathBuf},
};

type Result<T> = std::result::Result<T, LoadError>;

/// Larger headers are an attack or a mistake: a million tensors need 100 bytes each.
const MAX_HEADER: u64 = 100 << 20;

/// One tensor as a header describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// `F32`, `BF16`, `U32`, …
    pub dtype: String,
    pub shape: Vec<u64>,
    pub bytes: u64,
}

/// A file and what it holds.
#[derive(Debug)]
pub struct Shard {
    pub path: PathBuf,
    pub tensors: BTreeMap<String, TensorInfo>,
}

impl Shard {
    pub(super) fn bytes(&self) -> u64 {
        self.tensors.values().map(|tensor| tensor.bytes).sum()
    }

    /// Reads and checks the header.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut file = File::open(path).map_err(|error| LoadError::file(path, &error))?;
        let size = file.metadata().map_err(|error| LoadError::file(path, &error))?.len();
        let corrupt = |reason: String| LoadError::Corrupt {
            path: path.to_owned(),
            reason,
        };
        let mut length = [0; 8];
        file.read_exact(&mut length)
            .map_err(|_| corrupt(format!("truncated: {size} bytes are too few for a safetensors header")))?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER {
            return Err(corrupt(format!(
                "its header claims {length} bytes, at most {MAX_HEADER} are accepted"
            )));
        }
        if length + 8 > size {
            return Err(corrupt(format!(
                "truncated: the file has {size} bytes, its header alone needs {}",
                length + 8
            )));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(|error| LoadError::file(path, &error))?;
        let header: Map<String, Value> =
            serde_json::from_slice(&header).map_err(|error| corrupt(format!("its header is not JSON ({error})")))?;
        let mut tensors = BTreeMap::new();
        let mut end = 0;
        for (name, entry) in header.iter().filter(|(name, _)| *name != "__metadata__") {
            let (tensor, last) = describe(entry).map_err(|reason| corrupt(format!("tensor `{name}` {reason}")))?;
            end = end.max(last);
            tensors.insert(name.clone(), tensor);
        }
        let declared = end.saturating_add(8 + length);
        if declared > size {
            return Err(corrupt(format!(
                "truncated: the file has {size} bytes, its header declares {declared}"
            )));
        }
        Ok(Self {
            path: path.to_owned(),
            tensors,
        })
    }
}

/// A header entry, checked for consistency, and where its data ends.
fn describe(entry: &Value) -> std::result::Result<(TensorInfo, u64), String> {
    let dtype = entry.get("dtype").and_then(Value::as_str).ok_or("has no dtype")?;
    let numbers = |key: &str| -> Option<Vec<u64>> { entry.get(key)?.as_array()?.iter().map(Value::as_u64).collect() };
    let shape = numbers("shape").ok_or("has no shape")?;
    let Some([start, end]) = numbers("data_offsets").and_then(|offsets| <[u64; 2]>::try_from(offsets).ok()) else {
        return Err("has no data offsets".into());
    };
    let width = match dtype {
        "BOOL" | "U8" | "I8" | "F8_E4M3" | "F8_E5M2" | "F8_E8M0" => 1,
        "U16" | "I16" | "F16" | "BF16" => 2,
        "U32" | "I32" | "F32" => 4,
        "U64" | "I64" | "F64" => 8,
        other => return Err(format!("has the unknown dtype `{other}`")),
    };
    let need = shape
        .iter()
        .try_fold(width, |bytes: u64, &n| bytes.checked_mul(n))
        .ok_or("has an impossible shape")?;
    if end < start || end - start != need {
        return Err(format!(
            "of shape {shape:?} and dtype {dtype} needs {need} bytes, its offsets are {start}..{end}"
        ));
    }
    let tensor = TensorInfo {
        dtype: dtype.to_owned(),
        shape,
        bytes: need,
    };
    Ok((tensor, end))
}

/// The weight files of a target: those that the index names and `model*.safetensors`; without either, every
/// `*.safetensors`.
///
/// # Errors
/// When files are missing, corrupt, links out of the folder, or when there are only weights of another kind.
pub(crate) fn find(dir: &Path) -> Result<Vec<Shard>> {
    let names = list(dir)?;
    let has = |suffix: &str| names.iter().find(|name| name.to_lowercase().ends_with(suffix));
    let mut files: BTreeSet<String> = names.iter().filter(|name| name.ends_with(".safetensors")).cloned().collect();
    if files.iter().any(|name| name.starts_with("model")) {
        files.retain(|name| name.starts_with("model"));
    }
    let index = index(dir)?;
    let missing: Vec<String> = index
        .values()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .filter(|file| !names.contains(*file))
        .cloned()
        .collect();
    if files.is_empty() && missing.is_empty() {
        let pickle = [".bin", ".pt", ".pth", ".pkl", ".ckpt"].into_iter().find_map(has);
        return Err(match (pickle, has(".gguf")) {
            (Some(file), _) => LoadError::Pickle {
                path: dir.to_owned(),
                file: file.clone(),
            },
            (None, Some(file)) => LoadError::NotAModel {
                path: dir.to_owned(),
                reason: format!("it holds GGUF weights ({file}): get the MLX build of the model, or convert it"),
            },
            (None, None) => LoadError::NotAModel {
                path: dir.to_owned(),
                reason: "it has no *.safetensors file: the download may not have finished".into(),
            },
        });
    }
    files.extend(index.values().filter(|file| names.contains(*file)).cloned());
    let root = link_root(dir);
    let open = |name: &String| {
        let path = dir.join(name);
        stays_inside(&path, &root)?;
        Shard::open(&path)
    };
    let shards = files.iter().map(open).collect::<Result<Vec<_>>>()?;
    // An index may be left over from before the shards were merged; then every tensor it names is here.
    let here = |tensor: &String| shards.iter().any(|shard| shard.tensors.contains_key(tensor));
    if !missing.is_empty() && !index.keys().all(here) {
        return Err(LoadError::Incomplete {
            path: dir.to_owned(),
            missing,
        });
    }
    Ok(shards)
}

/// Weight files of the folder besides `found` that hold one of the tensors `wanted`.
///
/// # Errors
/// As [`find`].
pub(crate) fn find_beside(dir: &Path, found: &[Shard], wanted: &[&str]) -> Result<Vec<Shard>> {
    let root = link_root(dir);
    let mut more = Vec::new();
    for name in list(dir)?.iter().filter(|name| name.ends_with(".safetensors")) {
        let path = dir.join(name);
        if found.iter().any(|shard| shard.path == path) {
            continue;
        }
        stays_inside(&path, &root)?;
        let shard = Shard::open(&path)?;
        if wanted.iter().any(|tensor| shard.tensors.contains_key(*tensor)) {
            more.push(shard);
        }
    }
    Ok(more)
}

fn list(dir: &Path) -> Result<BTreeSet<String>> {
    let entries = std::fs::read_dir(dir).map_err(|error| LoadError::file(dir, &error))?;
    let mut names = BTreeSet::new();
    for entry in entries {
        let name = entry.map_err(|error| LoadError::file(dir, &error))?.file_name();
        // A dangling link (a download that has not finished) is a missing file.
        if dir.join(&name).exists() {
            names.extend(name.into_string());
        }
    }
    Ok(names)
}

/// Tensor name to file, from `model.safetensors.index.json`; empty without one.
fn index(dir: &Path) -> Result<BTreeMap<String, String>> {
    let path = dir.join("model.safetensors.index.json");
    let Some(json) = read_json(&path)? else {
        return Ok(BTreeMap::new());
    };
    let corrupt = |reason: &str| LoadError::Corrupt {
        path: path.clone(),
        reason: reason.to_owned(),
    };
    let map = json
        .get("weight_map")
        .and_then(Value::as_object)
        .ok_or_else(|| corrupt("it has no `weight_map`"))?;
    map.iter()
        .map(|(tensor, file)| {
            let file = file.as_str().ok_or_else(|| corrupt("a file name in it is not text"))?;
            let mut parts = Path::new(file).components();
            match (parts.next(), parts.next()) {
                (Some(Component::Normal(_)), None) if file.ends_with(".safetensors") => Ok((tensor.clone(), file.to_owned())),
                _ => Err(corrupt(&format!("it names `{file}`, which is not a weight file of this folder"))),
            }
        })
        .collect()
}

/// Where links may lead: the folder itself, or the repository folder of a hub cache, whose snapshots are links into
/// its `blobs`.
pub(crate) fn link_root(dir: &Path) -> PathBuf {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let cache = dir
        .parent()
        .filter(|snapshots| snapshots.ends_with("snapshots"))
        .and_then(Path::parent);
    match cache.filter(|repository| repository.join("blobs").is_dir()) {
        Some(repository) => repository.to_owned(),
        None => dir,
    }
}

pub(crate) fn stays_inside(path: &Path, root: &Path) -> Result<()> {
    let real = path.canonicalize().map_err(|error| LoadError::file(path, &error))?;
    if real.starts_with(root) {
        return Ok(());
    }
    Err(LoadError::File {
        path: path.to_owned(),
        reason: format!(
            "it is a link out of the model folder (to `{}`): copy the file into the folder",
            real.display()
        ),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
