//! Tensors on their way from the shards into modules: checked against the spec by name and shape before anything is
//! read, then read one by one with progress and a way out.

use super::{
    LoadError, Mode, Packing, Quantization, Shard,
    layout::{Source, Tensors},
};
use crate::decoder::{
    experts::Experts,
    linear::{self, Linear},
    spec::{ConvSpec, DecoderSpec, LinearSpec, Module, NormSpec, VectorSpec},
};
use mlx_cpu::Backend;
use mlx_rs::{
    Array, Dtype, Stream,
    ops::{add, divide, is_nan, stack},
    with_stream,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokio_util::sync::CancellationToken;

type Result<T> = std::result::Result<T, LoadError>;

/// Names told in a message.
const TOLD: usize = 8;

/// Which floats the modules hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Precision {
    /// Of activations, and of every weight that the kernels do not take as stored.
    pub(crate) activations: Dtype,
    /// Kernels read weights in their stored dtype and accumulate in f32: the CPU.
    pub(crate) keep_stored: bool,
}

/// What a load reports and obeys.
pub(crate) struct Watch<'a> {
    /// Called with (bytes read, bytes in all) after each tensor.
    pub(crate) progress: &'a mut dyn FnMut(u64, u64),
    /// Looked at before each tensor.
    pub(crate) cancel: &'a CancellationToken,
}

/// The tensors of a checkpoint under the names of the family.
pub(crate) struct Weights<'a> {
    tensors: &'a Tensors,
    /// By the names of the files.
    arrays: HashMap<String, Array>,
    quantization: &'a Quantization,
    precision: Precision,
    watch: Watch<'a>,
    done: u64,
    total: u64,
}

/// Names and shapes of the checkpoint against those of the spec, exactly.
pub(crate) fn check(tensors: &Tensors, quantization: &Quantization, spec: &DecoderSpec) -> Result<()> {
    let mut expected: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut convolutions = BTreeMap::new();
    let linear = |expected: &mut BTreeMap<String, Vec<usize>>, lead: &[usize], spec: &LinearSpec| -> Result<()> {
        expected.extend(matrix(tensors, quantization, &spec.path, lead, spec.outputs, spec.inputs)?);
        if spec.bias {
            expected.insert(format!("{}.bias", spec.path), [lead, &[spec.outputs]].concat());
        }
        Ok(())
    };
    for module in spec.modules() {
        match module {
            Module::Norm(norm) => {
                expected.insert(format!("{}.weight", norm.path), vec![norm.size]);
            }
            Module::Vector(vector) => {
                expected.insert(vector.name.clone(), vec![vector.size]);
            }
            Module::Linear(spec) => linear(&mut expected, &[], spec)?,
            Module::Experts(count, spec) => {
                linear(&mut expected, &[count], spec)?;
                let scale = format!("{}.global_scale", spec.path);
                if tensors.contains_key(&scale)
                    && packing(tensors, quantization, &spec.path, spec.inputs)?.is_some_and(|packing| packing.mode == Mode::Nvfp4)
                {
                    expected.insert(scale, vec![count]);
                }
            }
            Module::Table(path, rows, columns) => expected.extend(matrix(tensors, quantization, path, &[], rows, columns)?),
            Module::Conv(conv) => {
                let name = format!("{}.weight", conv.path);
                convolutions.insert(name.clone(), vec![conv.channels, 1, conv.kernel]);
                expected.insert(name, vec![conv.channels, conv.kernel, 1]);
                if conv.bias {
                    expected.insert(format!("{}.bias", conv.path), vec![conv.channels]);
                }
            }
        }
    }
    let (wanted, found): (BTreeSet<_>, BTreeSet<_>) = (expected.keys().collect(), tensors.keys().collect());
    let missing: Vec<_> = wanted.difference(&found).collect();
    let unexpected: Vec<_> = found.difference(&wanted).collect();
    if let Some((name, toolchain)) = unexpected.iter().find_map(|name| Some((name, toolchain(name)?))) {
        return Err(LoadError::Quantization(format!(
            "`{name}` is a tensor of {toolchain}, whose packing MLX does not share: take an MLX build of the model, or make one of \
             its bf16 original with `mlx-dspark convert`"
        )));
    }
    if !missing.is_empty() || !unexpected.is_empty() {
        let told = |names: &[&&String]| names.iter().take(TOLD).map(ToString::to_string).collect();
        return Err(LoadError::Tensors {
            missing_count: missing.len(),
            missing: told(&missing),
            unexpected_count: unexpected.len(),
            unexpected: told(&unexpected),
        });
    }
    for (name, shape) in &expected {
        let found = &tensors[name].info.shape;
        let is = |shape: &[usize]| found.iter().copied().eq(shape.iter().map(|&n| n as u64));
        if !is(shape) && !convolutions.get(name).is_some_and(|other| is(other)) {
            return Err(LoadError::tensor(
                name,
                format!("has shape {found:?}, config.json and quantization ask for {shape:?}"),
            ));
        }
    }
    Ok(())
}

/// Whose packing a tensor's name tells of, of those that are not MLX's.
fn toolchain(name: &str) -> Option<&'static str> {
    let (_, part) = name.rsplit_once('.')?;
    Some(match part {
        "weight_packed" | "weight_global_scale" | "input_global_scale" | "weight_zero_point" | "weight_g_idx" => "compressed-tensors",
        "weight_scale_2" => "NVIDIA ModelOpt",
        "weight_scale_inv" => "a block-wise FP8 checkpoint",
        "weight_scale" | "input_scale" => "an FP8 or NVFP4 checkpoint",
        "qweight" | "qzeros" | "g_idx" => "GPTQ or AWQ",
        "absmax" | "quant_map" => "bitsandbytes",
        "global_scale" => "nvfp4 with a scale of the whole tensor, which experts alone may have here",
        _ => return None,
    })
}

/// Names and shapes of a matrix, packed or not; `lead` axes come first.
fn matrix(
    tensors: &Tensors,
    quantization: &Quantization,
    path: &str,
    lead: &[usize],
    rows: usize,
    columns: usize,
) -> Result<Vec<(String, Vec<usize>)>> {
    let name = |part: &str| format!("{path}.{part}");
    let shape = |columns: usize| [lead, &[rows, columns]].concat();
    let Some(packing) = packing(tensors, quantization, path, columns)? else {
        return Ok(vec![(name("weight"), shape(columns))]);
    };
    let (bits, group) = (packing.bits as usize, packing.group as usize);
    if !columns.is_multiple_of(group) {
        return Err(LoadError::Quantization(format!(
            "`{path}` has {columns} inputs, which groups of {group} do not divide"
        )));
    }
    let scales = shape(columns / group);
    let mut names = vec![(name("weight"), shape(columns * bits / 32)), (name("scales"), scales.clone())];
    if packing.mode == Mode::Affine {
        names.push((name("biases"), scales));
    }
    Ok(names)
}

/// How the matrix at `path` is packed: as the metadata names it, else as its shapes tell.
fn packing(tensors: &Tensors, quantization: &Quantization, path: &str, columns: usize) -> Result<Option<Packing>> {
    if let Some(named) = quantization.named(path) {
        return Ok(named);
    }
    let tensor = |part: &str| tensors.get(&format!("{path}.{part}")).map(|placed| &placed.info);
    let (Some(weight), Some(scales)) = (tensor("weight"), tensor("scales")) else {
        return Ok(None);
    };
    let last = |tensor: &super::TensorInfo| tensor.shape.last().map_or(0, |n| *n as usize);
    Packing::infer(path, columns, last(weight), last(scales), scales.dtype == "U8").map(Some)
}

/// Whether some float of the array is NaN: one pass over memory.
fn not_numbers(array: &Array) -> Result<bool> {
    /// Looked at together, without a branch for each.
    const CHUNK: usize = 4096;
    fn any<T: Copy + Sync>(values: &[T], nan: impl Fn(T) -> bool + Sync) -> bool {
        let share = values.len().div_ceil(mlx_cpu::threads()).max(1 << 20);
        let look = |part: &[T]| {
            part.chunks(CHUNK)
                .any(|chunk| chunk.iter().fold(false, |found, &value| found | nan(value)))
        };
        std::thread::scope(|scope| {
            let mut parts = values.chunks(share);
            let own = parts.next().unwrap_or_default();
            let others: Vec<_> = parts.map(|part| scope.spawn(|| look(part))).collect();
            let found = look(own);
            others.into_iter().fold(found, |found, other| found | other.join().unwrap_or(false))
        })
    }
    if !matches!(array.dtype(), Dtype::Float32 | Dtype::Float16 | Dtype::Bfloat16) || array.size() == 0 {
        return Ok(false);
    }
    if mlx_cpu::backend() != Backend::Cpu {
        return Ok(is_nan(array)?.any(None)?.item_exact::<bool>());
    }
    Ok(match array.dtype() {
        Dtype::Float32 => any(array.as_slice::<f32>(), f32::is_nan),
        Dtype::Float16 => any(array.as_slice::<half::f16>(), |value| value.to_bits() & 0x7fff > 0x7c00),
        _ => any(array.as_slice::<half::bf16>(), |value| value.to_bits() & 0x7fff > 0x7f80),
    })
}

impl<'a> Weights<'a> {
    /// Opens the shards; nothing is read yet.
    pub(crate) fn open(
        shards: &[Shard],
        tensors: &'a Tensors,
        quantization: &'a Quantization,
        precision: Precision,
        watch: Watch<'a>,
    ) -> Result<Self> {
        let cpu = Stream::cpu();
        let mut arrays = HashMap::new();
        for shard in shards {
            let read = with_stream(&cpu, || Array::load_safetensors(&shard.path)).map_err(|error| LoadError::File {
                path: shard.path.clone(),
                reason: error.to_string(),
            })?;
            arrays.extend(read);
        }
        Ok(Self {
            tensors,
            arrays,
            quantization,
            precision,
            watch,
            done: 0,
            total: tensors.values().map(|tensor| tensor.info.bytes).sum(),
        })
    }

    pub(crate) fn precision(&self) -> Precision {
        self.precision
    }

    /// Reads one tensor, as stored.
    fn read(&mut self, name: &str) -> Result<Array> {
        let placed = self.tensors.get(name).ok_or_else(|| LoadError::tensor(name, "is missing"))?;
        let array = match &placed.source {
            Source::Whole(of) => self.stored(of, true)?,
            Source::Half { of, second } => {
                // The second is read last: then the whole is let go.
                let whole = self.stored(of, *second)?;
                let half = whole.split_equal(2, -2)?.swap_remove(usize::from(*second));
                linear::contiguous(&half)?
            }
            Source::Stack(parts) => {
                let parts = parts.iter().map(|part| self.stored(part, true)).collect::<Result<Vec<_>>>()?;
                stack(&parts, 0)?
            }
        };
        array.eval()?;
        if not_numbers(&array)? {
            return Err(LoadError::tensor(
                name,
                "holds values that are not numbers (NaN): the file is damaged, or the model was broken when it was stored; download it \
                 again, or take another build of the model",
            ));
        }
        self.done += array.nbytes() as u64;
        (self.watch.progress)(self.done, self.total);
        Ok(array)
    }

    /// A tensor of the files; `last` when nothing else wants it.
    fn stored(&mut self, name: &str, last: bool) -> Result<Array> {
        if self.watch.cancel.is_cancelled() {
            return Err(LoadError::Cancelled);
        }
        let array = if last {
            self.arrays.remove(name)
        } else {
            self.arrays.get(name).cloned()
        };
        let array = array.ok_or_else(|| LoadError::tensor(name, "is missing"))?;
        array.eval()?;
        Ok(array)
    }

    /// Reads a tensor of floats; `None` leaves its dtype.
    fn read_float(&mut self, name: &str, dtype: Option<Dtype>) -> Result<Array> {
        let array = self.read(name)?;
        if !matches!(array.dtype(), Dtype::Float32 | Dtype::Float16 | Dtype::Bfloat16) {
            return Err(LoadError::tensor(
                name,
                format!("is {:?}, not a float of 16 or 32 bits", array.dtype()),
            ));
        }
        match dtype {
            Some(dtype) if dtype != array.dtype() => {
                let cast = array.as_dtype(dtype)?;
                cast.eval()?;
                Ok(cast)
            }
            _ => Ok(array),
        }
    }

    /// A norm's weights, in the dtype of activations.
    pub(crate) fn norm(&mut self, spec: &NormSpec) -> Result<Array> {
        let (name, activations) = (format!("{}.weight", spec.path), self.precision.activations);
        if spec.shift == 0.0 {
            return self.read_float(&name, Some(activations));
        }
        let stored = self.read_float(&name, Some(Dtype::Float32))?;
        let shifted = add(&stored, Array::from_f32(spec.shift))?.as_dtype(activations)?;
        shifted.eval()?;
        Ok(shifted)
    }

    /// A list of numbers, in f32.
    pub(crate) fn vector(&mut self, spec: &VectorSpec) -> Result<Array> {
        self.read_float(&spec.name, Some(Dtype::Float32))
    }

    /// Weights `[channels, kernel]` and bias `[channels]` of a depthwise convolution, in f32. Both layouts of the weights
    /// have the same order in memory.
    pub(crate) fn convolution(&mut self, spec: &ConvSpec) -> Result<(Array, Option<Array>)> {
        let weight = self.read_float(&format!("{}.weight", spec.path), Some(Dtype::Float32))?;
        let weight = weight.reshape(&[spec.channels as i32, spec.kernel as i32])?;
        let bias = if spec.bias {
            Some(self.read_float(&format!("{}.bias", spec.path), Some(Dtype::Float32))?)
        } else {
            None
        };
        Ok((weight, bias))
    }

    /// The linear layers of all experts.
    pub(crate) fn experts(&mut self, spec: &LinearSpec) -> Result<Experts> {
        let name = |part: &str| format!("{}.{part}", spec.path);
        // Our kernel takes floats as stored. MLX's gather products take no others than those of the activations; on the CPU it
        // knows f32 alone.
        let keep = self.precision.keep_stored;
        let floats = |bits, group| (!(keep && mlx_cpu::gathers(bits, group))).then_some(self.precision.activations);
        let Some(packing) = packing(self.tensors, self.quantization, &spec.path, spec.inputs)? else {
            let floats = floats(0, 0);
            return Ok(Experts::dense(self.read_float(&name("weight"), floats)?));
        };
        let floats = floats(packing.bits, packing.group);
        let w = self.read_packed(&name("weight"), packing)?;
        if packing.mode == Mode::Affine {
            let (scales, biases) = (self.read_float(&name("scales"), floats)?, self.read_float(&name("biases"), floats)?);
            return Ok(Experts::packed(w, scales, Some(biases), packing));
        }
        let experts = Experts::packed(w, self.read_bytes(&name("scales"), packing)?, None, packing);
        let global = name("global_scale");
        if !self.tensors.contains_key(&global) {
            return Ok(experts);
        }
        // Scales were stored as if the largest weight of an expert were 6 · 448, the largest value of the packing.
        let scale = self.read_float(&global, Some(Dtype::Float32))?;
        let factor = divide(&scale, Array::from_f32(6.0 * 448.0))?;
        factor.eval()?;
        Ok(experts.scaled(factor))
    }

    fn read_packed(&mut self, name: &str, packing: Packing) -> Result<Array> {
        let w = self.read(name)?;
        if w.dtype() == Dtype::Uint32 {
            return Ok(w);
        }
        Err(LoadError::tensor(
            name,
            format!("is {:?}; {packing} weights are packed into u32", w.dtype()),
        ))
    }

    fn read_bytes(&mut self, name: &str, packing: Packing) -> Result<Array> {
        let scales = self.read(name)?;
        if scales.dtype() == Dtype::Uint8 {
            return Ok(scales);
        }
        Err(LoadError::tensor(
            name,
            format!("is {:?}; {packing} scales are bytes", scales.dtype()),
        ))
    }

    pub(crate) fn linear(&mut self, spec: &LinearSpec) -> Result<Linear> {
        let bias = if spec.bias {
            Some(self.read_float(&format!("{}.bias", spec.path), Some(self.precision.activations))?)
        } else {
            None
        };
        self.matrix(&spec.path, spec.inputs, bias)
    }

    /// The matrix at `path` with `columns` inputs.
    pub(crate) fn matrix(&mut self, path: &str, columns: usize, bias: Option<Array>) -> Result<Linear> {
        let name = |part: &str| format!("{path}.{part}");
        // The CPU kernels take floats as stored, for whole blocks; the stock product would convert them at each call.
        let dtype = |kernel: bool| (!(self.precision.keep_stored && kernel)).then_some(self.precision.activations);
        let Some(packing) = packing(self.tensors, self.quantization, path, columns)? else {
            let dtype = dtype(columns.is_multiple_of(16));
            return Ok(Linear::dense(self.read_float(&name("weight"), dtype)?, bias));
        };
        let dtype = dtype([2, 4, 8].contains(&packing.bits));
        let w = self.read_packed(&name("weight"), packing)?;
        if packing.mode == Mode::Affine {
            let (scales, biases) = (self.read_float(&name("scales"), dtype)?, self.read_float(&name("biases"), dtype)?);
            return Ok(Linear::affine(w, scales, biases, packing, bias));
        }
        let scales = self.read_bytes(&name("scales"), packing)?;
        Ok(Linear::float_packed(w, scales, packing, bias))
    }
}
