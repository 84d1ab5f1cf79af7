//! DFlash 2's dynamic convolution over the rows of a block: each row mixes with the ones before it, by coefficients that
//! depend on the row. Context rows take no part.

use super::{Result, reader::Reader, spec::ConvSpec};
use mlx_cpu::Weight;
use mlx_rs::{
    Array,
    error::Exception,
    ops::{add, concatenate, indexing::TryIndexOp, multiply, zeros_dtype},
};

#[derive(Debug)]
pub(super) struct Conv {
    /// `[2, taps, G, group]`: of the sublayer's input, and of its output.
    base: Array,
    projection: Weight,
    taps: i32,
    groups: i32,
    group: i32,
}

/// Coefficients of one block, `[w, 2, taps, G, 1]`.
pub(super) struct Coefficients(Array);

/// Which end of a sublayer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side {
    Input,
    Output,
}

impl Conv {
    pub(super) fn read(reader: &mut Reader, path: &str, spec: ConvSpec, hidden: usize) -> Result<Self> {
        let (taps, group) = (spec.taps as i32, spec.group as i32);
        let groups = hidden as i32 / group;
        let base = reader.raw(&format!("{path}.base_kernel"))?.reshape(&[2, taps, groups, group])?;
        Ok(Self {
            base,
            projection: reader.matrix(&format!("{path}.kernel_projection"), hidden, false)?,
            taps,
            groups,
            group,
        })
    }

    /// `x`: `[1, w, H]`, the normed input of the sublayer.
    pub(super) fn coefficients(&self, x: &Array) -> std::result::Result<Coefficients, Exception> {
        let flat = mlx_cpu::linear(x, &self.projection)?;
        flat.reshape(&[x.dim(1), 2, self.taps, self.groups, 1]).map(Coefficients)
    }

    /// `out[i, c] = Σ_t (base[t, c] + coefficient[i, t, c / group]) x[i − t, c]`; rows before the block count as zero.
    pub(super) fn apply(&self, x: &Array, of: &Coefficients, side: Side) -> std::result::Result<Array, Exception> {
        let side = match side {
            Side::Input => 0,
            Side::Output => 1,
        };
        let rows = x.dim(1);
        let grouped = x.reshape(&[rows, self.groups, self.group])?;
        let mut sum: Option<Array> = None;
        for tap in 0..self.taps.min(rows) {
            let kernel = add(&self.base.try_index((side, tap))?, &of.0.try_index((.., side, tap, .., ..))?)?;
            let shifted = if tap == 0 {
                grouped.clone()
            } else {
                let before = zeros_dtype(&[tap, self.groups, self.group], x.dtype())?;
                concatenate(&[before, grouped.try_index((..rows - tap, .., ..))?], 0)?
            };
            let term = multiply(&kernel, &shifted)?;
            sum = Some(match sum {
                Some(sum) => add(&sum, &term)?,
                None => term,
            });
        }
        sum.unwrap_or(grouped).reshape(x.shape())
    }
}
