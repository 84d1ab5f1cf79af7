//! Rotary position embedding from per-pair frequencies.

use crate::{
    Backend, Result, backend,
    host::{self, ours},
    kernel::step::{self as kernel, Params},
    stock,
};
use mlx_rs::{Array, error::Exception, fast, ops};
use std::cell::RefCell;

/// Where the rows of a sequence stand.
#[derive(Debug, Clone, Copy)]
pub enum Positions<'a> {
    /// Row `i` of every sequence is at `offset + i`: a chain.
    From(i32),
    /// One position a row: `[L]`, the same for every sequence, or `[B * L]`. The nodes of a draft tree have their depths.
    Each(&'a [i32]),
}

impl Positions<'_> {
    /// One a row, `[B * L]`.
    pub(crate) fn rows(self, b: i32, l: i32) -> Result<Vec<i64>> {
        match self {
            Positions::From(offset) => Ok((0..b * l).map(|row| i64::from(offset + row % l)).collect()),
            Positions::Each(each) => Ok(stock::per_row(each, b, l)?.into_iter().map(i64::from).collect()),
        }
    }
}

/// Rotary embedding of the first `2 * inv_freq.len()` dimensions of each head.
///
/// Every variant is frequencies and an input scale: default, linear (frequencies divided by the factor), llama3, yarn and
/// longrope (their frequencies, and their attention factor as `input_scale`), dynamic (build a new `Rope` when the base moves).
#[derive(Debug)]
pub struct Rope {
    /// What `fast::rope` wants: radians are position / period.
    periods: Array,
    inv_freq: Vec<f32>,
    dims: i32,
    traditional: bool,
    input_scale: f32,
    /// Cosines and sines of the positions so far, `[positions, dims]`.
    table: RefCell<Option<Array>>,
}

impl Rope {
    /// `inv_freq`: radians per position for each pair (`base^(-2i/dims)` by default). `traditional` pairs neighbours
    /// (`x[2i], x[2i+1]`), otherwise halves are paired (`x[i], x[i + dims/2]`). The rotated dimensions are also multiplied by
    /// `input_scale` (1 where the variant has none).
    pub fn new(inv_freq: &[f32], traditional: bool, input_scale: f32) -> Self {
        let periods: Vec<f32> = inv_freq.iter().map(|f| 1.0 / f).collect();
        let pairs = inv_freq.len() as i32;
        Self {
            periods: Array::from_slice(&periods, &[pairs]),
            inv_freq: inv_freq.to_vec(),
            dims: 2 * pairs,
            traditional,
            input_scale,
            table: RefCell::new(None),
        }
    }

    /// The usual frequencies, `base^(-2i/dims)`.
    pub fn with_base(base: f32, dims: i32, traditional: bool) -> Self {
        let inv_freq: Vec<f32> = (0..dims / 2)
            .map(|i| f64::from(base).powf(-2.0 * f64::from(i) / f64::from(dims)) as f32)
            .collect();
        Self::new(&inv_freq, traditional, 1.0)
    }

    /// How many leading dimensions of a head are rotated.
    pub fn dims(&self) -> i32 {
        self.dims
    }

    /// Rotates `x`: `[B, H, L, D]`, any strides.
    pub fn apply(&self, x: &Array, positions: Positions) -> Result<Array> {
        if ours() && stock::float(x) {
            let [b, _, l, _] = stock::four(x)?;
            let positions = positions.rows(b, l)?;
            let table = self.table(&positions)?;
            let params = Params {
                turned: true,
                traditional: self.traditional,
                positions,
                ..Params::default()
            };
            return host::op1(c"CpuRope", kernel::rope, &[x, &table], x.shape(), x.dtype(), &params.numbers());
        }
        let x = &self.scaled(x)?;
        match positions {
            Positions::From(offset) => fast::rope(dense(x)?, self.dims, self.traditional, None, 1.0, offset, &self.periods),
            Positions::Each(each) => {
                let [b, h, l, d] = stock::four(x)?;
                let offsets = Array::from_slice(&stock::per_row(each, b, l)?, &[b * l]);
                let rows = x.transpose_axes(&[0, 2, 1, 3])?.reshape(&[b * l, h, 1, d])?;
                let y = fast::rope_dynamic(dense(&rows)?, self.dims, self.traditional, None, 1.0, &offsets, &self.periods)?;
                y.reshape(&[b, l, h, d])?.transpose_axes(&[0, 2, 1, 3])
            }
        }
    }

    /// Pairs of neighbours, not of halves.
    pub(crate) fn traditional(&self) -> bool {
        self.traditional
    }

    /// Cosines, then sines, times the input scale, for every position up to the last of `positions`: `[positions, dims]`.
    pub(crate) fn table(&self, positions: &[i64]) -> Result<Array> {
        let last = positions.iter().max().map_or(0, |p| *p as i32);
        if positions.iter().any(|p| *p < 0) {
            return Err(Exception::custom(format!("Rope: positions {positions:?}")));
        }
        let mut held = self.table.borrow_mut();
        if let Some(table) = held.as_ref().filter(|table| table.dim(0) > last) {
            return Ok(table.clone());
        }
        // Doubling keeps the work of a long generation linear.
        let rows = (last + 1).max(256).max((last / 2).saturating_mul(3));
        let mut all = Vec::with_capacity((rows * self.dims) as usize);
        for position in 0..rows {
            let angles = || self.inv_freq.iter().map(|f| position as f32 * f);
            all.extend(angles().map(|a| a.cos() * self.input_scale));
            all.extend(angles().map(|a| a.sin() * self.input_scale));
        }
        let table = Array::from_slice(&all, &[rows, self.dims]);
        *held = Some(table.clone());
        Ok(table)
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

/// On a GPU, the same values in dense rows: MLX 0.32.2's CUDA kernel rotates a view into wider rows as if the result had the same
/// strides, and writes past its end.
fn dense(x: &Array) -> Result<Array> {
    if backend() == Backend::Cpu { Ok(x.clone()) } else { x.contiguous() }
}
