//! The attention mixer: projections, then one step of `mlx-cpu`'s attention over this layer's cache.

use super::{
    linear::{self, Linear},
    norm::Norm,
    rope::Rope,
    spec::{AttentionSpec, GateSpec, HeadNormSpec, KvSpec},
};
use crate::{
    cache::LayerCache,
    load::{LoadError, Weights},
};
use mlx_cpu::{KvCache, Mask, Positions};
use mlx_rs::{
    Array,
    error::Exception,
    ops::{concatenate, multiply, sigmoid},
};
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
    /// Queries, keys, values, gate: those that this family has.
    projections: Projections,
    /// Widths of queries, keys and values among the projections; zero where there are none.
    widths: [i32; 3],
    gated: bool,
    /// Eps of a norm without weights over each value head.
    v_norm: Option<f32>,
    o: Linear,
    step: RefCell<mlx_cpu::Attention>,
    window: Option<i32>,
    dynamic: Option<Dynamic>,
    /// Keys and values are another block's.
    shared: bool,
}

#[derive(Debug)]
enum Projections {
    Joined(Linear),
    /// Stored differently; joined after the product.
    Split(Vec<Linear>),
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

/// Query rows and gate rows of a projection that gives them head by head.
fn ungated(q: &Linear, heads: usize, dim: usize) -> Result<[Linear; 2], Exception> {
    let rows = |second: usize| -> Vec<u32> {
        let of_head = |head: usize| (0..dim).map(move |i| ((2 * head + second) * dim + i) as u32);
        (0..heads).flat_map(of_head).collect()
    };
    Ok([q.rows(&rows(0))?, q.rows(&rows(1))?])
}

impl Attention {
    pub(super) fn build(spec: &AttentionSpec, weights: &mut Weights<'_>) -> Result<Self, LoadError> {
        let (queries, keys) = ((spec.heads * spec.head_dim) as i32, (spec.kv_heads * spec.head_dim) as i32);
        let q = weights.linear(&spec.q)?;
        let (q, mut gate) = match &spec.gate {
            Some(GateSpec::InQuery) => {
                let [q, gate] = ungated(&q, spec.heads, spec.head_dim)?;
                (q, Some(gate))
            }
            _ => (q, None),
        };
        let mut parts = vec![q];
        let mut widths = [queries, 0, 0];
        let mut v_norm = None;
        if let KvSpec::Own { k, v, v_norm: eps } = &spec.kv {
            parts.push(weights.linear(k)?);
            widths[1] = keys;
            if let Some(v) = v {
                parts.push(weights.linear(v)?);
                widths[2] = keys;
            }
            v_norm = *eps;
        }
        if let Some(GateSpec::Own(own)) = &spec.gate {
            gate = Some(weights.linear(own)?);
        }
        let gated = gate.is_some();
        parts.extend(gate);
        let projections = match Linear::join(&parts.iter().collect::<Vec<_>>())? {
            Some(joined) => Projections::Joined(joined),
            None => Projections::Split(parts),
        };
        let mut head_norm = |norm: &HeadNormSpec| -> Result<Option<(Array, f32)>, LoadError> {
            Ok(match norm {
                HeadNormSpec::None => None,
                HeadNormSpec::Weight(norm) => Some((weights.norm(norm)?, norm.eps)),
                HeadNormSpec::Constant { dim, factor, eps } => {
                    let weight = Array::from_slice(&vec![*factor; *dim], &[*dim as i32]);
                    Some((weight.as_dtype(weights.precision().activations)?, *eps))
                }
            })
        };
        let (q_norm, k_norm) = (head_norm(&spec.q_norm)?, head_norm(&spec.k_norm)?);
        let step = mlx_cpu::Attention {
            heads: spec.heads as i32,
            kv_heads: spec.kv_heads as i32,
            dim: spec.head_dim as i32,
            scale: Some(spec.scale),
            q_norm,
            k_norm,
            rope: spec.rope.as_ref().map(|rope| kernel_rope(rope, 0)),
            sinks: None,
        };
        let attention = Self {
            projections,
            widths,
            gated,
            v_norm,
            o: weights.linear(&spec.o)?,
            step: RefCell::new(step),
            window: spec.window.map(|window| window as i32),
            dynamic: spec.rope.as_ref().filter(|rope| rope.is_dynamic()).map(|rope| Dynamic {
                rope: rope.clone(),
                length: Cell::new(0),
            }),
            shared: matches!(spec.kv, KvSpec::Shared { .. }),
        };
        for array in attention.arrays() {
            array.eval()?;
        }
        Ok(attention)
    }

    /// The heads, `[1, T, heads · dim]`, of the norm of the residual stream `x`, `[1, T, H]`.
    pub(super) fn mix(&self, x: &Array, norm: &Norm, place: Place<'_>, cache: &mut LayerCache) -> Result<Array, Exception> {
        let all = match &self.projections {
            Projections::Joined(joined) => norm.then(joined, x)?,
            Projections::Split(parts) => {
                let normed = norm.of(x)?;
                let parts = parts.iter().map(|part| part.forward(&normed)).collect::<Result<Vec<_>, _>>()?;
                concatenate(&parts, -1)?
            }
        };
        let (qkv, gate) = if self.gated {
            let mut parts = all.split_at_indices(&[self.widths.iter().sum()], -1)?;
            let gate = parts.pop();
            (parts.pop().unwrap_or(all), gate)
        } else {
            (all, None)
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
        let heads = if self.shared {
            self.over_shared(&qkv, cache.kv()?, positions, mask)?
        } else {
            let cache = cache.for_append(place.rows)?;
            self.step.borrow().step(&self.values(qkv)?, cache, positions, mask)?
        };
        match gate {
            Some(gate) => multiply(&heads, sigmoid(gate)?),
            None => Ok(heads),
        }
    }

    /// The projections with their values in place: raw keys where the values are those, then the values' norm.
    fn values(&self, qkv: Array) -> Result<Array, Exception> {
        let [queries, keys, values] = self.widths;
        if self.v_norm.is_none() && values > 0 {
            return Ok(qkv);
        }
        let parts = qkv.split_at_indices(&[queries, queries + keys], -1)?;
        let mut v = if values > 0 { parts[2].clone() } else { parts[1].clone() };
        if let Some(eps) = self.v_norm {
            let &[batch, rows, width] = v.shape() else {
                return Err(Exception::custom("values are [B, T, width]"));
            };
            let heads = v.reshape(&[batch, rows, -1, self.step.borrow().dim])?;
            v = mlx_cpu::rms_norm(&heads, None, eps)?.reshape(&[batch, rows, width])?;
        }
        concatenate(&[&parts[0], &parts[1], &v], -1)
    }

    /// Queries of the last positions that `cache` holds, over all of them.
    fn over_shared(&self, q: &Array, cache: &KvCache, positions: Positions<'_>, mask: Mask<'_>) -> Result<Array, Exception> {
        let attention = self.step.borrow();
        let &[batch, rows, width] = q.shape() else {
            return Err(Exception::custom("queries are [B, T, width]"));
        };
        let q = q.reshape(&[batch, rows, attention.heads, attention.dim])?;
        let mut q = linear::contiguous(&q.transpose_axes(&[0, 2, 1, 3])?)?;
        if let Some((weight, eps)) = &attention.q_norm {
            q = mlx_cpu::rms_norm(&q, Some(weight), *eps)?;
        }
        if let Some(rope) = &attention.rope {
            q = rope.apply(&q, positions)?;
        }
        let y = mlx_cpu::attend(&q, cache, mask, attention.scale, None)?;
        y.transpose_axes(&[0, 2, 1, 3])?.reshape(&[batch, rows, width])
    }

    /// From heads to the residual stream.
    pub(super) fn output(&self) -> &Linear {
        &self.o
    }

    pub(super) fn arrays(&self) -> Vec<&Array> {
        let mut arrays = match &self.projections {
            Projections::Joined(joined) => joined.arrays(),
            Projections::Split(parts) => parts.iter().flat_map(Linear::arrays).collect(),
        };
        arrays.extend(self.o.arrays());
        arrays
    }
}
