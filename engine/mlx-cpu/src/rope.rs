//! Rotary position embedding from per-pair frequencies.

use crate::{stock, Result};
use mlx_rs::{fast, ops, Array};

/// Where the rows of a sequence stand.
#[derive(Debug, Clone, Copy)]
pub enum Positions<'a> {
    /// Row `i` of every sequence is at `offset + i`: a chain.
    From(i32),
    /// One position a row: `[L]`, the same for every sequence, or `[B * L]`. The nodes of a draft tree have their depths.
    Each(&'a [i32]),
}

/// Rotary embedding of the first `2 * inv_freq.len()` dimensions of each head.
///
/// Every variant is frequencies and an input scale: default, linear (frequencies divided by the factor), llama3, yarn and
/// longrope (their frequencies, and their attention factor as `input_scale`), dynamic (build a new `Rope` when the base moves).
#[derive(Debug)]
pub struct Rope {
    /// What `fast::rope` wants: radians are position / period.
    periods: Array,
    dims: i32,
    traditional: bool,
    input_scale: f32,
}

impl Rope {
    /// `inv_freq`: radians per position for each pair (`base^(-2i/dims)` by default). `traditional` pairs neighbours
    /// (`x[2i], x[2i+1]`), otherwise halves are paired (`x[i], x[i + dims/2]`). The rotated dimensions are also multiplied by
    /// `input_scale` (1 where the variant has none).
    pub fn new(inv_freq: &[f32], traditional: bool, input_scale: f32) -> Self {
        let periods: Vec<f32> = inv_freq.iter().map(|f| 1.0 / f).collect();
        let pairs = inv_freq.len() as i32;
        Self { periods: Array::from_slice(&periods, &[pairs]), dims: 2 * pairs, traditional, input_scale }
    }

    /// The usual frequencies, `base^(-2i/dims)`.
    pub fn with_base(base: f32, dims: i32, traditional: bool) -> Self {
        let inv_freq: Vec<f32> = (0..dims / 2).map(|i| f64::from(base).powf(-2.0 * f64::from(i) / f64::from(dims)) as f32).collect();
        Self::new(&inv_freq, traditional, 1.0)
    }

    /// How many leading dimensions of a head are rotated.
    pub fn dims(&self) -> i32 {
        self.dims
    }

    /// Rotates `x`: `[B, H, L, D]`, any strides.
    pub fn apply(&self, x: &Array, positions: Positions) -> Result<Array> {
        let x = &self.scaled(x)?;
        match positions {
            Positions::From(offset) => fast::rope(x, self.dims, self.traditional, None, 1.0, offset, &self.periods),
            Positions::Each(each) => {
                let [b, h, l, d] = stock::four(x)?;
                let offsets = Array::from_slice(&stock::per_row(each, b, l)?, &[b * l]);
                let rows = x.transpose_axes(&[0, 2, 1, 3])?.reshape(&[b * l, h, 1, d])?;
                let y = fast::rope_dynamic(&rows, self.dims, self.traditional, None, 1.0, &offsets, &self.periods)?;
                y.reshape(&[b, l, h, d])?.transpose_axes(&[0, 2, 1, 3])
            }
        }
    }

    fn scaled(&self, x: &Array) -> Result<Array> {
        if self.input_scale == 1.0 {
            return Ok(x.clone());
        }
        let scale = Array::from_f32(self.input_scale).as_dtype(x.dtype())?;
        if x.dim(-1) == self.dims {
            return ops::multiply(x, &scale);
        }
        let parts = x.split_at_indices(&[self.dims], -1)?;
        ops::concatenate(&[&ops::multiply(&parts[0], &scale)?, &parts[1]], -1)
    }
}
