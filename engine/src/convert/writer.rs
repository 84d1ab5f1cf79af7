//! The new folder's weight files: laid out before anything is written, filled front to back, with a journal beside them from
//! which a later run goes on.

use super::{
    ConvertError, Result,
    plan::{Plan, Slot, hex},
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{Read, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// The journal is renewed after this many bytes: what a crash can cost.
const STRIDE: u64 = 256 << 20;
const JOURNAL: &str = "convert-journal.json";

/// A slot's place in a file.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    file: usize,
    at: u64,
    end: u64,
}

pub(super) struct Writer {
    dir: PathBuf,
    files: Vec<(PathBuf, File)>,
    /// By item and slot.
    places: Vec<Vec<Place>>,
    names: Vec<Vec<String>>,
    hashes: Vec<Sha256>,
    fingerprint: String,
    done: usize,
    /// SHA-256 of each finished tensor.
    digests: BTreeMap<String, String>,
    dirty: BTreeSet<usize>,
    since: u64,
    index: Value,
}

/// A file before it is written.
struct Layout {
    name: String,
    header: Vec<u8>,
    length: u64,
}

impl Writer {
    /// Begins in `dir`, or goes on with what an interrupted run of the same plan left there.
    pub(super) fn open(dir: &Path, plan: &Plan, shard: u64) -> Result<Self> {
        let (layouts, places, index) = lay_out(plan, shard);
        let journal = std::fs::read(dir.join(JOURNAL))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        let journal = journal.filter(|journal: &Value| {
            journal["fingerprint"] == plan.fingerprint.as_str() && layouts.iter().all(|layout| layout.is_in(dir))
        });
        if journal.is_none() {
            begin(dir, &layouts)?;
        }
        let open = |layout: &Layout| {
            let path = dir.join(&layout.name);
            let file = File::options()
                .read(true)
                .write(true)
                .open(&path)
                .map_err(ConvertError::io("open", &path))?;
            Ok((path, file))
        };
        let journal = journal.unwrap_or_default();
        let digests: BTreeMap<String, String> = serde_json::from_value(journal["digests"].clone()).unwrap_or_default();
        // What the journal tells of is only as good as its list of digests.
        let told = journal["done"].as_u64().unwrap_or(0) as usize;
        let listed = |item: &&super::plan::Item| item.slots.iter().all(|slot| digests.contains_key(&slot.name));
        let done = plan.items.iter().take(told).take_while(listed).count();
        Ok(Self {
            dir: dir.to_owned(),
            files: layouts.iter().map(open).collect::<Result<_>>()?,
            places,
            names: plan
                .items
                .iter()
                .map(|item| item.slots.iter().map(|slot| slot.name.clone()).collect())
                .collect(),
            hashes: vec![Sha256::new(); 3],
            fingerprint: plan.fingerprint.clone(),
            done,
            digests,
            dirty: BTreeSet::new(),
            since: 0,
            index,
        })
    }

    /// Items that are finished.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// Bytes that are still to be written.
    pub(super) fn left(&self) -> u64 {
        self.places[self.done..].iter().flatten().map(|place| place.end - place.at).sum()
    }

    pub(super) fn digests(&self) -> &BTreeMap<String, String> {
        &self.digests
    }

    pub(super) fn append(&mut self, item: usize, slot: usize, bytes: &[u8]) -> Result<()> {
        let place = &mut self.places[item][slot];
        let (path, file) = &self.files[place.file];
        if place.at + bytes.len() as u64 > place.end {
            return Err(ConvertError::Readback {
                name: self.names[item][slot].clone(),
                path: path.clone(),
            });
        }
        file.write_all_at(bytes, place.at).map_err(ConvertError::io("write", path))?;
        self.hashes[slot].update(bytes);
        place.at += bytes.len() as u64;
        self.since += bytes.len() as u64;
        self.dirty.insert(place.file);
        Ok(())
    }

    /// The last byte of `item` is written.
    pub(super) fn item_done(&mut self, item: usize) -> Result<()> {
        for (slot, name) in self.names[item].iter().enumerate() {
            let digest = std::mem::take(&mut self.hashes[slot]).finalize();
            self.digests.insert(name.clone(), hex(&digest));
        }
        self.done = item + 1;
        if self.since < STRIDE {
            return Ok(());
        }
        self.remember()
    }

    /// Brings everything to the disk, then the journal that says so.
    pub(super) fn remember(&mut self) -> Result<()> {
        for index in std::mem::take(&mut self.dirty) {
            let (path, file) = &self.files[index];
            file.sync_data().map_err(ConvertError::io("write", path))?;
        }
        self.since = 0;
        let journal = json!({"fingerprint": self.fingerprint, "done": self.done, "digests": self.digests});
        let path = self.dir.join(JOURNAL);
        let fresh = self.dir.join(format!(".{JOURNAL}"));
        std::fs::write(&fresh, journal.to_string())
            .and_then(|()| std::fs::rename(&fresh, &path))
            .map_err(ConvertError::io("write", &path))
    }

    /// Files and bytes of weights; the index is written.
    pub(super) fn finish(&mut self) -> Result<(usize, u64)> {
        for (path, file) in &self.files {
            file.sync_all().map_err(ConvertError::io("write", path))?;
        }
        write_json(&self.dir.join("model.safetensors.index.json"), &self.index)?;
        Ok((self.files.len(), self.index["metadata"]["total_size"].as_u64().unwrap_or(0)))
    }

    /// Nothing is left to go on with.
    pub(super) fn forget(&self) -> Result<()> {
        let path = self.dir.join(JOURNAL);
        std::fs::remove_file(&path).map_err(ConvertError::io("delete", &path))
    }
}

pub(super) fn write_json(path: &Path, value: &Value) -> Result<()> {
    let text = serde_json::to_vec_pretty(value).unwrap_or_default();
    File::create(path)
        .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
        .map_err(ConvertError::io("write", path))
}

fn begin(dir: &Path, layouts: &[Layout]) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(ConvertError::io("delete", dir)(error)),
        _ => {}
    }
    std::fs::create_dir_all(dir).map_err(ConvertError::io("create", dir))?;
    for layout in layouts {
        let path = dir.join(&layout.name);
        File::create(&path)
            .and_then(|mut file| file.write_all(&layout.header).and_then(|()| file.set_len(layout.length)))
            .map_err(ConvertError::io("write", &path))?;
    }
    Ok(())
}

impl Layout {
    /// Whether this file is there, as far as its length and header tell.
    fn is_in(&self, dir: &Path) -> bool {
        let read = || -> std::io::Result<bool> {
            let mut file = File::open(dir.join(&self.name))?;
            let mut header = vec![0; self.header.len()];
            file.read_exact(&mut header)?;
            Ok(header == self.header && file.metadata()?.len() == self.length)
        };
        read().unwrap_or(false)
    }
}

fn width(slot: &Slot) -> u64 {
    slot.bytes.checked_div(slot.shape.iter().product()).unwrap_or(1)
}

/// Which slot goes where: items in order, a new file where the next item would make one too long.
fn lay_out(plan: &Plan, most: u64) -> (Vec<Layout>, Vec<Vec<Place>>, Value) {
    let mut shards: Vec<Vec<usize>> = vec![Vec::new()];
    let mut filled = 0;
    for (index, item) in plan.items.iter().enumerate() {
        let bytes: u64 = item.slots.iter().map(|slot| slot.bytes).sum();
        if filled > 0 && filled + bytes > most {
            shards.push(Vec::new());
            filled = 0;
        }
        filled += bytes;
        if let Some(shard) = shards.last_mut() {
            shard.push(index);
        }
    }
    let mut places: Vec<Vec<Place>> = plan.items.iter().map(|item| vec![Place::default(); item.slots.len()]).collect();
    let (mut layouts, mut map, mut total) = (Vec::new(), Map::new(), 0);
    for (number, shard) in shards.iter().enumerate() {
        let name = match shards.len() {
            1 => "model.safetensors".to_owned(),
            count => format!("model-{:05}-of-{count:05}.safetensors", number + 1),
        };
        let slots = shard
            .iter()
            .flat_map(|&item| (0..plan.items[item].slots.len()).map(move |slot| (item, slot)));
        let mut slots: Vec<(usize, usize)> = slots.collect();
        // Wide elements first: every tensor then starts at a multiple of its element size.
        slots.sort_by_key(|&(item, slot)| std::cmp::Reverse(width(&plan.items[item].slots[slot])));
        let mut header = Map::from_iter([("__metadata__".to_owned(), json!({"format": "mlx"}))]);
        let mut at = 0;
        for &(item, slot) in &slots {
            let tensor = &plan.items[item].slots[slot];
            let end = at + tensor.bytes;
            header.insert(
                tensor.name.clone(),
                json!({"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [at, end]}),
            );
            map.insert(tensor.name.clone(), json!(name));
            places[item][slot] = Place { file: number, at, end };
            at = end;
        }
        total += at;
        let mut text = serde_json::to_vec(&header).unwrap_or_default();
        text.resize(text.len().next_multiple_of(8), b' ');
        let start = 8 + text.len() as u64;
        for &(item, slot) in &slots {
            let place = &mut places[item][slot];
            (place.at, place.end) = (place.at + start, place.end + start);
        }
        layouts.push(Layout {
            name,
            header: [&(text.len() as u64).to_le_bytes()[..], &text].concat(),
            length: start + at,
        });
    }
    let metadata = json!({"total_size": total, "total_parameters": plan.parameters});
    (layouts, places, json!({"metadata": metadata, "weight_map": map}))
}
