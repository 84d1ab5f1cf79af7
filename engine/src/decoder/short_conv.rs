//! The short convolution of LFM2: `out(c ⊙ conv(b ⊙ x))` with `b, c, x = in(norm(stream))`.

use super::{attention::Place, conv::Conv, linear::Linear, norm::Norm, recurrence::leave, spec::ShortConvSpec};
use crate::{
    cache::LayerCache,
    load::{LoadError, Weights},
};
use mlx_rs::{Array, error::Exception, ops::multiply};

#[derive(Debug)]
pub(super) struct ShortConv {
    input: Linear,
    conv: Conv,
    output: Linear,
}

impl ShortConv {
    pub(super) fn build(spec: &ShortConvSpec, weights: &mut Weights<'_>) -> Result<Self, LoadError> {
        Ok(Self {
            input: weights.linear(&spec.input)?,
            conv: Conv::build(&spec.conv, weights)?,
            output: weights.linear(&spec.output)?,
        })
    }

    pub(super) fn output(&self) -> &Linear {
        &self.output
    }

    pub(super) fn arrays(&self) -> Vec<&Array> {
        [self.input.arrays(), self.conv.arrays(), self.output.arrays()].concat()
    }

    /// What goes into the output projection, `[1, T, H]`.
    pub(super) fn mix(&self, x: &Array, norm: &Norm, place: Place<'_>, cache: &mut LayerCache) -> Result<Array, Exception> {
        let parts = norm.then(&self.input, x)?.split_equal(3, -1)?;
        let rows = multiply(&parts[0], &parts[2])?;
        let cache = cache.recurrent()?;
        let window = self.conv.window(cache, rows.dtype())?;
        let mixed = multiply(&parts[1], self.conv.forward(&window, &rows, place)?)?;
        leave(cache, &self.conv, place, [window, rows], None, Vec::new())?;
        Ok(mixed)
    }
}
