use super::DType;
use crate::{HubError, Result};
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{BufReader, Read, Seek},
    path::{Path, PathBuf},
};

/// Limits that no real file comes near; a hostile header is refused before it costs memory.
const MAX_HEADER_BYTES: u64 = 512 << 20;
const MAX_STRING_BYTES: u64 = 64 << 20;
const MAX_TENSORS: u64 = 1 << 18;
const MAX_KEYS: u64 = 1 << 16;
const MAX_ELEMENTS: u64 = 1 << 24;
const MAX_ALIGNMENT: u64 = 1 << 20;

/// A metadata value. Integers of every width are widened.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    String(String),
    Array(Array),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Bools(Vec<bool>),
    Strings(Vec<String>),
}

/// One tensor's place in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    pub name: String,
    pub dtype: DType,
    /// Row-major, outermost first: `[rows, columns]` for a matrix (the file itself stores them reversed).
    pub shape: Vec<u64>,
    /// From the start of the file, bytes.
    pub offset: u64,
    /// Bytes; 0 for a type this reader does not know.
    pub bytes: u64,
}

/// Key-value pairs of a file's header, with typed look-ups.
#[derive(Debug, Clone, Default)]
pub struct Metadata(HashMap<String, Value>);

impl Metadata {
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    pub fn str(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// A non-negative whole number, whatever its stored width.
    pub fn uint(&self, key: &str) -> Option<u64> {
        match self.get(key)? {
            Value::Unsigned(n) => Some(*n),
            Value::Signed(n) => u64::try_from(*n).ok(),
            _ => None,
        }
    }

    pub fn float(&self, key: &str) -> Option<f64> {
        match self.get(key)? {
            Value::Float(x) => Some(*x),
            Value::Unsigned(n) => Some(*n as f64),
            Value::Signed(n) => Some(*n as f64),
            _ => None,
        }
    }

    pub fn bool(&self, key: &str) -> Option<bool> {
        match self.get(key)? {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    pub fn strings(&self, key: &str) -> Option<&[String]> {
        match self.get(key)? {
            Value::Array(Array::Strings(list)) => Some(list),
            _ => None,
        }
    }

    pub fn integers(&self, key: &str) -> Option<&[i64]> {
        match self.get(key)? {
            Value::Array(Array::Integers(list)) => Some(list),
            _ => None,
        }
    }
}

/// A parsed GGUF header. Tensor data stays on disk.
#[derive(Debug, Clone)]
pub struct GgufFile {
    pub path: PathBuf,
    pub metadata: Metadata,
    pub tensors: Vec<TensorInfo>,
}

impl GgufFile {
    /// Reads and checks a header: every size is compared with the file's length, every tensor lies inside it.
    ///
    /// # Errors
    /// [`HubError::BadGguf`] for anything that is not a little-endian GGUF of version 2 or 3.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(HubError::io("open", path))?;
        let length = file.metadata().map_err(HubError::io("read", path))?.len();
        let (metadata, tensors) = parse(&mut BufReader::with_capacity(1 << 18, file), length).map_err(|reason| HubError::BadGguf {
            path: path.to_owned(),
            reason,
        })?;
        Ok(Self {
            path: path.to_owned(),
            metadata,
            tensors,
        })
    }

    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }
}

/// Parses a header of a file of `length` bytes; the error is the reason alone.
pub(super) fn parse(source: &mut (impl Read + Seek), length: u64) -> Result<(Metadata, Vec<TensorInfo>), String> {
    let mut cursor = Cursor {
        source,
        read: 0,
        limit: length.min(MAX_HEADER_BYTES),
    };
    if &cursor.array::<4>().map_err(|_| "it is too short".to_owned())? != b"GGUF" {
        return Err("it does not start with `GGUF`".into());
    }
    let version = cursor.u32()?;
    match version {
        2 | 3 => {}
        1 => return Err("version 1 is obsolete; convert it anew with a current llama.cpp".into()),
        v if v.swap_bytes() <= 3 => return Err("it is big endian, which no desktop machine uses".into()),
        v => return Err(format!("version {v} is not known")),
    }
    let tensor_count = cursor.u64()?;
    let key_count = cursor.u64()?;
    if tensor_count > MAX_TENSORS || key_count > MAX_KEYS {
        return Err(format!("it claims {tensor_count} tensors and {key_count} keys"));
    }

    let mut metadata = HashMap::new();
    for _ in 0..key_count {
        let key = cursor.string()?;
        let kind = cursor.u32()?;
        let value = cursor.value(kind).map_err(|e| format!("key `{}`: {e}", short(&key)))?;
        if metadata.insert(key.clone(), value).is_some() {
            return Err(format!("key `{}` appears twice", short(&key)));
        }
    }
    let metadata = Metadata(metadata);

    let mut tensors = Vec::new();
    let mut names = HashSet::new();
    for _ in 0..tensor_count {
        let tensor = cursor.tensor()?;
        if !names.insert(tensor.name.clone()) {
            return Err(format!("tensor `{}` appears twice", short(&tensor.name)));
        }
        tensors.push(tensor);
    }

    let alignment = metadata.uint("general.alignment").unwrap_or(32);
    if alignment == 0 || alignment > MAX_ALIGNMENT {
        return Err(format!("alignment {alignment} makes no sense"));
    }
    let data = cursor.read.next_multiple_of(alignment);
    for tensor in &mut tensors {
        let end = tensor
            .offset
            .checked_add(data)
            .inspect(|start| tensor.offset = *start)
            .and_then(|start| start.checked_add(tensor.bytes))
            .ok_or_else(|| format!("tensor `{}` lies outside any file", short(&tensor.name)))?;
        if end > length {
            return Err(format!(
                "it is truncated: tensor `{}` ends at byte {end}, the file has {length}",
                short(&tensor.name)
            ));
        }
    }
    Ok((metadata, tensors))
}

struct Cursor<'a, R> {
    source: &'a mut R,
    read: u64,
    limit: u64,
}

impl<R: Read> Cursor<'_, R> {
    /// Claims `bytes` of the header before they are read, so that no length is believed beyond the file's end.
    fn claim(&mut self, bytes: u64) -> Result<(), String> {
        let end = self.read.checked_add(bytes).filter(|end| *end <= self.limit);
        self.read = end.ok_or("it is truncated, or a length in it is wrong")?;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.claim(N as u64)?;
        let mut bytes = [0; N];
        self.source.read_exact(&mut bytes).map_err(|e| e.to_string())?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn string(&mut self) -> Result<String, String> {
        let length = self.u64()?;
        if length > MAX_STRING_BYTES {
            return Err(format!("a string claims {length} bytes"));
        }
        self.claim(length)?;
        let mut bytes = vec![0; length as usize];
        self.source.read_exact(&mut bytes).map_err(|e| e.to_string())?;
        String::from_utf8(bytes).map_err(|_| "a string is not UTF-8".into())
    }

    fn value(&mut self, kind: u32) -> Result<Value, String> {
        Ok(match kind {
            0 => Value::Unsigned(self.array::<1>()?[0].into()),
            1 => Value::Signed(i8::from_le_bytes(self.array()?).into()),
            2 => Value::Unsigned(u16::from_le_bytes(self.array()?).into()),
            3 => Value::Signed(i16::from_le_bytes(self.array()?).into()),
            4 => Value::Unsigned(self.u32()?.into()),
            5 => Value::Signed(i32::from_le_bytes(self.array()?).into()),
            6 => Value::Float(f32::from_le_bytes(self.array()?).into()),
            7 => Value::Bool(self.array::<1>()?[0] != 0),
            8 => Value::String(self.string()?),
            9 => Value::Array(self.values()?),
            10 => Value::Unsigned(self.u64()?),
            11 => Value::Signed(i64::from_le_bytes(self.array()?)),
            12 => Value::Float(f64::from_le_bytes(self.array()?)),
            other => return Err(format!("value type {other} is not known")),
        })
    }

    fn values(&mut self) -> Result<Array, String> {
        let kind = self.u32()?;
        let count = self.u64()?;
        // The smallest encoding of an element bounds the count before anything is allocated.
        let least = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            9 => return Err("arrays of arrays are not supported".into()),
            other => return Err(format!("value type {other} is not known")),
        };
        if count > MAX_ELEMENTS || count.saturating_mul(least) > self.limit - self.read {
            return Err(format!("an array claims {count} elements"));
        }
        let mut elements = Elements::new(kind, count as usize);
        for _ in 0..count {
            match (self.value(kind)?, &mut elements.0) {
                (Value::Unsigned(n), Array::Integers(list)) => list.push(i64::try_from(n).map_err(|_| "an integer is too large")?),
                (Value::Signed(n), Array::Integers(list)) => list.push(n),
                (Value::Float(x), Array::Floats(list)) => list.push(x),
                (Value::Bool(b), Array::Bools(list)) => list.push(b),
                (Value::String(text), Array::Strings(list)) => list.push(text),
                _ => return Err("an array mixes types".into()),
            }
        }
        Ok(elements.0)
    }

    fn tensor(&mut self) -> Result<TensorInfo, String> {
        let name = self.string()?;
        let dims = self.u32()?;
        if !(1..=4).contains(&dims) {
            return Err(format!("tensor `{}` has {dims} dimensions", short(&name)));
        }
        let mut shape = (0..dims).map(|_| self.u64()).collect::<Result<Vec<_>, _>>()?;
        shape.reverse();
        let dtype = DType::from_ggml(self.u32()?);
        let offset = self.u64()?;
        let width = shape[shape.len() - 1];
        let rows = shape[..shape.len() - 1].iter().try_fold(1_u64, |rows, dim| rows.checked_mul(*dim));
        let bytes = match dtype {
            DType::Other(_) => Some(0),
            _ => dtype.row_bytes(width).zip(rows).and_then(|(row, rows)| row.checked_mul(rows)),
        };
        Ok(TensorInfo {
            bytes: bytes.ok_or_else(|| format!("tensor `{}` of type {} cannot have shape {shape:?}", short(&name), dtype.name()))?,
            name,
            dtype,
            shape,
            offset,
        })
    }
}

struct Elements(Array);

impl Elements {
    fn new(kind: u32, count: usize) -> Self {
        Self(match kind {
            6 | 12 => Array::Floats(Vec::with_capacity(count)),
            7 => Array::Bools(Vec::with_capacity(count)),
            8 => Array::Strings(Vec::with_capacity(count.min(1 << 16))),
            _ => Array::Integers(Vec::with_capacity(count)),
        })
    }
}

/// Names from a file are quoted in messages; a hostile one is kept short and on one line.
pub(super) fn short(name: &str) -> String {
    name.chars().take(80).flat_map(char::escape_default).collect()
}
