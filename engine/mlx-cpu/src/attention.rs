//! Attention over a [`KvCache`], with the masks of chains, windows and draft trees.

use crate::{
    KvCache, Positions, Result, Rope,
    host::{self, Output, ours},
    kernel::step::{self as kernel, Params},
    rms_norm, stock,
};
use mlx_rs::{Array, Dtype, error::Exception, ops};

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

impl Mask<'_> {
    /// For the kernels: `l` rows after `context` keys.
    fn describe(self, params: &mut Params, b: i32, l: i32, context: i32) -> Result<()> {
        (params.context, params.window) = (i64::from(context), -1);
        match self {
            Mask::Full => params.full = true,
            Mask::Causal => {}
            Mask::Sliding(window) => params.window = i64::from(window.max(1)),
            Mask::Tree { parents, window } => {
                params.window = window.map_or(-1, |window| i64::from(window.max(1)));
                let words = (l as usize).div_ceil(64);
                params.words = words as i64;
                for parents in stock::per_row(parents, b, l)?.chunks_exact(l as usize) {
                    params.depths.extend(stock::depths(parents)?.into_iter().map(i64::from));
                    let first = params.bits.len();
                    for (i, &parent) in parents.iter().enumerate() {
                        let row = params.bits.len();
                        if parent < 0 {
                            params.bits.resize(row + words, 0);
                        } else {
                            let from = first + parent as usize * words;
                            params.bits.extend_from_within(from..from + words);
                        }
                        params.bits[row + i / 64] |= 1 << (i % 64);
                    }
                }
            }
        }
        Ok(())
    }
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
        return Err(Exception::custom(format!(
            "attend: queries {:?} do not fit keys {:?}",
            q.shape(),
            k.shape()
        )));
    }
    let scale = scale.unwrap_or_else(|| 1.0 / (d as f32).sqrt());
    let exact = |a: &&Array| a.dtype() == Dtype::Float32;
    if ours() && stock::float(q) && v.dim(-1) == d && sinks.as_ref().is_none_or(exact) {
        let mut params = Params {
            heads: i64::from(h),
            kv_heads: i64::from(hkv),
            scale,
            sinks: sinks.is_some(),
            ..Params::default()
        };
        mask.describe(&mut params, b, l, total - l)?;
        let inputs: Vec<_> = [q, &k, &v].into_iter().chain(sinks).collect();
        return host::op1(c"CpuAttend", kernel::attend, &inputs, q.shape(), q.dtype(), &params.numbers());
    }
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
            return Err(Exception::custom(format!(
                "Attention: projections are [B, L, width], not {:?}",
                qkv.shape()
            )));
        };
        if hkv <= 0 || h % hkv != 0 || width != (h + 2 * hkv) * d {
            return Err(Exception::custom(format!(
                "Attention: {width} projections for {h} and 2 x {hkv} heads of {d}"
            )));
        }
        if let Some(y) = self.kernel_step(qkv, cache, positions, mask)? {
            return Ok(y);
        }
        let parts = qkv
            .reshape(&[b, l, h + 2 * hkv, d])?
            .transpose_axes(&[0, 2, 1, 3])?
            .split_at_indices(&[h, h + hkv], 1)?;
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
    /// The step as one operation, where there is a kernel for it.
    fn kernel_step(&self, qkv: &Array, cache: &mut KvCache, positions: Positions, mask: Mask) -> Result<Option<Array>> {
        let exact = |a: &Array| a.dtype() == Dtype::Float32;
        let norm_fits = |norm: &Option<(Array, f32)>| norm.as_ref().is_none_or(|(w, _)| exact(w) && w.shape() == [self.dim]);
        let rope_fits = self.rope.as_ref().is_none_or(|rope| rope.dims() <= self.dim);
        let fits = ours() && stock::float(qkv) && norm_fits(&self.q_norm) && norm_fits(&self.k_norm) && rope_fits;
        if !fits || !self.sinks.as_ref().is_none_or(exact) {
            return Ok(None);
        }
        let (b, l) = (qkv.dim(0), qkv.dim(1));
        let mut params = Params {
            heads: i64::from(self.heads),
            kv_heads: i64::from(self.kv_heads),
            scale: self.scale.unwrap_or_else(|| 1.0 / (self.dim as f32).sqrt()),
            norms: [&self.q_norm, &self.k_norm].map(|norm| norm.as_ref().map(|(_, eps)| *eps)),
            sinks: self.sinks.is_some(),
            ..Params::default()
        };
        mask.describe(&mut params, b, l, cache.len())?;
        let mut table = None;
        if let Some(rope) = &self.rope {
            params.positions = positions.rows(b, l)?;
            (params.turned, params.traditional) = (true, rope.traditional());
            table = Some(rope.table(&params.positions)?);
        }
        let (keys, values) = cache.room(l, [b, self.kv_heads, self.dim], self.dim)?;
        let (cache_shape, cache_type) = (keys.shape().to_vec(), keys.dtype());
        let norms = [&self.q_norm, &self.k_norm]
            .into_iter()
            .filter_map(|norm| norm.as_ref().map(|(w, _)| w));
        let inputs: Vec<&Array> = [qkv, &keys, &values]
            .into_iter()
            .chain(&table)
            .chain(norms)
            .chain(&self.sinks)
            .collect();
        let kept = |donor| Output {
            shape: &cache_shape,
            dtype: cache_type,
            donor: Some(donor),
        };
        let outputs = [
            Output {
                shape: &[b, l, self.heads * self.dim],
                dtype: qkv.dtype(),
                donor: None,
            },
            kept(1),
            kept(2),
        ];
        let made = host::op(c"CpuAttention", kernel::step, &inputs, outputs, &params.numbers());
        let [y, new_keys, new_values] = match made {
            Ok(made) => made,
            Err(error) => {
                cache.put(keys, values, 0);
                return Err(error);
            }
        };
        cache.put(new_keys, new_values, l);
        Ok(Some(y))
    }
}
