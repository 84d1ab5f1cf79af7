//! Matrices of a decoder: dense and affine through `mlx-cpu`, the float packings (mxfp4, nvfp4, mxfp8) through MLX's own
//! product, which mlx-rs does not wrap.

use crate::load::{Mode, Packing};
use mlx_cpu::Weight;
use mlx_rs::{
    Array, Dtype, Stream,
    error::Exception,
    ops::{add, concatenate, indexing::TryIndexOp},
};
use std::ffi::CStr;

type Result<T> = std::result::Result<T, Exception>;

/// `y = x Wᵀ (+ b)` over the last axis of `x`.
#[derive(Debug, Clone)]
pub(crate) struct Linear(Matrix);

#[derive(Debug, Clone)]
enum Matrix {
    /// Dense or affine.
    Weight(Weight),
    /// E2M1 or E4M3 elements with byte scales.
    Float {
        /// `[N, K · bits / 32]`, u32.
        w: Array,
        /// `[N, K / group]`, u8.
        scales: Array,
        packing: Packing,
        bias: Option<Array>,
    },
}

impl Linear {
    /// `w`: `[N, K]`, `bias`: `[N]`.
    pub(crate) fn dense(w: Array, bias: Option<Array>) -> Self {
        Self(Matrix::Weight(Weight::Dense { w, bias }))
    }

    /// `w`: `[N, K · bits / 32]` u32, `scales` and `biases`: `[N, K / group]`.
    pub(crate) fn affine(w: Array, scales: Array, biases: Array, packing: Packing, bias: Option<Array>) -> Self {
        let Packing { bits, group, .. } = packing;
        Self(Matrix::Weight(Weight::Affine {
            w,
            scales,
            biases,
            group,
            bits,
            bias,
        }))
    }

    /// `w`: `[N, K · bits / 32]` u32, `scales`: `[N, K / group]` u8.
    pub(crate) fn float_packed(w: Array, scales: Array, packing: Packing, bias: Option<Array>) -> Self {
        Self(Matrix::Float { w, scales, packing, bias })
    }

    /// The layers as one, outputs in order: one pass over `x`. `None` where they are stored differently.
    pub(crate) fn join(parts: &[&Self]) -> Result<Option<Self>> {
        let weights: Vec<&Weight> = parts.iter().filter_map(|part| part.weight()).collect();
        if weights.len() == parts.len() {
            return Ok(Weight::join(&weights)?.map(|weight| Self(Matrix::Weight(weight))));
        }
        let mut floats = Vec::new();
        for part in parts {
            match &part.0 {
                Matrix::Float {
                    w,
                    scales,
                    packing,
                    bias: None,
                } => floats.push((w, scales, *packing)),
                _ => return Ok(None),
            }
        }
        let Some(&(.., packing)) = floats.first().filter(|first| floats.iter().all(|part| part.2 == first.2)) else {
            return Ok(None);
        };
        let w = concatenate(&floats.iter().map(|part| part.0).collect::<Vec<_>>(), 0)?;
        let scales = concatenate(&floats.iter().map(|part| part.1).collect::<Vec<_>>(), 0)?;
        Ok(Some(Self::float_packed(w, scales, packing, None)))
    }

    /// The layer of the first `n` outputs alone: views, no copies.
    pub(crate) fn first(&self, n: i32) -> Result<Self> {
        Ok(Self(match &self.0 {
            Matrix::Weight(weight) => Matrix::Weight(weight.first(n)?),
            Matrix::Float { w, scales, packing, bias } => Matrix::Float {
                w: w.try_index((..n, ..))?,
                scales: scales.try_index((..n, ..))?,
                packing: *packing,
                bias: bias.as_ref().map(|bias| bias.try_index(..n)).transpose()?,
            },
        }))
    }

    /// Some of its outputs, in this order.
    pub(crate) fn rows(&self, rows: &[u32]) -> Result<Self> {
        let rows = Array::from_slice(rows, &[rows.len() as i32]);
        let take = |array: &Array| array.take_axis(&rows, 0);
        let bias = |bias: &Option<Array>| bias.as_ref().map(take).transpose();
        Ok(Self(match &self.0 {
            Matrix::Weight(Weight::Dense { w, bias: b }) => Matrix::Weight(Weight::Dense {
                w: take(w)?,
                bias: bias(b)?,
            }),
            Matrix::Weight(Weight::Affine {
                w,
                scales,
                biases,
                group,
                bits,
                bias: b,
            }) => Matrix::Weight(Weight::Affine {
                w: take(w)?,
                scales: take(scales)?,
                biases: take(biases)?,
                group: *group,
                bits: *bits,
                bias: bias(b)?,
            }),
            Matrix::Float {
                w,
                scales,
                packing,
                bias: b,
            } => Matrix::Float {
                w: take(w)?,
                scales: take(scales)?,
                packing: *packing,
                bias: bias(b)?,
            },
        }))
    }

    fn weight(&self) -> Option<&Weight> {
        match &self.0 {
            Matrix::Weight(weight) => Some(weight),
            Matrix::Float { .. } => None,
        }
    }

    /// Every array that it owns.
    pub(crate) fn arrays(&self) -> Vec<&Array> {
        match &self.0 {
            Matrix::Weight(weight) => weight.arrays(),
            Matrix::Float { w, scales, bias, .. } => [w, scales].into_iter().chain(bias).collect(),
        }
    }

    /// `[.., K]` to `[.., N]`.
    pub(crate) fn forward(&self, x: &Array) -> Result<Array> {
        match &self.0 {
            Matrix::Weight(weight) => mlx_cpu::linear(x, weight),
            Matrix::Float { w, scales, packing, bias } => {
                let y = float_product(x, w, scales, *packing)?;
                bias.as_ref().map_or(Ok(y.clone()), |bias| add(&y, bias))
            }
        }
    }

    /// The product plus `residual`, `[.., N]`.
    pub(crate) fn plus(&self, x: &Array, residual: &Array) -> Result<Array> {
        match &self.0 {
            Matrix::Weight(weight) => mlx_cpu::linear_plus(x, weight, residual),
            Matrix::Float { .. } => add(&self.forward(x)?, residual),
        }
    }

    /// The product of the RMS norm of `x`.
    pub(crate) fn of_norm(&self, x: &Array, norm: &Array, eps: f32) -> Result<Array> {
        match &self.0 {
            Matrix::Weight(weight) => mlx_cpu::norm_linear(x, Some(norm), eps, weight),
            Matrix::Float { .. } => self.forward(&mlx_cpu::rms_norm(x, Some(norm), eps)?),
        }
    }

    /// The product of `silu(gate) ⊙ up` plus `residual`; `gate_up`: `[.., 2K]`, the gate first.
    pub(crate) fn of_swiglu(&self, gate_up: &Array, residual: &Array) -> Result<Array> {
        match &self.0 {
            Matrix::Weight(weight) => mlx_cpu::swiglu_linear(gate_up, weight, Some(residual)),
            Matrix::Float { .. } => self.plus(&mlx_cpu::swiglu(gate_up)?, residual),
        }
    }

    /// Rows `ids` of the matrix as a table: `[..]` to `[.., K]`.
    pub(crate) fn embed(&self, ids: &Array, dtype: Dtype) -> Result<Array> {
        match &self.0 {
            Matrix::Weight(weight) => mlx_cpu::embed(ids, weight, dtype),
            Matrix::Float { w, scales, packing, .. } => {
                let (w, scales) = (w.take_axis(ids, 0)?, scales.take_axis(ids, 0)?);
                float_dequantize(&w, &scales, *packing, dtype)
            }
        }
    }
}

pub(crate) fn mode_name(mode: Mode) -> &'static CStr {
    match mode {
        Mode::Affine => c"affine",
        Mode::Mxfp4 => c"mxfp4",
        Mode::Nvfp4 => c"nvfp4",
        Mode::Mxfp8 => c"mxfp8",
    }
}

pub(crate) fn optional(value: i32) -> mlx_sys::mlx_optional_int {
    mlx_sys::mlx_optional_int { value, has_value: true }
}

/// Turns a raw call into a result. `call` fills its argument and returns MLX's status.
#[allow(unsafe_code)]
pub(super) fn raw(what: &str, call: impl FnOnce(*mut mlx_sys::mlx_array, mlx_sys::mlx_stream) -> i32) -> Result<Array> {
    let stream = Stream::thread_local_or_default();
    // SAFETY: a new empty handle, owned by `out` from here on, whatever the call did to it.
    let mut handle = unsafe { mlx_sys::mlx_array_new() };
    let status = call(&raw mut handle, stream.as_ptr());
    // SAFETY: as above; MLX leaves a valid handle on success and the empty one on failure.
    let out = unsafe { Array::from_ptr(handle) };
    if status == 0 {
        Ok(out)
    } else {
        Err(Exception::custom(format!("MLX refused {what}")))
    }
}

/// The same values in dense rows.
#[allow(unsafe_code)]
pub(crate) fn contiguous(x: &Array) -> Result<Array> {
    // SAFETY: the handle lives through the call, which copies what it keeps.
    raw("to copy rows", |out, stream| unsafe {
        mlx_sys::mlx_contiguous(out, x.as_ptr(), false, stream)
    })
}

#[allow(unsafe_code)]
fn float_product(x: &Array, w: &Array, scales: &Array, packing: Packing) -> Result<Array> {
    let y = raw("a quantized product", |out, stream| {
        // SAFETY: the handles live through the call, which copies what it keeps; an empty handle stands for no biases.
        unsafe {
            let none = mlx_sys::mlx_array_new();
            let (group, bits) = (optional(packing.group), optional(packing.bits));
            let mode = mode_name(packing.mode).as_ptr();
            mlx_sys::mlx_quantized_matmul(out, x.as_ptr(), w.as_ptr(), scales.as_ptr(), none, true, group, bits, mode, stream)
        }
    })?;
    if y.dtype() == x.dtype() { Ok(y) } else { y.as_dtype(x.dtype()) }
}

#[allow(unsafe_code)]
fn float_dequantize(w: &Array, scales: &Array, packing: Packing, dtype: Dtype) -> Result<Array> {
    let y = raw("to unpack floats", |out, stream| {
        // SAFETY: as in `float_product`.
        unsafe {
            let none = mlx_sys::mlx_array_new();
            let (group, bits) = (optional(packing.group), optional(packing.bits));
            let any = mlx_sys::mlx_optional_dtype {
                value: mlx_sys::mlx_dtype__MLX_FLOAT32,
                has_value: false,
            };
            let mode = mode_name(packing.mode).as_ptr();
            mlx_sys::mlx_dequantize(out, w.as_ptr(), scales.as_ptr(), none, group, bits, mode, none, any, stream)
        }
    })?;
    // Exact: the values fit bf16.
    if y.dtype() == dtype { Ok(y) } else { y.as_dtype(dtype) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::{collections::HashMap, path::Path};

    fn oracle() -> (Vec<Value>, HashMap<String, Array>) {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle/quant_matrices");
        let golden: Value = serde_json::from_slice(&std::fs::read(dir.join("golden.json")).unwrap()).unwrap();
        (
            golden["items"].as_array().unwrap().clone(),
            Array::load_safetensors(dir.join("matrices.safetensors")).unwrap(),
        )
    }

    fn packed(item: &Value, tensors: &HashMap<String, Array>, dtype: Option<Dtype>) -> Linear {
        let part = |name: &str| tensors.get(&format!("{}.{name}", item["name"].as_str().unwrap())).cloned();
        let number = |key: &str| item[key].as_i64().unwrap() as i32;
        let mode = [Mode::Affine, Mode::Mxfp4, Mode::Nvfp4, Mode::Mxfp8].into_iter();
        let packing = Packing {
            bits: number("bits"),
            group: number("group_size"),
            mode: mode.into_iter().find(|mode| item["mode"] == mode.name()).unwrap(),
        };
        let (w, scales) = (part("weight").unwrap(), part("scales").unwrap());
        let cast = |array: Array| dtype.map_or(array.clone(), |dtype| array.as_dtype(dtype).unwrap());
        match part("biases") {
            Some(biases) => Linear::affine(w, cast(scales), cast(biases), packing, None),
            None => Linear::float_packed(w, scales, packing, None),
        }
    }

    fn worst(found: &Array, expected: &Array) -> f32 {
        let list = |array: &Array| array.reshape(&[-1]).unwrap().to_vec_cast::<f32>().unwrap();
        let (found, expected) = (list(found), list(expected));
        assert_eq!(found.len(), expected.len());
        let largest = expected.iter().fold(0_f32, |max, x| max.max(x.abs()));
        found.iter().zip(&expected).fold(0_f32, |max, (a, b)| max.max((a - b).abs())) / largest
    }

    /// All bits, groups and modes: rows of a table, and products at one row and at three, with scales as stored and
    /// widened.
    #[test]
    fn every_packing() {
        // What is under test is the packings; how products round is tested where they are made.
        mlx_cpu::exact_products(true);
        let (items, tensors) = oracle();
        assert_eq!(items.len(), 21);
        let x = &tensors["x"];
        for item in &items {
            let name = item["name"].as_str().unwrap();
            for dtype in [None, Some(Dtype::Float32)] {
                let linear = packed(item, &tensors, dtype);
                let rows = linear.embed(&Array::from_slice(&[0_u32, 1, 2, 3], &[4]), Dtype::Float32).unwrap();
                assert!(worst(&rows, &tensors[&format!("{name}.dequantized")]) < 1e-6, "{name}: rows");
                let expected = &tensors[&format!("{name}.xWt")];
                let off = worst(&linear.forward(x).unwrap(), expected);
                assert!(off < 3e-6, "{name}: product, off by {off}");
                let first = linear.forward(&x.take_axis(Array::from_slice(&[0_u32], &[1]), 0).unwrap()).unwrap();
                let expected = expected.take_axis(Array::from_slice(&[0_u32], &[1]), 0).unwrap();
                assert!(worst(&first, &expected) < 3e-6, "{name}: one row");
            }
        }
    }

    #[test]
    fn joined_is_side_by_side() {
        let (items, tensors) = oracle();
        let x = &tensors["x"];
        for item in &items {
            let linear = packed(item, &tensors, None);
            let joined = Linear::join(&[&linear, &linear, &linear]).unwrap().unwrap();
            let once = linear.forward(x).unwrap();
            let expected = concatenate(&[&once, &once, &once], -1).unwrap();
            assert!(worst(&joined.forward(x).unwrap(), &expected) < 1e-6);
        }
        let (a, b) = (packed(&items[0], &tensors, None), packed(&items[1], &tensors, None));
        assert!(Linear::join(&[&a, &b]).unwrap().is_none());
        let floats: Vec<_> = items
            .iter()
            .filter(|item| item["mode"] != "affine")
            .map(|item| packed(item, &tensors, None))
            .collect();
        assert!(Linear::join(&[&floats[0], &floats[1]]).unwrap().is_none());
        assert!(Linear::join(&[&a, &floats[0]]).unwrap().is_none());
    }
}
