//! The safetensors container: writing one piece by piece, and checking a header against its file without reading data.

use crate::{HubError, Result, disk};
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    fs::File,
    io::{Read, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// Larger models are written as several files, as Hugging Face and MLX do, bytes.
const SHARD: u64 = 5_000_000_000;
/// The format's own limit on a header, bytes.
const MAX_HEADER: u64 = 100_000_000;

/// A tensor to be written.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    name: String,
    dtype: &'static str,
    shape: Vec<u64>,
}

impl Slot {
    pub(crate) fn new(name: String, dtype: &'static str, shape: Vec<u64>) -> Self {
        Self { name, dtype, shape }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.shape.iter().product::<u64>() * self.element()
    }

    fn element(&self) -> u64 {
        if matches!(self.dtype, "F16" | "BF16") { 2 } else { 4 }
    }
}

/// Writes a model's tensors in any order of pieces; every slot is filled front to back.
pub(crate) struct Writer {
    dir: PathBuf,
    files: Vec<(PathBuf, File)>,
    /// Per item and slot: file, next position, end.
    places: Vec<Vec<(usize, u64, u64)>>,
}

impl Writer {
    /// Lays out all items; the slots of one item share a file.
    pub(crate) fn create<'a>(dir: &Path, items: impl Iterator<Item = &'a [Slot]>) -> Result<Self> {
        let items: Vec<&[Slot]> = items.collect();
        let mut shards: Vec<Vec<usize>> = vec![Vec::new()];
        let mut filled = 0;
        for (index, slots) in items.iter().enumerate() {
            let bytes: u64 = slots.iter().map(Slot::bytes).sum();
            if filled > 0 && filled + bytes > SHARD {
                shards.push(Vec::new());
                filled = 0;
            }
            filled += bytes;
            if let Some(shard) = shards.last_mut() {
                shard.push(index);
            }
        }

        let count = shards.len();
        let mut writer = Self {
            dir: dir.to_owned(),
            files: Vec::new(),
            places: items.iter().map(|slots| vec![(0, 0, 0); slots.len()]).collect(),
        };
        let (mut weight_map, mut total) = (Map::new(), 0);
        for (number, shard) in shards.iter().enumerate() {
            let name = if count == 1 {
                "model.safetensors".to_owned()
            } else {
                format!("model-{:05}-of-{count:05}.safetensors", number + 1)
            };
            // Wide elements first: every tensor then starts at a multiple of its element size.
            let mut order: Vec<(usize, usize)> = shard
                .iter()
                .flat_map(|item| (0..items[*item].len()).map(move |slot| (*item, slot)))
                .collect();
            order.sort_by_key(|(item, slot)| std::cmp::Reverse(items[*item][*slot].element()));
            let mut header = Map::from_iter([("__metadata__".to_owned(), json!({"format": "mlx"}))]);
            let mut at = 0;
            for (item, slot) in &order {
                let tensor = &items[*item][*slot];
                let end = at + tensor.bytes();
                header.insert(
                    tensor.name.clone(),
                    json!({"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [at, end]}),
                );
                weight_map.insert(tensor.name.clone(), json!(name));
                writer.places[*item][*slot] = (number, at, end);
                at = end;
            }
            total += at;
            let mut text = serde_json::to_vec(&header).unwrap_or_default();
            text.resize(text.len().next_multiple_of(8), b' ');
            let path = dir.join(&name);
            let start = 8 + text.len() as u64;
            let file = File::create(&path)
                .and_then(|mut file| {
                    file.write_all(&(text.len() as u64).to_le_bytes())?;
                    file.write_all(&text)?;
                    file.set_len(start + at)?;
                    Ok(file)
                })
                .map_err(HubError::io("write", &path))?;
            writer.files.push((path, file));
            for (item, slot) in order {
                let place = &mut writer.places[item][slot];
                (place.1, place.2) = (place.1 + start, place.2 + start);
            }
        }
        if count > 1 {
            let index = json!({"metadata": {"total_size": total}, "weight_map": weight_map});
            disk::write_json(&dir.join("model.safetensors.index.json"), &index)?;
        }
        Ok(writer)
    }

    pub(crate) fn append(&mut self, item: usize, slot: usize, bytes: &[u8]) -> Result<()> {
        let (file, at, end) = &mut self.places[item][slot];
        let (path, file) = &self.files[*file];
        if *at + bytes.len() as u64 > *end {
            return Err(HubError::Internal(format!(
                "tensor {item}.{slot} does not fit its place in {}",
                path.display()
            )));
        }
        file.write_all_at(bytes, *at).map_err(HubError::io("write", path))?;
        *at += bytes.len() as u64;
        Ok(())
    }

    /// Everything is on the disk when this returns.
    pub(crate) fn finish(self) -> Result<()> {
        if self.places.iter().flatten().any(|(_, at, end)| at != end) {
            return Err(HubError::Internal(format!("a tensor in {} was not filled", self.dir.display())));
        }
        self.files
            .iter()
            .try_for_each(|(path, file)| file.sync_all().map_err(HubError::io("write", path)))
    }
}

/// A checked safetensors header.
#[derive(Debug)]
pub(crate) struct Header {
    path: PathBuf,
    /// First and last byte of each tensor in the file.
    places: HashMap<String, (u64, u64)>,
}

impl Header {
    /// Reads a header and checks that the tensors it declares fill the file exactly.
    ///
    /// # Errors
    /// [`HubError::Corrupt`] with both sizes where the file is shorter or longer than declared.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let corrupt = |reason: String| HubError::Corrupt {
            path: path.to_owned(),
            reason,
        };
        let mut file = File::open(path).map_err(HubError::io("open", path))?;
        let length = file.metadata().map_err(HubError::io("read", path))?.len();
        let mut size = [0; 8];
        file.read_exact(&mut size)
            .map_err(|_| corrupt(format!("it is truncated: {length} bytes hold no header")))?;
        let size = u64::from_le_bytes(size);
        if size > MAX_HEADER {
            return Err(corrupt(format!("its header claims {size} bytes; it is not a safetensors file")));
        }
        if size + 8 > length {
            return Err(corrupt(format!(
                "it is truncated: {length} bytes are there, its header alone needs {}",
                size + 8
            )));
        }
        let mut text = vec![0; size as usize];
        file.read_exact(&mut text).map_err(HubError::io("read", path))?;
        let header: Map<String, Value> = serde_json::from_slice(&text).map_err(|e| corrupt(format!("its header is not JSON ({e})")))?;
        let mut places = HashMap::new();
        let mut end = 0;
        for (name, tensor) in header.into_iter().filter(|(name, _)| name != "__metadata__") {
            let offset = |i: usize| tensor["data_offsets"][i].as_u64();
            let (first, last) = offset(0)
                .zip(offset(1))
                .filter(|(first, last)| first <= last && *last <= u64::MAX / 2)
                .ok_or_else(|| corrupt("a tensor in its header has no valid place".into()))?;
            end = end.max(last);
            places.insert(name, (first + 8 + size, last + 8 + size));
        }
        let declared = end + 8 + size;
        if declared > length {
            return Err(corrupt(format!(
                "it is truncated: {length} bytes are there, its header declares {declared}"
            )));
        }
        if declared < length {
            return Err(corrupt(format!("it has {length} bytes, its header declares {declared}")));
        }
        Ok(Self {
            path: path.to_owned(),
            places,
        })
    }

    /// The headers of every safetensors file in `dir`.
    pub(crate) fn read_all(dir: &Path) -> Result<Vec<Self>> {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)
            .map_err(HubError::io("read", dir))?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|ext| ext == "safetensors"))
            .collect();
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    /// The bytes of row `row` of a tensor of `rows` rows.
    pub(crate) fn row(headers: &[Self], name: &str, row: u64, rows: u64) -> Result<Vec<u8>> {
        let Some((header, (start, end))) = headers.iter().find_map(|header| Some((header, *header.places.get(name)?))) else {
            return Err(HubError::Internal(format!("tensor `{name}` was not written")));
        };
        let width = (end - start) / rows.max(1);
        let mut bytes = vec![0; width as usize];
        File::open(&header.path)
            .and_then(|file| file.read_exact_at(&mut bytes, start + row * width))
            .map_err(HubError::io("read", &header.path))?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(declared: usize, present: usize) -> Result<Header> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        let text = json!({"w": {"dtype": "U8", "shape": [declared], "data_offsets": [0, declared]}}).to_string();
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        let start = bytes.len();
        bytes.resize(start + present, 7);
        std::fs::write(&path, bytes).unwrap();
        Header::read(&path)
    }

    #[test]
    fn a_truncated_file_is_told_with_both_sizes() {
        assert_eq!(file(300, 300).unwrap().places.len(), 1);
        let message = file(300, 100).unwrap_err().to_string();
        assert!(message.contains("truncated"), "{message}");
        assert!(file(100, 300).is_err());
    }

    #[test]
    fn many_items_are_sharded_with_an_index() {
        let dir = tempfile::tempdir().unwrap();
        let slots: Vec<Slot> = (0..2).map(|i| Slot::new(format!("t{i}"), "F32", vec![700_000_000])).collect();
        // Sparse files: nothing is written beyond the headers.
        drop(Writer::create(dir.path(), slots.chunks(1)).unwrap());
        let index = disk::read_json(&dir.path().join("model.safetensors.index.json")).unwrap();
        assert_eq!(index["weight_map"]["t1"], "model-00002-of-00002.safetensors");
        assert_eq!(index["metadata"]["total_size"], 5_600_000_000_u64);
        let headers = Header::read_all(dir.path()).unwrap();
        assert_eq!(headers.len(), 2);
    }
}
