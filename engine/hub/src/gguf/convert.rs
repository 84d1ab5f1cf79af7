use super::{
    DType, GgufFile, TensorInfo,
    config::{Dims, unsupported},
    naming::{Heads, Target, source_row, target},
    reader::short,
    repack::{self, GROUP, Packed, Refusal},
    tokenizer,
};
use crate::{
    HubError, Job, Result, Stage, disk,
    places::OUR_CACHE,
    tensors::{Header, Slot, Writer},
};
use half::f16;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashSet},
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// Rows are moved in pieces of about this many bytes, so memory does not grow with the model.
const PIECE: u64 = 1 << 20;
/// The record a finished conversion leaves in its folder; it lists every other file and its size.
const RECORD: &str = "conversion.json";
const RECORD_VERSION: u64 = 1;

/// A finished conversion.
#[derive(Debug, Clone)]
pub struct Conversion {
    pub path: PathBuf,
    pub tensors: usize,
    /// Bytes of weights written.
    pub bytes: u64,
}

/// Turns a GGUF file into an MLX folder with exactly the same weights.
///
/// `out` appears complete or not at all: everything is written to `<out>.partial`, checked and renamed. An `out` that
/// exists is replaced. `source` is free text kept in the folder's record (where the file came from).
///
/// # Errors
/// [`HubError::UnsupportedGguf`] names the architecture, tensor type or tokenizer that cannot be converted exactly;
/// [`HubError::BadGguf`] says what is wrong with the file.
pub fn convert(gguf: &Path, out: &Path, source: &str, job: &Job) -> Result<Conversion> {
    let file = GgufFile::open(gguf)?;
    let dims = Dims::read(&file)?;
    let tokenizer = tokenizer::files(&file, dims.context)?;
    let parent = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(HubError::io("create", parent))?;
    let _lock = disk::lock_blocking(&disk::sibling(out, ".lock"), job)?;
    let partial = disk::sibling(out, ".partial");
    disk::remove_dir(&partial)?;
    std::fs::create_dir(&partial).map_err(HubError::io("create", &partial))?;

    // Biases that overflow f16 show only while repacking; the tensor is then laid out again with f32.
    let mut wide = HashSet::new();
    let (plan, bytes) = loop {
        let plan = plan(&file, &dims, &wide)?;
        let bytes = plan.iter().map(Item::bytes).sum();
        disk::require(&partial, bytes, OUR_CACHE)?;
        match write(&file, &dims, &plan, &partial, job)? {
            None => break (plan, bytes),
            Some(tensor) => drop(wide.insert(tensor)),
        }
    };
    verify(&file, &dims, &plan, &partial, job)?;

    let mut config = dims.config(|part| plan.iter().any(|item| item.kind == "bias" && item.module.contains(part)));
    config.insert("bos_token_id".into(), json!(tokenizer.bos));
    config.insert("eos_token_id".into(), tokenizer::ids(&tokenizer.eos));
    if let Some(quantization) = quantization(&plan) {
        config.insert("quantization".into(), quantization.clone());
        config.insert("quantization_config".into(), quantization);
    }
    disk::write_json(&partial.join("config.json"), &Value::Object(config))?;
    disk::write_json(&partial.join("generation_config.json"), &tokenizer.generation_config)?;
    disk::write_json(&partial.join("tokenizer_config.json"), &tokenizer.tokenizer_config)?;
    disk::write_json(&partial.join("tokenizer.json"), &tokenizer.tokenizer)?;
    write_record(&partial, &file, source)?;

    job.check()?;
    disk::remove_dir(out)?;
    std::fs::rename(&partial, out).map_err(HubError::io("create", out))?;
    Ok(Conversion {
        path: out.to_owned(),
        tensors: plan.len(),
        bytes,
    })
}

/// True where `dir` holds a finished conversion whose files all have their recorded size.
pub(crate) fn is_complete(dir: &Path) -> bool {
    let Some(record) = disk::read_json(&dir.join(RECORD)) else {
        return false;
    };
    let Some(files) = record["files"].as_object() else { return false };
    record["version"] == RECORD_VERSION
        && !files.is_empty()
        && files
            .iter()
            .all(|(name, size)| size.as_u64() == std::fs::metadata(dir.join(name)).ok().map(|meta| meta.len()))
}

fn write_record(dir: &Path, file: &GgufFile, source: &str) -> Result<()> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).map_err(HubError::io("read", dir))? {
        let entry = entry.map_err(HubError::io("read", dir))?;
        let size = entry.metadata().map_err(HubError::io("read", entry.path()))?.len();
        files.insert(entry.file_name().to_string_lossy().into_owned(), size);
    }
    let record = json!({
        "version": RECORD_VERSION,
        "name": tokenizer::model_name(&file.metadata),
        "source": source,
        "license": file.metadata.str("general.license"),
        "files": files,
    });
    disk::write_json(&dir.join(RECORD), &record)
}

/// One GGUF tensor and the MLX tensors it becomes.
struct Item<'a> {
    source: &'a TensorInfo,
    module: String,
    kind: &'static str,
    /// Head size, where rows are reordered within each head.
    reorder: Option<u64>,
    slots: Vec<Slot>,
    wide: bool,
}

impl Item<'_> {
    fn bytes(&self) -> u64 {
        self.slots.iter().map(Slot::bytes).sum()
    }

    fn rows(&self) -> u64 {
        self.source.shape[..self.source.shape.len() - 1].iter().product::<u64>().max(1)
    }

    /// Vectors are handled as a column, so that reordering a bias and a matrix are the same thing.
    fn row_bytes(&self) -> u64 {
        self.source.bytes / self.item_rows()
    }

    fn item_rows(&self) -> u64 {
        if self.source.shape.len() == 1 {
            self.source.shape[0]
        } else {
            self.rows()
        }
    }
}

fn plan<'a>(file: &'a GgufFile, dims: &Dims, wide: &HashSet<String>) -> Result<Vec<Item<'a>>> {
    let bad = |reason: String| HubError::BadGguf {
        path: file.path.clone(),
        reason,
    };
    let mut plan = Vec::new();
    for source in &file.tensors {
        if matches!(source.dtype, DType::Other(_)) {
            return Err(unsupported(format!(
                "tensor `{}` of type {}",
                short(&source.name),
                source.dtype.name()
            )));
        }
        let (module, kind, heads) = match target(dims.architecture, &source.name, dims.layers) {
            Some(Target::Parameter { module, kind, heads }) => (module, kind, heads),
            Some(Target::RopeFactors) => continue,
            None => return Err(unsupported(format!("tensor `{}`", short(&source.name)))),
        };
        let shape = dims
            .shape(&module, kind)
            .ok_or_else(|| bad(format!("tensor `{}` is unknown", short(&source.name))))?;
        if source.shape != shape {
            return Err(bad(format!(
                "tensor `{}` has shape {:?}, the model needs {shape:?}",
                short(&source.name),
                source.shape
            )));
        }
        let wide = wide.contains(&source.name);
        let slots = match repack::bits(source.dtype) {
            Some(_) if shape.len() != 2 => {
                return Err(unsupported(format!(
                    "vector `{}` of type {}",
                    short(&source.name),
                    source.dtype.name()
                )));
            }
            Some(bits) => {
                let (rows, columns) = (shape[0], shape[1]);
                let factors = if wide { "F32" } else { "F16" };
                let slot = |part, dtype, columns| Slot::new(format!("{module}.{part}"), dtype, vec![rows, columns]);
                vec![
                    slot("weight", "U32", columns * u64::from(bits) / 32),
                    slot("scales", factors, columns / GROUP as u64),
                    slot("biases", factors, columns / GROUP as u64),
                ]
            }
            None => vec![Slot::new(format!("{module}.{kind}"), float_name(source.dtype), shape)],
        };
        plan.push(Item {
            source,
            module,
            kind,
            reorder: (heads != Heads::None).then_some(dims.head_dim),
            slots,
            wide,
        });
    }
    let present: HashSet<&str> = plan.iter().flat_map(|item| &item.slots).map(Slot::name).collect();
    let missing: Vec<String> = required(dims).into_iter().filter(|name| !present.contains(name.as_str())).collect();
    if let Some(first) = missing.first() {
        return Err(bad(format!("{} tensors are missing, `{first}` first", missing.len())));
    }
    Ok(plan)
}

fn required(dims: &Dims) -> Vec<String> {
    let mut names = vec!["model.embed_tokens.weight".to_owned(), "model.norm.weight".to_owned()];
    for layer in 0..dims.layers {
        let modules = [
            "input_layernorm",
            "post_attention_layernorm",
            "self_attn.q_proj",
            "self_attn.k_proj",
            "self_attn.v_proj",
            "self_attn.o_proj",
            "mlp.gate_proj",
            "mlp.up_proj",
            "mlp.down_proj",
        ];
        names.extend(modules.iter().map(|module| format!("model.layers.{layer}.{module}.weight")));
        if dims.architecture == super::naming::Architecture::Qwen3 {
            names.extend(["q_norm", "k_norm"].map(|norm| format!("model.layers.{layer}.self_attn.{norm}.weight")));
        }
    }
    names
}

fn float_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "F16",
        DType::BF16 => "BF16",
        _ => "F32",
    }
}

/// Writes the weights; the name of a tensor whose biases need f32, if one is met.
fn write(file: &GgufFile, dims: &Dims, plan: &[Item], dir: &Path, job: &Job) -> Result<Option<String>> {
    let source = File::open(&file.path).map_err(HubError::io("open", &file.path))?;
    let total = plan.iter().map(|item| item.source.bytes).sum();
    let mut writer = Writer::create(dir, plan.iter().map(|item| item.slots.as_slice()))?;
    let (mut done, mut packed, mut rows) = (0, Packed::default(), Vec::new());
    for (index, item) in plan.iter().enumerate() {
        let step = piece_rows(item, dims);
        let mut row = 0;
        while row < item.item_rows() {
            job.check()?;
            let count = step.min(item.item_rows() - row);
            read_rows(&source, file, item, row, count, &mut rows)?;
            packed.clear();
            match packed.push(item.source.dtype, &rows, item.wide) {
                Ok(()) => {}
                Err(Refusal::NeedsF32) => return Ok(Some(item.source.name.clone())),
                Err(Refusal::NotFinite) => {
                    return Err(HubError::BadGguf {
                        path: file.path.clone(),
                        reason: format!("tensor `{}` holds a scale that is not a number", short(&item.source.name)),
                    });
                }
            }
            for (slot, bytes) in [&packed.weight, &packed.scales, &packed.biases]
                .into_iter()
                .enumerate()
                .take(item.slots.len())
            {
                writer.append(index, slot, bytes)?;
            }
            row += count;
            done += rows.len() as u64;
            job.report(Stage::Converting, &item.module, done, total);
        }
    }
    writer.finish()?;
    Ok(None)
}

fn piece_rows(item: &Item, dims: &Dims) -> u64 {
    let rows = (PIECE / item.row_bytes().max(1)).max(1);
    // Rows move within their head, so a piece of a reordered tensor is whole heads.
    if item.reorder.is_some() {
        rows.next_multiple_of(dims.head_dim)
    } else {
        rows
    }
}

/// `count` rows of the converted order, from `row` on, into `rows`.
fn read_rows(source: &File, file: &GgufFile, item: &Item, row: u64, count: u64, rows: &mut Vec<u8>) -> Result<()> {
    let width = item.row_bytes() as usize;
    rows.resize(count as usize * width, 0);
    source
        .read_exact_at(rows, item.source.offset + row * width as u64)
        .map_err(HubError::io("read", &file.path))?;
    if let Some(head_dim) = item.reorder {
        let mixed = rows.clone();
        for (target, out) in rows.chunks_exact_mut(width).enumerate() {
            let from = source_row(row + target as u64, head_dim) - row;
            out.copy_from_slice(&mixed[from as usize * width..][..width]);
        }
    }
    Ok(())
}

/// Reads the written weights back: the headers agree with the files, and the first, middle and last row of every
/// tensor are the numbers that the GGUF blocks define.
fn verify(file: &GgufFile, dims: &Dims, plan: &[Item], dir: &Path, job: &Job) -> Result<()> {
    let source = File::open(&file.path).map_err(HubError::io("open", &file.path))?;
    let headers = Header::read_all(dir)?;
    let mut rows = Vec::new();
    for item in plan {
        job.check()?;
        let read = |slot: usize, row: u64| Header::row(&headers, item.slots[slot].name(), row, item.item_rows());
        let step = item.reorder.map_or(1, |_| dims.head_dim);
        for row in [0, item.item_rows() / 2 / step * step, item.item_rows() - step] {
            read_rows(&source, file, item, row, step, &mut rows)?;
            let first = &rows[..item.row_bytes() as usize];
            let same = match repack::bits(item.source.dtype) {
                None => read(0, row)? == first,
                Some(bits) => {
                    let numbers = |bytes: Vec<u8>| -> Vec<f32> {
                        if item.wide {
                            bytes
                                .chunks_exact(4)
                                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                                .collect()
                        } else {
                            bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
                        }
                    };
                    let back = repack::dequantize_mlx(bits, &read(0, row)?, &numbers(read(1, row)?), &numbers(read(2, row)?));
                    let want = repack::dequantize(item.source.dtype, first);
                    // 11-bit scales times 8-bit integers: every product and sum is exact in f32, so equal means equal.
                    back == want
                }
            };
            if !same {
                return Err(HubError::Corrupt {
                    path: dir.to_owned(),
                    reason: format!("`{}` does not read back as it was written", item.module),
                });
            }
        }
    }
    Ok(())
}

/// The config's quantization block: the most common width as the default, the others by path.
fn quantization(plan: &[Item]) -> Option<Value> {
    let quantized: Vec<(&str, u32)> = plan
        .iter()
        .filter_map(|item| Some((item.module.as_str(), repack::bits(item.source.dtype)?)))
        .collect();
    let count = |bits| quantized.iter().filter(|(_, b)| *b == bits).count();
    let default = if quantized.is_empty() {
        return None;
    } else if count(8) > count(4) {
        8
    } else {
        4
    };
    let mut block = json!({"group_size": GROUP, "bits": default, "mode": "affine"});
    for (module, bits) in quantized.iter().filter(|(_, bits)| *bits != default) {
        block[*module] = json!({"group_size": GROUP, "bits": bits, "mode": "affine"});
    }
    Some(block)
}

/// A small F32 tensor's values.
pub(super) fn read_f32(file: &GgufFile, tensor: &TensorInfo) -> Result<Vec<f32>> {
    if tensor.dtype != DType::F32 || tensor.bytes > PIECE {
        return Err(unsupported(format!(
            "tensor `{}` of type {}",
            short(&tensor.name),
            tensor.dtype.name()
        )));
    }
    let mut bytes = vec![0; tensor.bytes as usize];
    File::open(&file.path)
        .and_then(|source| source.read_exact_at(&mut bytes, tensor.offset))
        .map_err(HubError::io("read", &file.path))?;
    Ok(bytes
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect())
}
