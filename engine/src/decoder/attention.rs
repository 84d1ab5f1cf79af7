//! The attention mixer: projections, then one step of `mlx-cpu`'s attention over this layer's cache.

use super::{linear::Linear, rope::Rope, spec::AttentionSpec};
use crate::{
    cache::LayerCache,
    load::{LoadError, Weights},
};
use mlx_cpu::{Mask, Positions};
use mlx_rs::{Array, error::Exception, ops::concatenate};
use std::cell::{Cell, RefCell};

/// Where the rows of a forward stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// Tokens in the cache before these rows.
    pub(super) offset: usize,
    pub(super) rows: usize,
    pub(super) tree: Option<Tree<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Tree<'a> {
    /// Row of each node's parent, -1 for the cache's end.
    pub(super) parents: &'a [i32],
    /// Absolute position of each node.
    pub(super) positions: &'a [i32],
}

#[derive(Debug)]
pub(super) struct Attention {
    qkv: Projections,
    o: Linear,
    step: RefCell<mlx_cpu::Attention>,
    window: Option<i32>,
    dynamic: Option<Dynamic>,
}

#[derive(Debug)]
enum Projections {
    Joined(Linear),
    /// Stored differently; joined after the product.
    Split([Linear; 3]),
}

/// Frequencies that move with the context length.
#[derive(Debug)]
struct Dynamic {
    rope: Rope,
    /// The length that the step's frequencies are for.
    length: Cell<usize>,
}

fn kernel_rope(rope: &Rope, length: usize) -> mlx_cpu::Rope {
    let frequencies: Vec<f32> = rope.frequencies(length).into_iter().map(|f| f as f32).collect();
    mlx_cpu::Rope::new(&frequencies, rope.traditional, rope.scale)
}

impl Attention {
    pub(super) fn build(spec: &AttentionSpec, weights: &mut Weights<'_>) -> Result<Self, LoadError> {
        let (q, k, v) = (weights.linear(&spec.q)?, weights.linear(&spec.k)?, weights.linear(&spec.v)?);
        let qkv = match Linear::join(&[&q, &k, &v])? {
            Some(joined) => Projections::Joined(joined),
            None => Projections::Split([q, k, v]),
        };
        let mut head_norm =
            |norm: &Option<super::spec::NormSpec>| norm.as_ref().map(|norm| Ok((weights.norm(norm)?, norm.eps))).transpose();
        let (q_norm, k_norm): (_, Result<_, LoadError>) = (head_norm(&spec.q_norm)?, head_norm(&spec.k_norm));
        let step = mlx_cpu::Attention {
            heads: spec.heads as i32,
            kv_heads: spec.kv_heads as i32,
            dim: spec.head_dim as i32,
            scale: Some(spec.scale),
            q_norm,
            k_norm: k_norm?,
            rope: Some(kernel_rope(&spec.rope, 0)),
            sinks: None,
        };
        let attention = Self {
            qkv,
            o: weights.linear(&spec.o)?,
            step: RefCell::new(step),
            window: spec.window.map(|window| window as i32),
            dynamic: spec.rope.is_dynamic().then(|| Dynamic {
                rope: spec.rope.clone(),
                length: Cell::new(0),
            }),
        };
        for array in attention.arrays() {
            array.eval()?;
        }
        Ok(attention)
    }

    /// The residual stream `x`, `[1, T, H]`, plus what attention makes of its norm.
    pub(super) fn forward(&self, x: &Array, norm: &Array, eps: f32, place: Place<'_>, cache: &mut LayerCache) -> Result<Array, Exception> {
        let qkv = match &self.qkv {
            Projections::Joined(joined) => joined.of_norm(x, norm, eps)?,
            Projections::Split(parts) => {
                let normed = mlx_cpu::rms_norm(x, Some(norm), eps)?;
                let parts = parts.iter().map(|part| part.forward(&normed)).collect::<Result<Vec<_>, _>>()?;
                concatenate(&parts, -1)?
            }
        };
        if let Some(dynamic) = &self.dynamic {
            let length = place.offset + place.rows;
            if dynamic.length.replace(length) != length {
                self.step.borrow_mut().rope = Some(kernel_rope(&dynamic.rope, length));
            }
        }
        let (positions, mask) = match place.tree {
            Some(tree) => (
                Positions::Each(tree.positions),
                Mask::Tree {
                    parents: tree.parents,
                    window: self.window,
                },
            ),
            None => (
                Positions::From(place.offset as i32),
                self.window.map_or(Mask::Causal, Mask::Sliding),
            ),
        };
        let heads = self.step.borrow().step(&qkv, cache.for_append(place.rows)?, positions, mask)?;
        self.o.plus(&heads, x)
    }

    pub(super) fn arrays(&self) -> Vec<&Array> {
        let mut arrays = match &self.qkv {
            Projections::Joined(joined) => joined.arrays(),
            Projections::Split(parts) => parts.iter().flat_map(Linear::arrays).collect(),
        };
        arrays.extend(self.o.arrays());
        arrays
    }
}
