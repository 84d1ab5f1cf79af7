//! Weights of linear layers and their products.

use crate::{
    Result,
    host::{self, ours},
    kernel::product::{self as kernel, Layer},
    rms_norm, swiglu,
};
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{self, indexing::TryIndexOp},
};

/// Weights of a linear layer, one row for each output.
#[derive(Debug, Clone)]
pub enum Weight {
    /// `w`: `[N, K]` of f32, f16 or bf16; `bias`: `[N]`.
    Dense {
        /// `[N, K]`.
        w: Array,
        /// `[N]`, added to the product.
        bias: Option<Array>,
    },
    /// MLX's affine quantization: `value = scale * field + bias` within each group of a row.
    Affine {
        /// `[N, K * bits / 32]`, u32.
        w: Array,
        /// `[N, K / group]`.
        scales: Array,
        /// `[N, K / group]`: the group biases of the quantization.
        biases: Array,
        /// Weights that share a scale: 32, 64 or 128.
        group: i32,
        /// 2, 3, 4, 5, 6 or 8.
        bits: i32,
        /// `[N]`, added to the product.
        bias: Option<Array>,
    },
}

impl Weight {
    /// Dense without a bias.
    pub fn dense(w: Array) -> Self {
        Self::Dense { w, bias: None }
    }

    /// Affine without a bias.
    pub fn affine(w: Array, scales: Array, biases: Array, group: i32, bits: i32) -> Self {
        Self::Affine {
            w,
            scales,
            biases,
            group,
            bits,
            bias: None,
        }
    }

    /// N.
    pub fn outputs(&self) -> i32 {
        let (Self::Dense { w, .. } | Self::Affine { w, .. }) = self;
        w.dim(0)
    }

    /// K.
    pub fn inputs(&self) -> i32 {
        match self {
            Self::Dense { w, .. } => w.dim(1),
            Self::Affine { scales, group, .. } => scales.dim(1) * group,
        }
    }

    /// The additive bias, `[N]`.
    pub fn bias(&self) -> Option<&Array> {
        let (Self::Dense { bias, .. } | Self::Affine { bias, .. }) = self;
        bias.as_ref()
    }

    /// The layer of the first `n` outputs alone: views, no copies.
    pub fn first(&self, n: i32) -> Result<Self> {
        let rows = |array: &Array| array.try_index((..n, ..));
        let bias = self.bias().map(|bias| bias.try_index(..n)).transpose()?;
        Ok(match self {
            Self::Dense { w, .. } => Self::Dense { w: rows(w)?, bias },
            Self::Affine {
                w,
                scales,
                biases,
                group,
                bits,
                ..
            } => Self::Affine {
                w: rows(w)?,
                scales: rows(scales)?,
                biases: rows(biases)?,
                group: *group,
                bits: *bits,
                bias,
            },
        })
    }

    /// Every array, to evaluate or to count.
    pub fn arrays(&self) -> Vec<&Array> {
        match self {
            Self::Dense { w, bias } => [w].into_iter().chain(bias).collect(),
            Self::Affine {
                w, scales, biases, bias, ..
            } => [w, scales, biases].into_iter().chain(bias).collect(),
        }
    }

    /// Bytes read by a product.
    pub fn nbytes(&self) -> usize {
        self.arrays().iter().map(|a| a.nbytes()).sum()
    }

    /// The layers side by side, as one with the outputs of each in order (q, k, v; gate, up): one pass over x. `None` where
    /// their formats differ.
    pub fn join(parts: &[&Self]) -> Result<Option<Self>> {
        let rows = |pick: fn(&Self) -> Option<&Array>| -> Result<Option<Option<Array>>> {
            let some: Vec<&Array> = parts.iter().filter_map(|p| pick(p)).collect();
            if some.is_empty() {
                return Ok(Some(None));
            }
            let same = some.len() == parts.len()
                && some
                    .iter()
                    .all(|a| a.dtype() == some[0].dtype() && a.shape()[1..] == some[0].shape()[1..]);
            if same {
                Ok(Some(Some(ops::concatenate(&some, 0)?)))
            } else {
                Ok(None)
            }
        };
        let kind = |w: &Self| match w {
            Self::Dense { .. } => (0, 0),
            Self::Affine { group, bits, .. } => (*group, *bits),
        };
        let Some(first) = parts.first() else { return Ok(None) };
        if parts.iter().any(|p| kind(p) != kind(first)) {
            return Ok(None);
        }
        let w = rows(|p| match p {
            Self::Dense { w, .. } | Self::Affine { w, .. } => Some(w),
        })?;
        let scales = rows(|p| if let Self::Affine { scales, .. } = p { Some(scales) } else { None })?;
        let biases = rows(|p| if let Self::Affine { biases, .. } = p { Some(biases) } else { None })?;
        let bias = rows(Self::bias)?;
        let (Some(Some(w)), Some(scales), Some(biases), Some(bias)) = (w, scales, biases, bias) else {
            return Ok(None);
        };
        Ok(match (scales, biases) {
            (Some(scales), Some(biases)) => {
                let (group, bits) = kind(first);
                Some(Self::Affine {
                    w,
                    scales,
                    biases,
                    group,
                    bits,
                    bias,
                })
            }
            _ => Some(Self::Dense { w, bias }),
        })
    }
}

/// `x Wᵀ + bias`. `x`: `[.., K]`, any strides; the result is `[.., N]` of the dtype of `x`, accumulated in f32 on the CPU.
pub fn linear(x: &Array, weight: &Weight) -> Result<Array> {
    product(x, weight, None, Before::Nothing)
}

/// `x Wᵀ + bias + residual`; `residual`: `[.., N]` of the dtype of `x`.
pub fn linear_plus(x: &Array, weight: &Weight, residual: &Array) -> Result<Array> {
    product(x, weight, Some(residual), Before::Nothing)
}

/// `linear(rms_norm(x, norm, eps), weight)`, in one pass on the CPU.
pub fn norm_linear(x: &Array, norm: Option<&Array>, eps: f32, weight: &Weight) -> Result<Array> {
    product(x, weight, None, Before::Norm(norm, eps))
}

/// `swiglu(gate_up) Wᵀ + bias [+ residual]`, in one pass on the CPU. `gate_up`: `[.., 2K]`, the gate first.
pub fn swiglu_linear(gate_up: &Array, weight: &Weight, residual: Option<&Array>) -> Result<Array> {
    product(gate_up, weight, residual, Before::Swiglu)
}

/// Rows `ids` of a table as `dtype`: `ids` (i32 or u32) of any shape `[..]` gives `[.., K]`. Only those rows are dequantized.
pub fn embed(ids: &Array, table: &Weight, dtype: Dtype) -> Result<Array> {
    let rows = match table {
        Weight::Dense { w, .. } => w.take_axis(ids, 0)?,
        Weight::Affine {
            w,
            scales,
            biases,
            group,
            bits,
            ..
        } => {
            // In f32: MLX rounds to the dtype of the scales otherwise.
            let f32s = |a: &Array| a.take_axis(ids, 0)?.as_dtype(Dtype::Float32);
            ops::dequantize(w.take_axis(ids, 0)?, f32s(scales)?, &f32s(biases)?, *group, *bits)?
        }
    };
    if rows.dtype() == dtype { Ok(rows) } else { rows.as_dtype(dtype) }
}

/// What happens to x first.
#[derive(Clone, Copy)]
enum Before<'a> {
    Nothing,
    Norm(Option<&'a Array>, f32),
    Swiglu,
}

fn product(x: &Array, weight: &Weight, residual: Option<&Array>, before: Before) -> Result<Array> {
    let (n, k) = (weight.outputs(), weight.inputs());
    let width = if matches!(before, Before::Swiglu) { 2 * k } else { k };
    if x.ndim() == 0 || x.dim(-1) != width {
        return Err(Exception::custom(format!(
            "linear: x is {:?}, the weights are {n} x {k}",
            x.shape()
        )));
    }
    if !(ours() && fits(weight, x)) {
        let x = match before {
            Before::Nothing => x.clone(),
            Before::Norm(w, eps) => rms_norm(x, w, eps)?,
            Before::Swiglu => swiglu(x)?,
        };
        return stock_product(&x, weight, residual);
    }
    let mut shape = x.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = n;
    }
    let mut layer = Layer {
        bias: weight.bias().is_some(),
        residual: residual.is_some(),
        swiglu: matches!(before, Before::Swiglu),
        ..Layer::default()
    };
    let mut inputs = vec![x];
    match weight {
        Weight::Dense { w, .. } => inputs.push(w),
        Weight::Affine {
            w,
            scales,
            biases,
            group,
            bits,
            ..
        } => {
            (layer.bits, layer.group) = (i64::from(*bits), i64::from(*group));
            inputs.extend([w, scales, biases]);
        }
    }
    if let Before::Norm(w, eps) = before {
        layer.norm = Some(eps);
        layer.norm_weight = w.is_some();
        inputs.extend(w);
    }
    inputs.extend(weight.bias());
    inputs.extend(residual);
    host::op1(c"CpuLinear", kernel::linear, &inputs, &shape, x.dtype(), &layer.params())
}

fn stock_product(x: &Array, weight: &Weight, residual: Option<&Array>) -> Result<Array> {
    let mut y = match weight {
        Weight::Dense { w, .. } => ops::matmul(x, w.t())?,
        Weight::Affine {
            w,
            scales,
            biases,
            group,
            bits,
            ..
        } => ops::quantized_matmul(x, w, scales, biases, true, *group, *bits)?,
    };
    for term in weight.bias().into_iter().chain(residual) {
        y = ops::add(&y, term)?;
    }
    if y.dtype() == x.dtype() { Ok(y) } else { y.as_dtype(x.dtype()) }
}

/// There is a kernel for these weights and this x.
fn fits(weight: &Weight, x: &Array) -> bool {
    let float = |a: &Array| matches!(a.dtype(), Dtype::Float32 | Dtype::Float16 | Dtype::Bfloat16);
    let weights = match weight {
        Weight::Dense { w, .. } => float(w) && w.ndim() == 2,
        Weight::Affine {
            scales,
            biases,
            bits,
            group,
            ..
        } => float(scales) && scales.dtype() == biases.dtype() && [2, 4, 8].contains(bits) && [32, 64, 128].contains(group),
    };
    weights && float(x) && weight.bias().is_none_or(float) && x.ndim() <= 6 && x.size() > 0
}
