//! Kept texts that outlive the process: snapshots of caches in a folder of their own, named by model, template and tokens.
//!
//! A snapshot is two files: `<id>.safetensors` with the arrays, and `<id>.json` with everything else, among it the arrays'
//! checksum. The second is written last, so that a snapshot without it is none. Files are their owner's alone (they hold
//! what was said), their bytes are bounded, the oldest leaving first whoever wrote them, and a full or broken disk stops the
//! writing and nothing else. Source: `spec/caching-batching.md` §1.6.

use super::{
    MIN_REUSE,
    slot::{Slot, common_prefix, way},
};
use crate::{
    drafters::Context,
    target::{Cache, Parts},
};
use dspark_protocol::{LoadRequest, MachineInfo, PrefixDisk};
use mlx_rs::{Array, transforms};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, Permissions},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// Another layout of the files or of the caches in them.
const FORMAT: u32 = 1;
/// Texts below this are computed faster than they are read.
const SHORTEST: usize = 256;
/// Left free on the disk, bytes.
const RESERVE: u64 = 2 << 30;

/// Where texts are kept between runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskOptions {
    /// A folder for nothing else.
    pub folder: PathBuf,
    /// Most bytes of all snapshots, of whichever models.
    pub limit: u64,
    /// How long nothing must be asked for before a text that has not been pushed out is written.
    pub patience: Duration,
}

/// Whose snapshots can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key {
    model: String,
    template: String,
    /// The drafter's; another one reads the target's part alone.
    drafter: Option<String>,
}

impl Key {
    /// Of what a request loads, on this machine: other kernels compute other last bits.
    pub(crate) fn of(request: &LoadRequest, machine: &MachineInfo, template: &str) -> Self {
        let engine = format!("{FORMAT} {} {} {}", env!("CARGO_PKG_VERSION"), machine.backend, machine.mlx_version);
        Self {
            model: digest([engine.as_bytes(), identity(&request.path).as_bytes()]),
            template: digest([template.as_bytes()]),
            drafter: request.drafter.as_ref().map(|path| {
                let bits = request.drafter_bits.map_or_else(String::new, |bits| bits.to_string());
                digest([identity(path).as_bytes(), bits.as_bytes()])
            }),
        }
    }
}

/// What a model's files are, without reading gigabytes: names, sizes and times of its weights, and its configuration.
fn identity(path: &Path) -> String {
    let mut lines: Vec<String> = files(path)
        .filter_map(|file| {
            let about = fs::metadata(&file).ok()?;
            let changed = about.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos();
            Some(format!("{} {} {changed}", file.file_name()?.to_string_lossy(), about.len()))
        })
        .collect();
    lines.sort_unstable();
    lines.extend(fs::read_to_string(path.join("config.json")));
    lines.join("\n")
}

/// The weights of a folder, or the file itself.
fn files(path: &Path) -> Box<dyn Iterator<Item = PathBuf>> {
    match fs::read_dir(path) {
        Ok(entries) => Box::new(entries.flatten().map(|entry| entry.path()).filter(|path| {
            let kind = path.extension().and_then(|kind| kind.to_str());
            matches!(kind, Some("safetensors" | "gguf"))
        })),
        Err(_) => Box::new(std::iter::once(path.to_owned())),
    }
}

fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize()[..16])
}

fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The second file of a snapshot.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    format: u32,
    key: Key,
    tokens: Vec<u32>,
    /// Lengths of the places to go back to.
    rungs: Vec<usize>,
    /// How many tokens can be cut off its end.
    droppable: usize,
    numbers: BTreeMap<String, usize>,
    /// Of the arrays' file.
    bytes: u64,
    sha256: String,
}

struct Entry {
    id: String,
    /// `None` for other models' and other formats'.
    head: Option<Head>,
    bytes: u64,
    used: SystemTime,
}

/// The snapshots of a folder, with the eyes of one loaded model.
pub(crate) struct Disk {
    options: DiskOptions,
    key: Key,
    entries: Vec<Entry>,
    state: PrefixDisk,
    /// Why nothing is written any more.
    full: Option<String>,
}

impl Disk {
    /// Opens the folder, making it if need be, and brings it within its limit. `None` where it cannot be used, which the
    /// log tells: texts are then kept in memory alone.
    pub(crate) fn open(options: &DiskOptions, key: Key) -> Option<Self> {
        let mut disk = Self {
            options: options.clone(),
            key,
            entries: Vec::new(),
            state: PrefixDisk::default(),
            full: None,
        };
        match disk.look() {
            Ok(()) => Some(disk),
            Err(error) => {
                let folder = options.folder.display();
                tracing::warn!(%folder, %error, "the prompt cache's folder cannot be used; prompts are kept in memory alone");
                None
            }
        }
    }

    fn look(&mut self) -> io::Result<()> {
        let folder = &self.options.folder;
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
        let mut found: BTreeMap<String, (Option<PathBuf>, Option<PathBuf>)> = BTreeMap::new();
        for path in fs::read_dir(folder)?.flatten().map(|entry| entry.path()) {
            // Only files that are named as ours are touched.
            let Some((id, kind)) = path
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(|name| name.split_once('.'))
            else {
                continue;
            };
            if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                continue;
            }
            let files = found.entry(id.to_owned()).or_default();
            match kind {
                "json" => files.0 = Some(path),
                "safetensors" => files.1 = Some(path),
                "part.safetensors" | "part.json" => drop(fs::remove_file(path)),
                _ => {}
            }
        }
        for (id, files) in found {
            match files {
                (Some(head), Some(arrays)) => {
                    let about = fs::metadata(&arrays)?;
                    let length = about.len() + fs::metadata(&head)?.len();
                    let head = fs::read(&head).ok().and_then(|text| serde_json::from_slice::<Head>(&text).ok());
                    self.entries.push(Entry {
                        id,
                        head: head.filter(|head| self.is_ours(head)),
                        bytes: length,
                        used: about.modified()?,
                    });
                }
                (one, other) => one.iter().chain(&other).for_each(|path| drop(fs::remove_file(path))),
            }
        }
        self.make_room(0);
        self.count();
        Ok(())
    }

    fn is_ours(&self, head: &Head) -> bool {
        head.format == FORMAT && head.key.model == self.key.model && head.key.template == self.key.template
    }

    fn path(&self, id: &str, kind: &str) -> PathBuf {
        self.options.folder.join(format!("{id}.{kind}"))
    }

    pub(crate) fn patience(&self) -> Duration {
        self.options.patience
    }

    pub(crate) fn state(&self) -> PrefixDisk {
        self.state.clone()
    }

    fn count(&mut self) {
        self.state = PrefixDisk {
            entries: self.entries.len(),
            bytes: self.entries.iter().map(|entry| entry.bytes).sum(),
            limit: self.options.limit,
            stopped: self.full.clone(),
        };
    }

    /// The text that saves most of `prompt`, where that is at least `least` tokens. One that is broken is deleted.
    pub(super) fn fetch(
        &mut self,
        prompt: &[u32],
        least: usize,
        new_cache: &dyn Fn() -> Box<dyn Cache>,
        context: Option<&Context>,
    ) -> Option<Slot> {
        let reuse = |head: &Head| {
            let shared = common_prefix(&head.tokens, prompt).min(prompt.len().saturating_sub(1));
            way(head.tokens.len(), head.droppable, head.rungs.iter().copied(), shared).reuse
        };
        let ways = self.entries.iter().enumerate();
        let (index, saved) = ways
            .filter_map(|(index, entry)| Some((index, reuse(entry.head.as_ref()?))))
            .max_by_key(|(_, reuse)| *reuse)?;
        if saved < least.max(MIN_REUSE) {
            return None;
        }
        let began = std::time::Instant::now();
        match self.read(index, new_cache, context) {
            Ok(slot) => {
                let entry = &mut self.entries[index];
                entry.used = SystemTime::now();
                let (id, used) = (entry.id.clone(), entry.used);
                // Used is young: the eviction's order outlives the process as well.
                let _ = File::options()
                    .append(true)
                    .open(self.path(&id, "safetensors"))
                    .and_then(|file| file.set_modified(used));
                tracing::debug!(
                    tokens = slot.tokens.len(),
                    saved,
                    ms = began.elapsed().as_millis(),
                    "a prompt was read from disk"
                );
                Some(slot)
            }
            Err(error) => {
                tracing::warn!(error, "a kept prompt could not be read and was deleted");
                self.delete(index);
                self.count();
                None
            }
        }
    }

    fn read(&self, index: usize, new_cache: &dyn Fn() -> Box<dyn Cache>, context: Option<&Context>) -> Result<Slot, String> {
        let entry = &self.entries[index];
        let head = entry.head.as_ref().ok_or("it is of another model")?;
        let path = self.path(&entry.id, "safetensors");
        let (sha256, bytes) = checksum(&path).map_err(|error| error.to_string())?;
        if sha256 != head.sha256 || bytes != head.bytes {
            return Err("its checksum does not match: the file was damaged".into());
        }
        let arrays = Array::load_safetensors(&path).map_err(|error| error.to_string())?;
        transforms::eval(arrays.values()).map_err(|error| error.what().to_owned())?;
        let parts = Parts {
            arrays: arrays.into_iter().collect(),
            numbers: head.numbers.clone(),
        };
        let context = context.filter(|_| head.key.drafter.is_some() && head.key.drafter == self.key.drafter);
        Slot::import(head.tokens.clone(), &head.rungs, parts, new_cache, context).map_err(|error| error.what().to_owned())
    }

    /// Keeps a text, in the place of those that it goes on from. What goes wrong is told once, and ends the writing.
    pub(super) fn write(&mut self, slot: &Slot) {
        if self.full.is_some() || slot.tokens.len() < SHORTEST {
            return;
        }
        let head = |entry: &Entry| entry.head.as_ref().is_some_and(|head| head.tokens.starts_with(&slot.tokens));
        if self.entries.iter().any(head) {
            return;
        }
        if let Err(error) = self.put(slot) {
            let folder = self.options.folder.display();
            tracing::warn!(%folder, error, "prompts are no longer kept on disk");
            self.full = Some(error);
        }
        self.count();
    }

    fn put(&mut self, slot: &Slot) -> Result<(), String> {
        let Some(Parts { arrays, numbers }) = slot.export().map_err(|error| error.what().to_owned())? else {
            return Ok(());
        };
        let need: u64 = arrays.values().map(|array| array.nbytes() as u64).sum();
        if need > self.options.limit {
            return Ok(());
        }
        self.make_room(need);
        if dspark_hub::free_space(&self.options.folder).is_some_and(|free| free < need + RESERVE) {
            return Err("the disk is nearly full".into());
        }
        let tokens: Vec<u8> = slot.tokens.iter().flat_map(|id| id.to_le_bytes()).collect();
        let key = serde_json::to_vec(&self.key).map_err(|error| error.to_string())?;
        let id = digest([key.as_slice(), tokens.as_slice()]);
        let part = self.path(&id, "part.safetensors");
        let written = (|| {
            Array::save_safetensors(arrays.iter(), None, &part).map_err(|error| error.to_string())?;
            let told = |error: io::Error| error.to_string();
            fs::set_permissions(&part, Permissions::from_mode(0o600)).map_err(told)?;
            let (sha256, bytes) = checksum(&part).map_err(told)?;
            let head = Head {
                format: FORMAT,
                key: self.key.clone(),
                tokens: slot.tokens.clone(),
                rungs: slot.rungs.iter().map(|rung| rung.len).collect(),
                droppable: slot.cache.droppable(),
                numbers,
                bytes,
                sha256,
            };
            let text = serde_json::to_vec(&head).map_err(|error| error.to_string())?;
            let beside = self.path(&id, "part.json");
            fs::write(&beside, &text).map_err(told)?;
            fs::set_permissions(&beside, Permissions::from_mode(0o600)).map_err(told)?;
            fs::rename(&part, self.path(&id, "safetensors")).map_err(told)?;
            fs::rename(&beside, self.path(&id, "json")).map_err(told)?;
            Ok((head, bytes + text.len() as u64))
        })();
        let (head, bytes) = match written {
            Ok(written) => written,
            Err(error) => {
                let _ = fs::remove_file(&part);
                return Err(error);
            }
        };
        // It stands for what it extends, and for an earlier turn of the same talk, whose end a template has rewritten.
        let stands_for = |earlier: &Head| common_prefix(&earlier.tokens, &slot.tokens) * 10 >= earlier.tokens.len() * 9;
        while let Some(covered) = self.entries.iter().position(|entry| {
            let head = entry.head.as_ref();
            entry.id != id && head.is_some_and(stands_for)
        }) {
            self.delete(covered);
        }
        self.entries.retain(|entry| entry.id != id);
        self.entries.push(Entry {
            id,
            head: Some(head),
            bytes,
            used: SystemTime::now(),
        });
        Ok(())
    }

    /// Deletes the least recently used until `more` bytes fit.
    fn make_room(&mut self, more: u64) {
        loop {
            let held: u64 = self.entries.iter().map(|entry| entry.bytes).sum();
            let oldest = (0..self.entries.len()).min_by_key(|&index| self.entries[index].used);
            let Some(oldest) = oldest.filter(|_| held + more > self.options.limit) else {
                return;
            };
            self.delete(oldest);
        }
    }

    fn delete(&mut self, index: usize) {
        let entry = self.entries.swap_remove(index);
        for kind in ["json", "safetensors"] {
            let _ = fs::remove_file(self.path(&entry.id, kind));
        }
    }
}

/// SHA-256 of a file, and its length.
fn checksum(path: &Path) -> io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let (mut hash, mut buffer, mut bytes) = (Sha256::new(), vec![0; 1 << 20], 0);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((hex(&hash.finalize()), bytes));
        }
        hash.update(&buffer[..read]);
        bytes += read as u64;
    }
}
