//! Depthwise causal convolution over the rows of a forward and the few before them.

use super::{attention::Place, spec::ConvSpec};
use crate::{
    cache::{Recurrent, last},
    load::{LoadError, Weights},
};
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{add, concatenate, indexing::TryIndexOp, multiply},
};

type Result<T> = std::result::Result<T, Exception>;

#[derive(Debug)]
pub(super) struct Conv {
    /// One `[channels]` of f32 for each position of the kernel, the oldest first.
    taps: Vec<Array>,
    bias: Option<Array>,
    channels: usize,
}

impl Conv {
    pub(super) fn build(spec: &ConvSpec, weights: &mut Weights<'_>) -> std::result::Result<Self, LoadError> {
        let (weight, bias) = weights.convolution(spec)?;
        let turned = super::linear::contiguous(&weight.transpose()?)?;
        let taps = turned.split_equal(spec.kernel as i32, 0)?;
        let taps: Vec<Array> = taps
            .iter()
            .map(|tap| tap.squeeze_axes(&[0]))
            .collect::<std::result::Result<_, _>>()?;
        mlx_rs::transforms::eval(&taps)?;
        Ok(Self {
            taps,
            bias,
            channels: spec.channels,
        })
    }

    pub(super) fn arrays(&self) -> Vec<&Array> {
        self.taps.iter().chain(&self.bias).collect()
    }

    /// What stands before the next rows of this sequence.
    pub(super) fn window(&self, cache: &Recurrent, dtype: Dtype) -> Result<Array> {
        cache.window(self.taps.len(), self.channels, dtype)
    }

    /// What stands before the rows that follow `rows`.
    pub(super) fn next_window(&self, window: &Array, rows: &Array) -> Result<Array> {
        last(&concatenate(&[window, rows], 1)?, self.taps.len() as i32 - 1)
    }

    /// `rows`: `[1, T, C]` after `window`, `[1, kernel - 1, C]`; gives `[1, T, C]` of the dtype of `rows`.
    pub(super) fn forward(&self, window: &Array, rows: &Array, place: Place<'_>) -> Result<Array> {
        let all = concatenate(&[window, rows], 1)?.as_dtype(Dtype::Float32)?;
        let (length, before) = (rows.dim(1), self.taps.len() as i32 - 1);
        let mut sum = self.bias.clone();
        for (at, tap) in self.taps.iter().enumerate() {
            let seen = match place.tree {
                None => all.try_index((.., at as i32..at as i32 + length))?,
                Some(tree) => {
                    let back = before - at as i32;
                    let from: Vec<i32> = (0..length).map(|row| ancestor(tree.parents, row, back, before)).collect();
                    all.take_axis(Array::from_slice(&from, &[length]), 1)?
                }
            };
            let term = multiply(&seen, tap)?;
            sum = Some(match sum {
                Some(sum) => add(&sum, &term)?,
                None => term,
            });
        }
        let sum = sum.ok_or_else(|| Exception::custom("a convolution has at least one weight"))?;
        if rows.dtype() == Dtype::Float32 {
            Ok(sum)
        } else {
            sum.as_dtype(rows.dtype())
        }
    }
}

/// Where the row `back` steps before tree row `row` stands among `before` window rows and the tree's.
fn ancestor(parents: &[i32], row: i32, back: i32, before: i32) -> i32 {
    let (mut node, mut left) = (row, back);
    while left > 0 && node >= 0 {
        node = parents[node as usize];
        left -= 1;
    }
    if node >= 0 { before + node } else { before - 1 - left }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_goes_on_into_the_window() {
        // 0 and 3 are children of the context, 1 of 0, 2 of 1.
        let parents = [-1, 0, 1, -1];
        let of = |row, back| ancestor(&parents, row, back, 3);
        assert_eq!([of(2, 0), of(2, 1), of(2, 2), of(2, 3)], [5, 4, 3, 2]);
        assert_eq!([of(3, 0), of(3, 1), of(3, 2), of(3, 3)], [6, 2, 1, 0]);
        assert_eq!([of(0, 1), of(1, 3)], [2, 1]);
    }
}
