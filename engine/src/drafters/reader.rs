//! Tensors on their way into the drafter: unpacked where the packing is foreign, quantized where that is asked for.

use super::{DrafterError, Result, nvfp4};
use crate::load::{Mode, Packing};
use mlx_cpu::Weight;
use mlx_rs::{Array, Dtype, ops};
use std::collections::HashMap;

/// Elements that share a scale where we quantize; inputs that it does not divide stay as they are.
const GROUP: i32 = 64;

pub(super) struct Reader {
    pub(super) arrays: HashMap<String, Array>,
    /// Of activations, and of weights that the kernels do not take as stored.
    pub(super) activations: Dtype,
    /// Kernels read weights in their stored dtype: the CPU.
    pub(super) keep_stored: bool,
    /// To quantize to.
    pub(super) bits: Option<i32>,
    /// Added to every norm's weights.
    pub(super) norm_offset: f32,
}

impl Reader {
    fn take(&mut self, name: &str) -> Result<Array> {
        let array = self.arrays.remove(name).ok_or_else(|| DrafterError::tensor(name, "is missing"))?;
        array.eval()?;
        Ok(array)
    }

    fn float(&mut self, name: &str, dtype: Dtype) -> Result<Array> {
        let array = self.take(name)?;
        if !matches!(array.dtype(), Dtype::Float32 | Dtype::Float16 | Dtype::Bfloat16) {
            return Err(DrafterError::tensor(
                name,
                format!("is {:?}, not a float of 16 or 32 bits", array.dtype()),
            ));
        }
        let array = array.as_dtype(dtype)?;
        array.eval()?;
        Ok(array)
    }

    /// A tensor under its own name, in the dtype of activations.
    pub(super) fn raw(&mut self, name: &str) -> Result<Array> {
        self.float(name, self.activations)
    }

    /// A table that only rows are taken of, as stored.
    pub(super) fn stored(&mut self, name: &str) -> Result<Array> {
        let dtype = self.arrays.get(name).map_or(self.activations, Array::dtype);
        self.float(name, dtype)
    }

    /// Whole numbers, where there are any.
    pub(super) fn integers(&mut self, name: &str) -> Result<Option<Vec<i64>>> {
        let Some(array) = self.arrays.remove(name) else {
            return Ok(None);
        };
        let list = array.as_dtype(Dtype::Int64)?.to_vec_cast::<i64>();
        list.map(Some).map_err(|error| DrafterError::tensor(name, error.to_string()))
    }

    pub(super) fn norm(&mut self, path: &str) -> Result<Array> {
        let weight = self.float(&format!("{path}.weight"), Dtype::Float32)?;
        let weight = if self.norm_offset == 0.0 {
            weight
        } else {
            ops::add(&weight, Array::from_slice(&[self.norm_offset], &[1]))?
        };
        let weight = weight.as_dtype(self.activations)?;
        weight.eval()?;
        Ok(weight)
    }

    /// The matrix at `path` with `columns` inputs, quantized if `pack`.
    pub(super) fn matrix(&mut self, path: &str, columns: usize, pack: bool) -> Result<Weight> {
        let name = |part: &str| format!("{path}.{part}");
        let has = |reader: &Self, part: &str| reader.arrays.contains_key(&name(part));
        let bias = if has(self, "bias") { Some(self.raw(&name("bias"))?) } else { None };
        if has(self, "scales") {
            return self.packed(path, columns, bias);
        }
        let w = if has(self, "weight_scale") {
            let (w, scale, scale2) = (
                self.take(&name("weight"))?,
                self.take(&name("weight_scale"))?,
                self.take(&name("weight_scale_2"))?,
            );
            nvfp4::decode(&w, &scale, &scale2)?
        } else {
            let name = name("weight");
            let stored = self.arrays.get(&name).map_or(self.activations, Array::dtype);
            self.float(&name, stored)?
        };
        let weight = match self.bits.filter(|_| pack && (columns as i32) % GROUP == 0) {
            Some(bits) => {
                let (w, scales, biases) = ops::quantize(&w, GROUP, bits)?;
                let (scales, biases) = (
                    self.kept(scales, [2, 4, 8].contains(&bits))?,
                    self.kept(biases, [2, 4, 8].contains(&bits))?,
                );
                Weight::Affine {
                    w,
                    scales,
                    biases,
                    group: GROUP,
                    bits,
                    bias,
                }
            }
            None => Weight::Dense {
                w: self.kept(w, columns.is_multiple_of(16))?,
                bias,
            },
        };
        for array in weight.arrays() {
            array.eval()?;
        }
        Ok(weight)
    }

    fn packed(&mut self, path: &str, columns: usize, bias: Option<Array>) -> Result<Weight> {
        let name = |part: &str| format!("{path}.{part}");
        let (w, scales) = (self.take(&name("weight"))?, self.take(&name("scales"))?);
        let last = |array: &Array| array.shape().last().map_or(0, |n| *n as usize);
        let packing = Packing::infer(path, columns, last(&w), last(&scales), scales.dtype() == Dtype::Uint8)?;
        if packing.mode != Mode::Affine || w.dtype() != Dtype::Uint32 {
            return Err(DrafterError::tensor(
                &name("weight"),
                format!(
                    "is packed as {packing} in {:?}; drafters are read affine in u32, or unpacked",
                    w.dtype()
                ),
            ));
        }
        let kernel = [2, 4, 8].contains(&packing.bits);
        let biases = self.take(&name("biases"))?;
        Ok(Weight::Affine {
            w,
            scales: self.kept(scales, kernel)?,
            biases: self.kept(biases, kernel)?,
            group: packing.group,
            bits: packing.bits,
            bias,
        })
    }

    /// As stored where a kernel takes it so, else in the dtype of activations.
    fn kept(&self, array: Array, kernel: bool) -> Result<Array> {
        let array = if self.keep_stored && kernel {
            array
        } else {
            array.as_dtype(self.activations)?
        };
        array.eval()?;
        Ok(array)
    }
}

/// The layers as one, outputs in order. Those stored differently are unpacked first.
pub(super) fn join(parts: &[&Weight]) -> Result<Weight> {
    if let Some(joined) = Weight::join(parts)? {
        return evaluated(joined);
    }
    let dense = parts.iter().map(|part| unpacked(part)).collect::<Result<Vec<_>>>()?;
    let joined = Weight::join(&dense.iter().collect::<Vec<_>>())?;
    evaluated(joined.ok_or_else(|| DrafterError::tensor("self_attn", "has some projections with a bias and some without"))?)
}

fn evaluated(weight: Weight) -> Result<Weight> {
    for array in weight.arrays() {
        array.eval()?;
    }
    Ok(weight)
}

fn unpacked(weight: &Weight) -> Result<Weight> {
    Ok(match weight {
        Weight::Dense { w, bias } => Weight::Dense {
            w: w.as_dtype(Dtype::Float32)?,
            bias: bias.clone(),
        },
        Weight::Affine {
            w,
            scales,
            biases,
            group,
            bits,
            bias,
        } => {
            let float = |array: &Array| array.as_dtype(Dtype::Float32);
            Weight::Dense {
                w: ops::dequantize(w, float(scales)?, &float(biases)?, *group, *bits)?,
                bias: bias.clone(),
            }
        }
    })
}

/// The outputs `rows` of a layer, in that order.
pub(super) fn outputs(weight: &Weight, rows: &[u32]) -> Result<Weight> {
    let rows = Array::from_slice(rows, &[rows.len() as i32]);
    let pick = |array: &Array| array.take_axis(&rows, 0);
    let bias = |bias: &Option<Array>| bias.as_ref().map(pick).transpose();
    evaluated(match weight {
        Weight::Dense { w, bias: b } => Weight::Dense {
            w: pick(w)?,
            bias: bias(b)?,
        },
        Weight::Affine {
            w,
            scales,
            biases,
            group,
            bits,
            bias: b,
        } => Weight::Affine {
            w: pick(w)?,
            scales: pick(scales)?,
            biases: pick(biases)?,
            group: *group,
            bits: *bits,
            bias: bias(b)?,
        },
    })
}
