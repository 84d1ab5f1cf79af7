//! What is written: for every tensor of the model, where its bytes come from, what happens to them, and what they become.

use super::{ConvertError, ConvertOptions, Float, Result, choose::Choice};
use crate::{
    decoder::spec::{DecoderSpec, Module},
    families,
    load::{Checkpoint, Mode, Packing, Placed, Source},
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

/// A tensor to be written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) dtype: String,
    pub(super) shape: Vec<u64>,
    pub(super) bytes: u64,
}

/// Consecutive bytes of a file: whole rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Run {
    pub(super) file: usize,
    pub(super) at: u64,
    pub(super) bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Work {
    Copy,
    /// Widened, `add` added and rounded as stored, then rounded to the new type.
    Float {
        from: Float,
        to: Float,
        add: f32,
    },
    Pack {
        from: Float,
        float: Float,
        packing: Packing,
    },
}

/// A tensor of the model and the one to three that it becomes.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) runs: Vec<Run>,
    pub(super) row_bytes: u64,
    pub(super) work: Work,
    pub(super) slots: Vec<Slot>,
}

impl Item {
    pub(super) fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }
}

pub(super) struct Plan {
    pub(super) files: Vec<PathBuf>,
    pub(super) items: Vec<Item>,
    pub(super) choice: Choice,
    pub(super) packing: Option<Packing>,
    /// Tells this plan from every other, for going on after an interruption.
    pub(super) fingerprint: String,
    dropped: usize,
    kept_for_width: usize,
    pub(super) parameters: u64,
}

/// Small numbers whose rounding shows: kept as stored by every published conversion (mlx-lm's `cast_predicate`).
const KEPT: [&str; 3] = ["A_log", "expert_bias", "e_score_correction_bias"];

impl Plan {
    pub(super) fn new(checkpoint: &Checkpoint, options: &ConvertOptions) -> Result<Self> {
        let packed = checkpoint.tensors.keys().any(|name| name.ends_with(".scales"));
        if packed && (options.packing.is_some() || !options.overrides.is_empty()) {
            return Err(ConvertError::Refused(format!(
                "`{}` is quantized already, and packing it again would lose more: take the bf16 build of the model, or leave out \
                 the options to write it as it is",
                checkpoint.path.display()
            )));
        }
        let choice = Choice::new(&checkpoint.spec, &checkpoint.model_type, options)?;
        let float = options.float.or_else(|| published_float(checkpoint));
        let shifts = shifts(checkpoint)?;
        let convolutions = convolutions(&checkpoint.spec);
        let mut places = HashMap::new();
        for (file, shard) in checkpoint.shards.iter().enumerate() {
            for (name, at) in offsets(&shard.path)? {
                places.insert(name, (file, at));
            }
        }
        let mut items = Vec::new();
        let mut used = BTreeSet::new();
        for (name, placed) in &checkpoint.tensors {
            let (runs, row_bytes) = runs(placed, &places, checkpoint, &mut used)?;
            let shape = convolutions.get(name.as_str()).unwrap_or(&placed.info.shape).clone();
            let (work, slots) = work(name, placed, shape, &choice, float, shifts.get(name.as_str()).copied())?;
            items.push(Item {
                name: name.clone(),
                runs,
                row_bytes,
                work,
                slots,
            });
        }
        let stored: BTreeSet<&str> = checkpoint
            .shards
            .iter()
            .flat_map(|shard| shard.tensors.keys())
            .map(String::as_str)
            .collect();
        let matrices = checkpoint.spec.modules().into_iter().filter(|module| {
            let path = match module {
                Module::Linear(linear) | Module::Experts(_, linear) => linear.path.as_str(),
                Module::Table(path, ..) => path,
                _ => return false,
            };
            !choice.packed.contains_key(path) && !choice.named.contains_key(path)
        });
        let kept_for_width = if options.packing.is_some() { matrices.count() } else { 0 };
        Ok(Self {
            files: checkpoint.shards.iter().map(|shard| shard.path.clone()).collect(),
            items,
            fingerprint: fingerprint(checkpoint, options)?,
            dropped: stored.len() - used.len(),
            kept_for_width,
            packing: options.packing,
            choice,
            parameters: checkpoint.spec.parameters(),
        })
    }

    pub(super) fn tensors(&self) -> usize {
        self.items.iter().map(|item| item.slots.len()).sum()
    }

    /// Bytes that are read.
    pub(super) fn bytes(&self) -> u64 {
        self.items.iter().map(Item::bytes).sum()
    }

    pub(super) fn notes(&self, checkpoint: &Checkpoint) -> Vec<String> {
        let mut notes = checkpoint.notes.clone();
        if self.dropped > 0 {
            notes.push(format!(
                "{} tensors that the text model does not use (other towers, prediction heads, leftovers) were left out.",
                self.dropped
            ));
        }
        if self.kept_for_width > 0 {
            notes.push(format!(
                "{} matrices stay as floats: their inputs are no whole number of groups, or the family stores them so.",
                self.kept_for_width
            ));
        }
        notes
    }

    /// The entry of `config.json`; none where nothing is packed here.
    pub(super) fn quantization(&self) -> Option<Value> {
        let packing = self.packing?;
        let entry = |packing: Packing| json!({"group_size": packing.group, "bits": packing.bits, "mode": packing.mode.name()});
        let mut block = entry(packing);
        for (path, own) in &self.choice.named {
            block[path] = own.map_or(json!(false), entry);
        }
        Some(block)
    }
}

/// The type that the publisher names.
fn published_float(checkpoint: &Checkpoint) -> Option<Float> {
    let named = checkpoint.config.top("torch_dtype").or_else(|| checkpoint.config.text("dtype"));
    named.and_then(Value::as_str).and_then(Float::named)
}

/// What is added to norms that this checkpoint, unlike MLX's, stores around zero; by tensor.
fn shifts(checkpoint: &Checkpoint) -> Result<HashMap<String, f32>> {
    let Some(family) = families::find(&checkpoint.model_type) else {
        return Ok(HashMap::new());
    };
    let usual = (family.spec)(&checkpoint.config)?;
    let norms = |spec: &DecoderSpec| -> BTreeMap<String, f32> {
        let norm = |module| match module {
            Module::Norm(norm) => Some((format!("{}.weight", norm.path), norm.shift)),
            _ => None,
        };
        spec.modules().into_iter().filter_map(norm).collect()
    };
    let usual = norms(&usual);
    let found = norms(&checkpoint.spec).into_iter().filter_map(|(name, shift)| {
        let add = shift - usual.get(&name).copied().unwrap_or(shift);
        (add != 0.0).then_some((name, add))
    });
    Ok(found.collect())
}

/// MLX's shape of each convolution's weights; the order in memory is that of Hugging Face.
fn convolutions(spec: &DecoderSpec) -> HashMap<String, Vec<u64>> {
    let conv = |module| match module {
        Module::Conv(conv) => Some((format!("{}.weight", conv.path), vec![conv.channels as u64, conv.kernel as u64, 1])),
        _ => None,
    };
    spec.modules().into_iter().filter_map(conv).collect()
}

/// Where each tensor of a checked file begins.
pub(super) fn offsets(path: &Path) -> Result<Vec<(String, u64)>> {
    let mut file = File::open(path).map_err(ConvertError::io("open", path))?;
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(ConvertError::io("read", path))?;
    let length = u64::from_le_bytes(length);
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).map_err(ConvertError::io("read", path))?;
    let header: Map<String, Value> = serde_json::from_slice(&header).unwrap_or_default();
    let start = |entry: &Value| entry["data_offsets"][0].as_u64();
    Ok(header
        .into_iter()
        .filter_map(|(name, entry)| Some((name, 8 + length + start(&entry)?)))
        .collect())
}

fn runs(
    placed: &Placed,
    places: &HashMap<String, (usize, u64)>,
    checkpoint: &Checkpoint,
    used: &mut BTreeSet<String>,
) -> Result<(Vec<Run>, u64)> {
    let info = &placed.info;
    let elements: u64 = info.shape.iter().product();
    let width = info.bytes.checked_div(elements).unwrap_or(1).max(1);
    let row_bytes = width * info.shape.last().copied().unwrap_or(1);
    let mut place = |name: &String| {
        used.insert(name.clone());
        let missing = || ConvertError::Usage(format!("tensor `{name}` of `{}` has gone", checkpoint.path.display()));
        places.get(name).copied().ok_or_else(missing)
    };
    let runs = match &placed.source {
        Source::Whole(name) => {
            let (file, at) = place(name)?;
            let bytes = info.bytes;
            vec![Run { file, at, bytes }]
        }
        Source::Half { of, second } => {
            let (file, at) = place(of)?;
            let outputs = info.shape.len().checked_sub(2).map_or(1, |axis| info.shape[axis]);
            let bytes = outputs * row_bytes;
            let count = info.bytes.checked_div(bytes).unwrap_or(0);
            let run = |index| Run {
                file,
                at: at + (2 * index + u64::from(*second)) * bytes,
                bytes,
            };
            (0..count).map(run).collect()
        }
        Source::Stack(parts) => {
            let bytes = info.bytes / parts.len().max(1) as u64;
            let run = |name| place(name).map(|(file, at)| Run { file, at, bytes });
            parts.iter().map(run).collect::<Result<_>>()?
        }
    };
    Ok((runs, row_bytes))
}

fn work(
    name: &str,
    placed: &Placed,
    shape: Vec<u64>,
    choice: &Choice,
    float: Option<Float>,
    add: Option<f32>,
) -> Result<(Work, Vec<Slot>)> {
    let slot = |name: String, dtype: &str, shape: Vec<u64>, width: u64| Slot {
        bytes: shape.iter().product::<u64>() * width,
        name,
        dtype: dtype.to_owned(),
        shape,
    };
    let path = name.strip_suffix(".weight");
    let packing = path.and_then(|path| choice.packed.get(path).map(|packing| (path, *packing)));
    let Some(from) = Float::stored(&placed.info.dtype) else {
        if packing.is_some() {
            return Err(ConvertError::Refused(format!(
                "tensor `{name}` is stored as {}, not as floats of 16 or 32 bits: take the bf16 build of the model",
                placed.info.dtype
            )));
        }
        let mut copy = slot(name.to_owned(), &placed.info.dtype, shape, 1);
        copy.bytes = placed.info.bytes;
        return Ok((Work::Copy, vec![copy]));
    };
    let to = if KEPT.iter().any(|kept| name.contains(kept)) {
        from
    } else {
        float.unwrap_or(from)
    };
    let Some((path, packing)) = packing else {
        let work = match add {
            None if from == to => Work::Copy,
            _ => Work::Float {
                from,
                to,
                add: add.unwrap_or(0.0),
            },
        };
        return Ok((work, vec![slot(name.to_owned(), to.header(), shape, to.width() as u64)]));
    };
    let with = |columns: u64| {
        let mut shape = shape.clone();
        if let Some(last) = shape.last_mut() {
            *last = columns;
        }
        shape
    };
    let columns = shape.last().copied().unwrap_or(0);
    let groups = with(columns / packing.group as u64);
    let part = |part: &str| format!("{path}.{part}");
    let mut slots = vec![slot(part("weight"), "U32", with(columns * packing.bits as u64 / 32), 4)];
    if packing.mode == Mode::Affine {
        let width = to.width() as u64;
        slots.push(slot(part("scales"), to.header(), groups.clone(), width));
        slots.push(slot(part("biases"), to.header(), groups, width));
    } else {
        slots.push(slot(part("scales"), "U8", groups, 1));
    }
    let float = to;
    Ok((Work::Pack { from, float, packing }, slots))
}

/// Of the files as they are now, and of what is to become of them.
fn fingerprint(checkpoint: &Checkpoint, options: &ConvertOptions) -> Result<String> {
    let mut hash = Sha256::new();
    hash.update(format!("1 {options:?} {:?}\n", checkpoint.model_type));
    let config = checkpoint.path.join("config.json");
    hash.update(std::fs::read(&config).map_err(ConvertError::io("read", &config))?);
    for shard in &checkpoint.shards {
        let meta = std::fs::metadata(&shard.path).map_err(ConvertError::io("read", &shard.path))?;
        let changed = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        hash.update(format!("{:?} {} {changed:?}\n", shard.path.file_name(), meta.len()));
    }
    Ok(hex(&hash.finalize()))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
