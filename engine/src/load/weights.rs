//! Tensors on their way from the shards into modules: checked against the spec by name and shape before anything is
//! read, then read one by one with progress and a way out.

use super::{LoadError, Mode, Packing, Quantization, Shard, TensorInfo};
use crate::decoder::{
    linear::Linear,
    spec::{DecoderSpec, LinearSpec, Module, NormSpec},
};
use mlx_rs::{Array, Dtype, Stream, with_stream};
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
    tensors: BTreeMap<String, TensorInfo>,
    arrays: HashMap<String, Array>,
    quantization: &'a Quantization,
    precision: Precision,
    watch: Watch<'a>,
    done: u64,
    total: u64,
}

/// The tensors of all shards by the family's names; `rename` gives `None` for tensors to leave out.
pub(crate) fn merge(shards: &[Shard], rename: &dyn Fn(&str) -> Option<String>) -> BTreeMap<String, TensorInfo> {
    let all = shards.iter().flat_map(|shard| &shard.tensors);
    all.filter_map(|(name, tensor)| Some((rename(name)?, tensor.clone()))).collect()
}

/// Names and shapes of the checkpoint against those of the spec, exactly.
pub(crate) fn check(tensors: &BTreeMap<String, TensorInfo>, quantization: &Quantization, spec: &DecoderSpec) -> Result<()> {
    let mut expected: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for module in spec.modules() {
        match module {
            Module::Norm(norm) => {
                expected.insert(format!("{}.weight", norm.path), vec![norm.size]);
            }
            Module::Linear(linear) => {
                expected.extend(matrix(tensors, quantization, &linear.path, linear.outputs, linear.inputs)?);
                if linear.bias {
                    expected.insert(format!("{}.bias", linear.path), vec![linear.outputs]);
                }
            }
            Module::Table(path, rows, columns) => expected.extend(matrix(tensors, quantization, path, rows, columns)?),
        }
    }
    let (wanted, found): (BTreeSet<_>, BTreeSet<_>) = (expected.keys().collect(), tensors.keys().collect());
    let missing: Vec<_> = wanted.difference(&found).collect();
    let unexpected: Vec<_> = found.difference(&wanted).collect();
    if !missing.is_empty() || !unexpected.is_empty() {
        let told = |names: &[&&String]| names.iter().take(TOLD).map(ToString::to_string).collect();
        return Err(LoadError::Tensors {
            missing_count: missing.len(),
            missing: told(&missing),
            unexpected_count: unexpected.len(),
            unexpected: told(&unexpected),
        });
    }
    for (name, shape) in expected {
        let found = &tensors[&name].shape;
        if !found.iter().eq(shape.iter().map(|&n| n as u64).collect::<Vec<_>>().iter()) {
            return Err(LoadError::tensor(
                &name,
                format!("has shape {found:?}, config.json and quantization ask for {shape:?}"),
            ));
        }
    }
    Ok(())
}

/// Names and shapes of a matrix, packed or not.
fn matrix(
    tensors: &BTreeMap<String, TensorInfo>,
    quantization: &Quantization,
    path: &str,
    rows: usize,
    columns: usize,
) -> Result<Vec<(String, Vec<usize>)>> {
    let name = |part: &str| format!("{path}.{part}");
    let Some(packing) = packing(tensors, quantization, path, columns)? else {
        return Ok(vec![(name("weight"), vec![rows, columns])]);
    };
    let (bits, group) = (packing.bits as usize, packing.group as usize);
    if !columns.is_multiple_of(group) {
        return Err(LoadError::Quantization(format!(
            "`{path}` has {columns} inputs, which groups of {group} do not divide"
        )));
    }
    let scales = vec![rows, columns / group];
    let mut names = vec![(name("weight"), vec![rows, columns * bits / 32]), (name("scales"), scales.clone())];
    if packing.mode == Mode::Affine {
        names.push((name("biases"), scales));
    }
    Ok(names)
}

/// How the matrix at `path` is packed: as the metadata names it, else as its shapes tell.
fn packing(tensors: &BTreeMap<String, TensorInfo>, quantization: &Quantization, path: &str, columns: usize) -> Result<Option<Packing>> {
    if let Some(named) = quantization.named(path) {
        return Ok(named);
    }
    let tensor = |part: &str| tensors.get(&format!("{path}.{part}"));
    let (Some(weight), Some(scales)) = (tensor("weight"), tensor("scales")) else {
        return Ok(None);
    };
    let last = |tensor: &TensorInfo| tensor.shape.last().map_or(0, |n| *n as usize);
    Packing::infer(path, columns, last(weight), last(scales), scales.dtype == "U8").map(Some)
}

impl<'a> Weights<'a> {
    /// Opens the shards; nothing is read yet.
    pub(crate) fn open(
        shards: &[Shard],
        tensors: BTreeMap<String, TensorInfo>,
        rename: &dyn Fn(&str) -> Option<String>,
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
            arrays.extend(read.into_iter().filter_map(|(name, array)| Some((rename(&name)?, array))));
        }
        let total = tensors.values().map(|tensor| tensor.bytes).sum();
        Ok(Self {
            tensors,
            arrays,
            quantization,
            precision,
            watch,
            done: 0,
            total,
        })
    }

    pub(crate) fn precision(&self) -> Precision {
        self.precision
    }

    /// Reads one tensor, as stored.
    fn read(&mut self, name: &str) -> Result<Array> {
        if self.watch.cancel.is_cancelled() {
            return Err(LoadError::Cancelled);
        }
        let array = self.arrays.remove(name).ok_or_else(|| LoadError::tensor(name, "is missing"))?;
        array.eval()?;
        self.done += array.nbytes() as u64;
        (self.watch.progress)(self.done, self.total);
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
        self.read_float(&format!("{}.weight", spec.path), Some(self.precision.activations))
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
        let Some(packing) = packing(&self.tensors, self.quantization, path, columns)? else {
            let dtype = dtype(columns.is_multiple_of(16));
            return Ok(Linear::dense(self.read_float(&name("weight"), dtype)?, bias));
        };
        let dtype = dtype([2, 4, 8].contains(&packing.bits));
        let w = self.read(&name("weight"))?;
        if w.dtype() != Dtype::Uint32 {
            return Err(LoadError::tensor(
                &name("weight"),
                format!("is {:?}; {packing} weights are packed into u32", w.dtype()),
            ));
        }
        if packing.mode == Mode::Affine {
            let (scales, biases) = (self.read_float(&name("scales"), dtype)?, self.read_float(&name("biases"), dtype)?);
            return Ok(Linear::affine(w, scales, biases, packing, bias));
        }
        let scales = self.read(&name("scales"))?;
        if scales.dtype() != Dtype::Uint8 {
            return Err(LoadError::tensor(
                &name("scales"),
                format!("is {:?}; {packing} scales are bytes", scales.dtype()),
            ));
        }
        Ok(Linear::float_packed(w, scales, packing, bias))
    }
}
