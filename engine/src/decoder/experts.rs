//! The linear layers of many experts in one tensor: our kernel on the CPU, MLX's gather products elsewhere.

use super::linear::{mode_name, optional, raw};
use crate::load::{Mode, Packing};
use mlx_cpu::{Backend, ExpertScales, ExpertWeights, gather_linear};
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{concatenate, gather_mm, multiply},
};

type Result<T> = std::result::Result<T, Exception>;

/// `y = x W[e]ᵀ` for the experts `e` that each row of `x` has chosen.
#[derive(Debug, Clone)]
pub(crate) enum Experts {
    /// `[E, N, K]`.
    Dense(Array),
    Packed {
        /// `[E, N, K · bits / 32]`, u32.
        w: Array,
        /// `[E, N, K / group]`, as the biases, which only affine packings have.
        scales: Array,
        biases: Option<Array>,
        packing: Packing,
        /// nvfp4's scale of each expert as a whole, `[E]` f32.
        factor: Option<Array>,
    },
}

impl Experts {
    pub(crate) fn dense(w: Array) -> Self {
        Self::Dense(w)
    }

    pub(crate) fn packed(w: Array, scales: Array, biases: Option<Array>, packing: Packing) -> Self {
        Self::Packed {
            w,
            scales,
            biases,
            packing,
            factor: None,
        }
    }

    /// With a factor for each expert, `[E]` f32.
    pub(crate) fn scaled(mut self, each: Array) -> Self {
        if let Self::Packed { factor, .. } = &mut self {
            *factor = Some(each);
        }
        self
    }

    /// Both as one, outputs in order: one pass over `x`. `None` where they are stored differently.
    pub(super) fn join(first: &Self, second: &Self) -> Result<Option<Self>> {
        Ok(match (first, second) {
            (Self::Dense(a), Self::Dense(b)) if a.dtype() == b.dtype() => Some(Self::Dense(concatenate(&[a, b], 1)?)),
            (
                Self::Packed {
                    w,
                    scales,
                    biases,
                    packing,
                    factor: None,
                },
                Self::Packed {
                    w: w2,
                    scales: scales2,
                    biases: biases2,
                    packing: packing2,
                    factor: None,
                },
            ) if packing == packing2 => {
                let biases = match (biases, biases2) {
                    (Some(a), Some(b)) => Some(concatenate(&[a, b], 1)?),
                    _ => None,
                };
                Some(Self::packed(
                    concatenate(&[w, w2], 1)?,
                    concatenate(&[scales, scales2], 1)?,
                    biases,
                    *packing,
                ))
            }
            _ => None,
        })
    }

    pub(super) fn arrays(&self) -> Vec<&Array> {
        match self {
            Self::Dense(w) => vec![w],
            Self::Packed {
                w, scales, biases, factor, ..
            } => [w, scales].into_iter().chain(biases).chain(factor).collect(),
        }
    }

    /// For our kernel.
    fn gathered(&self) -> Option<ExpertWeights<'_>> {
        match self {
            Self::Dense(w) => Some(ExpertWeights { w, affine: None }),
            Self::Packed {
                w,
                scales,
                biases: Some(biases),
                packing,
                factor: None,
            } if packing.mode == Mode::Affine => Some(ExpertWeights {
                w,
                affine: Some(ExpertScales {
                    scales,
                    biases,
                    group: packing.group,
                    bits: packing.bits,
                }),
            }),
            Self::Packed { .. } => None,
        }
    }

    /// `x`: `[.., 1, K]`, its leading axes broadcast against `experts`, u32; gives `[.., 1, N]`. `sorted`: the experts
    /// ascend, so that each is read once.
    pub(super) fn forward(&self, x: &Array, experts: &Array, sorted: bool) -> Result<Array> {
        if let Some(weights) = self.gathered()
            && let Some(y) = gather_linear(x, experts, &weights)?
        {
            return Ok(y);
        }
        // MLX's CPU gather product ends the process on any float but f32.
        let cpu = mlx_cpu::backend() == Backend::Cpu;
        let wide = |a: &Array| {
            if cpu && matches!(a.dtype(), Dtype::Float16 | Dtype::Bfloat16) {
                a.as_dtype(Dtype::Float32)
            } else {
                Ok(a.clone())
            }
        };
        let row = wide(x)?;
        let y = match self {
            Self::Dense(w) => gather_mm(&row, wide(w)?.swap_axes(-1, -2)?, None, experts, sorted)?,
            Self::Packed {
                w,
                scales,
                biases,
                packing,
                factor,
            } => {
                let biases = biases.as_ref().map(wide).transpose()?;
                let y = product(&row, w, &wide(scales)?, biases.as_ref(), *packing, experts, sorted)?;
                match factor {
                    Some(each) => multiply(&y, &each.take_axis(experts, 0)?.expand_dims_axes(&[-1, -2])?)?,
                    None => y,
                }
            }
        };
        if y.dtype() == x.dtype() { Ok(y) } else { y.as_dtype(x.dtype()) }
    }
}

#[allow(unsafe_code)]
fn product(x: &Array, w: &Array, scales: &Array, biases: Option<&Array>, packing: Packing, experts: &Array, sorted: bool) -> Result<Array> {
    raw("a gathered product", |out, stream| {
        // SAFETY: the handles live through the call, which copies what it keeps; an empty handle stands for what is absent
        // and is let go.
        unsafe {
            let none = mlx_sys::mlx_array_new();
            let status = mlx_sys::mlx_gather_qmm(
                out,
                x.as_ptr(),
                w.as_ptr(),
                scales.as_ptr(),
                biases.map_or(none, Array::as_ptr),
                none,
                experts.as_ptr(),
                true,
                optional(packing.group),
                optional(packing.bits),
                mode_name(packing.mode).as_ptr(),
                sorted,
                stream,
            );
            mlx_sys::mlx_array_free(none);
            status
        }
    })
}
