//! Attention over a [`KvCache`], with the masks of chains, windows and draft trees.

use crate::{rms_norm, stock, KvCache, Positions, Result, Rope};
use mlx_rs::{error::Exception, ops, Array};

/// What a row may see. Rows are the last `L` positions of the cache.
#[derive(Debug, Clone, Copy)]
pub enum Mask<'a> {
    /// Everything held, later rows included.
    Full,
    /// Row `i` sees everything up to itself.
    Causal,
    /// Causal, and only the last `window` positions, itself included.
    Sliding(i32),
    /// Rows are the nodes of a draft tree: a node sees the committed context, its ancestors and itself. `parents[i] < i` is the
    /// row of node `i`'s parent, or -1 for a child of the context. `[L]`, or `[B * L]` for a tree of its own in each sequence. With a
    /// window, what lies `window` or more *positions* back (by depth, not by row) is hidden.
    Tree {
        /// Parent row of each node.
        parents: &'a [i32],
        /// Sliding window, in positions.
        window: Option<i32>,
    },
}

/// `softmax(scale * q kᵀ + mask) v`, the softmax in f32. `q`: `[B, H, L, D]`, any strides, for the last `L` positions of
/// `cache` (append first). Heads are grouped over the cache's `Hkv`. `scale` is `1/√D` by default; `sinks`: `[H]`, logits that take
/// part in the softmax and carry no value. The result is `[B, H, L, Dv]` of the dtype of `q`.
pub fn attend(q: &Array, cache: &KvCache, mask: Mask, scale: Option<f32>, sinks: Option<&Array>) -> Result<Array> {
    let [b, h, l, d] = stock::four(q)?;
    let Some((k, v)) = cache.state()? else {
        return Err(Exception::custom("attend: the cache is empty; append the rows first"));
    };
    let [kb, hkv, total, kd] = stock::four(&k)?;
    if kb != b || kd != d || hkv == 0 || h % hkv != 0 || l > total {
        return Err(Exception::custom(format!("attend: queries {:?} do not fit keys {:?}", q.shape(), k.shape())));
    }
    let scale = scale.unwrap_or_else(|| 1.0 / (d as f32).sqrt());
    stock::attend(q, &k, &v, mask, scale, sinks)
}

/// One attention layer between its projections: split heads, optional per-head norms, rotate, append, attend.
#[derive(Debug)]
pub struct Attention {
    /// Query heads.
    pub heads: i32,
    /// Key and value heads; `heads` is a multiple.
    pub kv_heads: i32,
    /// Dimensions of a head.
    pub dim: i32,
    /// `1/√dim` where `None`.
    pub scale: Option<f32>,
    /// Weight `[dim]` and eps of a norm over each query head (Qwen3).
    pub q_norm: Option<(Array, f32)>,
    /// The same for keys.
    pub k_norm: Option<(Array, f32)>,
    /// None: no position embedding.
    pub rope: Option<Rope>,
    /// `[heads]`.
    pub sinks: Option<Array>,
}

impl Attention {
    /// From `qkv`: `[B, L, (heads + 2 kv_heads) * dim]` (queries, then keys, then values, each head by head) to `[B, L, heads * dim]`.
    /// The new keys and values are appended to `cache`.
    pub fn step(&self, qkv: &Array, cache: &mut KvCache, positions: Positions, mask: Mask) -> Result<Array> {
        let (h, hkv, d) = (self.heads, self.kv_heads, self.dim);
        let &[b, l, width] = qkv.shape() else {
            return Err(Exception::custom(format!("Attention: projections are [B, L, width], not {:?}", qkv.shape())));
        };
        if hkv <= 0 || h % hkv != 0 || width != (h + 2 * hkv) * d {
            return Err(Exception::custom(format!("Attention: {width} projections for {h} and 2 x {hkv} heads of {d}")));
        }
        let parts = qkv.reshape(&[b, l, h + 2 * hkv, d])?.transpose_axes(&[0, 2, 1, 3])?.split_at_indices(&[h, h + hkv], 1)?;
        let turned = |x: &Array, norm: &Option<(Array, f32)>| -> Result<Array> {
            let x = match norm {
                Some((w, eps)) => rms_norm(x, Some(w), *eps)?,
                None => x.clone(),
            };
            self.rope.as_ref().map_or(Ok(x.clone()), |rope| rope.apply(&x, positions))
        };
        let (q, k) = (turned(&parts[0], &self.q_norm)?, turned(&parts[1], &self.k_norm)?);
        cache.append(&k, &parts[2])?;
        let y = attend(&q, cache, mask, self.scale, self.sinks.as_ref())?;
        ops::transpose_axes(&y, &[0, 2, 1, 3])?.reshape(&[b, l, h * d])
    }
}
