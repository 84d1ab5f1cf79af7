use dspark_protocol::Curves;
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// Raised when curves of earlier versions no longer mean the same.
const SCHEMA: u32 = 1;
/// The oldest entries go first.
const MOST_ENTRIES: usize = 64;

/// What a measurement holds for. Displayed, it is the entry's name in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// As MLX names it.
    pub device: String,
    pub engine: String,
    pub mlx: String,
    pub mode: String,
    /// Repository or folder; the last part counts.
    pub target: String,
    pub drafter: Option<String>,
    /// Tokens of context.
    pub context: usize,
    pub kv_bits: Option<u32>,
    /// Kernels in use that the stock build lacks.
    pub kernels: BTreeSet<String>,
}

impl Key {
    /// Everything but the kernels.
    fn stem(&self) -> String {
        let drafter = self.drafter.as_deref().map_or_else(|| "-".into(), last_part);
        let mut parts = vec![
            format!("v{SCHEMA}"),
            plain(&self.device),
            format!("engine{}", plain(&self.engine)),
            format!("mlx{}", plain(&self.mlx)),
            plain(&self.mode),
            last_part(&self.target),
            drafter,
            format!("ctx{}", self.context),
        ];
        parts.extend(self.kv_bits.map(|bits| format!("kv{bits}")));
        parts.join("|")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.stem())?;
        self.kernels.iter().try_for_each(|kernel| write!(f, "|+{}", plain(kernel)))
    }
}

fn plain(part: &str) -> String {
    part.trim().replace(['|', '\n'], "_")
}

fn last_part(path: &str) -> String {
    plain(path.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or_default())
}

/// The calibration file could not be written; what was measured holds until the program ends.
#[derive(Debug, thiserror::Error)]
#[error("the calibration could not be kept in `{}`: {source}; it is measured again at the next start", path.display())]
pub struct CurveFileError {
    path: PathBuf,
    source: io::Error,
}

/// One JSON map of curves by [`Key`]. Absent or unreadable counts as empty; entries of other versions are left alone.
#[derive(Debug, Clone)]
pub struct CurveFile {
    path: PathBuf,
}

impl CurveFile {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn read(&self) -> Map<String, Value> {
        fs::read(&self.path)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    /// The curves measured for exactly this.
    pub fn get(&self, key: &Key) -> Option<Curves> {
        serde_json::from_value(self.read().remove(&key.to_string())?).ok()
    }

    /// For reports: those, or else the latest measured with other kernels, and whether it is the former.
    pub fn nearest(&self, key: &Key) -> Option<(Curves, bool)> {
        if let Some(curves) = self.get(key) {
            return Some((curves, true));
        }
        let stem = key.stem();
        let kernels_differ = |name: &str| {
            name.strip_prefix(&stem)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with("|+"))
        };
        (self.read().into_iter())
            .filter(|(name, _)| kernels_differ(name))
            .filter_map(|(_, entry)| serde_json::from_value::<Curves>(entry).ok())
            .max_by_key(|curves| curves.measured_at)
            .map(|curves| (curves, false))
    }

    /// All that can be read, by name.
    pub fn all(&self) -> BTreeMap<String, Curves> {
        (self.read().into_iter())
            .filter_map(|(name, entry)| Some((name, serde_json::from_value(entry).ok()?)))
            .collect()
    }

    /// Adds or replaces one entry; readers see the file before or after, never in between.
    ///
    /// # Errors
    /// The folder or the file cannot be written.
    pub fn put(&self, key: &Key, curves: &Curves) -> Result<(), CurveFileError> {
        self.try_put(key, curves).map_err(|source| CurveFileError {
            path: self.path.clone(),
            source,
        })
    }

    fn try_put(&self, key: &Key, curves: &Curves) -> io::Result<()> {
        let mut entries = self.read();
        entries.insert(key.to_string(), serde_json::to_value(curves)?);
        while entries.len() > MOST_ENTRIES {
            let age = |entry: &Value| entry["measured_at"].as_u64().unwrap_or(0);
            let Some(oldest) = entries.iter().min_by_key(|(_, entry)| age(entry)).map(|(name, _)| name.clone()) else {
                break;
            };
            entries.remove(&oldest);
        }
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let write = WRITES.fetch_add(1, Ordering::Relaxed);
        let mut beside = self.path.clone().into_os_string();
        beside.push(format!(".{}-{write}", std::process::id()));
        let written = fs::write(&beside, serde_json::to_vec_pretty(&entries)?).and_then(|()| fs::rename(&beside, &self.path));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key {
            device: "Some Chip".into(),
            engine: "0.1.0".into(),
            mlx: "0.31.2".into(),
            mode: "dspark".into(),
            target: "org/Target-8bit/".into(),
            drafter: Some("/models/head".into()),
            context: 512,
            kv_bits: None,
            kernels: BTreeSet::new(),
        }
    }

    fn curves(measured_at: u64) -> Curves {
        Curves {
            verify: [(1, 10.0), (2, 11.5)].into(),
            drafter: [(1, 1.5)].into(),
            slope: [(1, 1e-4)].into(),
            context: 512,
            measured_at,
            ..Curves::default()
        }
    }

    fn with_kernels(kernels: &[&str]) -> Key {
        Key {
            kernels: kernels.iter().map(ToString::to_string).collect(),
            ..key()
        }
    }

    #[test]
    fn names_say_what_they_hold_for() {
        assert_eq!(
            key().to_string(),
            "v1|Some Chip|engine0.1.0|mlx0.31.2|dspark|Target-8bit|head|ctx512"
        );
        let other = Key {
            drafter: None,
            kv_bits: Some(8),
            device: "odd|name".into(),
            ..with_kernels(&["smm", "mra"])
        };
        assert_eq!(
            other.to_string(),
            "v1|odd_name|engine0.1.0|mlx0.31.2|dspark|Target-8bit|-|ctx512|kv8|+mra|+smm"
        );
    }

    #[test]
    fn what_was_put_comes_back_and_nothing_else_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let file = CurveFile::new(folder.path().join("new/calibration.json"));
        assert_eq!(file.get(&key()), None);
        file.put(&key(), &curves(1)).unwrap();
        let foreign = r#"{"v9|later": {"shape": "unknown"}, "#;
        let text = fs::read_to_string(file.path()).unwrap();
        fs::write(file.path(), text.replacen('{', foreign, 1)).unwrap();
        file.put(&with_kernels(&["smm"]), &curves(2)).unwrap();
        assert_eq!(file.get(&key()), Some(curves(1)));
        assert_eq!(file.get(&with_kernels(&["smm"])), Some(curves(2)));
        assert!(fs::read_to_string(file.path()).unwrap().contains("v9|later"));
        assert_eq!(file.all().len(), 2);
        assert_eq!(fs::read_dir(folder.path().join("new")).unwrap().count(), 1, "no leftovers");
    }

    #[test]
    fn other_kernels_stand_in_for_reports_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = CurveFile::new(folder.path().join("c.json"));
        file.put(&key(), &curves(1)).unwrap();
        file.put(&with_kernels(&["smm"]), &curves(5)).unwrap();
        file.put(&Key { kv_bits: Some(4), ..key() }, &curves(9)).unwrap();
        assert_eq!(file.nearest(&with_kernels(&["smm"])), Some((curves(5), true)));
        assert_eq!(file.nearest(&with_kernels(&["mra"])), Some((curves(5), false)));
        assert_eq!(file.get(&with_kernels(&["mra"])), None);
        let other = Key {
            mode: "dflash".into(),
            ..key()
        };
        assert_eq!(file.nearest(&other), None);
    }

    #[test]
    fn a_broken_file_is_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = CurveFile::new(folder.path().join("c.json"));
        for text in ["", "not json", "[1]", "{\"a\":", "null"] {
            fs::write(file.path(), text).unwrap();
            assert_eq!(file.get(&key()), None, "{text}");
            assert!(file.all().is_empty(), "{text}");
        }
        file.put(&key(), &curves(3)).unwrap();
        assert_eq!(file.get(&key()), Some(curves(3)));
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let file = CurveFile::new(folder.path().join("c.json"));
        let numbered = |n: u64| Key {
            target: format!("t{n}"),
            ..key()
        };
        for n in 0..MOST_ENTRIES as u64 + 3 {
            file.put(&numbered(n), &curves(100 + n)).unwrap();
        }
        assert_eq!(file.all().len(), MOST_ENTRIES);
        assert_eq!(file.get(&numbered(2)), None);
        assert_eq!(file.get(&numbered(3)), Some(curves(103)));
    }

    #[test]
    fn a_folder_that_cannot_be_written_says_so() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("taken"), "").unwrap();
        let error = CurveFile::new(folder.path().join("taken/c.json"))
            .put(&key(), &curves(1))
            .unwrap_err();
        assert!(error.to_string().contains("taken"), "{error}");
    }
}
