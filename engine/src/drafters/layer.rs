//! One backbone layer. Queries come from the block; keys and values from the context and the block.

use super::{
    Result,
    context::LayerContext,
    conv::{Conv, Side},
    reader::{self, Reader},
    spec::{BlockMask, Class, DrafterSpec, Family},
};
use crate::decoder::linear;
use mlx_cpu::{KvCache, Mask, Positions, Weight};
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    nn::gelu_approximate,
    ops::{add, arange, concatenate, indexing::TryIndexOp, lt, matmul, multiply, select, sigmoid, softmax_axis, subtract},
};

#[derive(Debug)]
pub(super) struct Layer {
    input_norm: Array,
    attention_norm: Array,
    eps: f32,
    /// Queries, keys, values.
    qkv: Weight,
    /// The rows of keys and values in `qkv`.
    kv: Weight,
    /// Of each query head, on its output.
    gate: Option<Weight>,
    o: Weight,
    gate_up: Weight,
    down: Weight,
    attention: mlx_cpu::Attention,
    mask: BlockMask,
    /// Around attention and around the feed-forward.
    convs: Option<[Conv; 2]>,
    gemma: Option<Sandwich>,
}

/// What Gemma 4 adds: norms on what a sublayer gives back, and a factor on the layer. Values come from keys.
#[derive(Debug)]
struct Sandwich {
    before_mlp: Array,
    after_mlp: Array,
    scalar: Array,
}

type Computed<T> = std::result::Result<T, Exception>;

impl Layer {
    pub(super) fn read(reader: &mut Reader, spec: &DrafterSpec, layer: usize) -> Result<Self> {
        let path = |name: &str| format!("layers.{layer}.{name}");
        let (hidden, dim, queries) = (spec.hidden, spec.head_dim, spec.heads * spec.head_dim);
        let gemma = spec.family == Family::Gemma4;
        let mut q = reader.matrix(&path("self_attn.q_proj"), hidden, true)?;
        let mut gate = None;
        if spec.gated_q {
            // Each head gives its query, then its gate.
            let rows = |part: usize| -> Vec<u32> {
                let of_head = |head: usize| (0..dim).map(move |i| ((2 * head + part) * dim + i) as u32);
                (0..spec.heads).flat_map(of_head).collect()
            };
            gate = Some(reader::outputs(&q, &rows(1))?);
            q = reader::outputs(&q, &rows(0))?;
        }
        let k = reader.matrix(&path("self_attn.k_proj"), hidden, true)?;
        let qkv = if gemma {
            reader::join(&[&q, &k])?
        } else {
            let v = reader.matrix(&path("self_attn.v_proj"), hidden, true)?;
            reader::join(&[&q, &k, &v])?
        };
        let rows: Vec<u32> = (queries as u32..qkv.outputs() as u32).collect();
        let kv = reader::outputs(&qkv, &rows)?;
        let gate_proj = reader.matrix(&path("mlp.gate_proj"), hidden, true)?;
        let up = reader.matrix(&path("mlp.up_proj"), hidden, true)?;
        let head_norm = |reader: &mut Reader, name: &str| -> Result<Option<(Array, f32)>> {
            if spec.family == Family::Llama {
                return Ok(None);
            }
            Ok(Some((reader.norm(&path(name))?, spec.eps)))
        };
        let attention = mlx_cpu::Attention {
            heads: spec.heads as i32,
            kv_heads: spec.kv_heads as i32,
            dim: dim as i32,
            scale: Some(spec.scale),
            q_norm: head_norm(reader, "self_attn.q_norm")?,
            k_norm: head_norm(reader, "self_attn.k_norm")?,
            rope: Some(mlx_cpu::Rope::new(&spec.rope.frequencies, spec.rope.interleaved, spec.rope.scale)),
            sinks: if spec.sinks {
                Some(reader.raw(&path("self_attn.attention_sink_bias"))?)
            } else {
                None
            },
        };
        let convs = match spec.conv.filter(|_| spec.class == Class::DFlash2) {
            Some(conv) => Some([
                Conv::read(reader, &path("attention_conv"), conv, hidden)?,
                Conv::read(reader, &path("mlp_conv"), conv, hidden)?,
            ]),
            None => None,
        };
        let sandwich = if gemma {
            Some(Sandwich {
                before_mlp: reader.norm(&path("pre_feedforward_layernorm"))?,
                after_mlp: reader.norm(&path("post_feedforward_layernorm"))?,
                scalar: reader.raw(&path("layer_scalar"))?,
            })
        } else {
            None
        };
        Ok(Self {
            input_norm: reader.norm(&path("input_layernorm"))?,
            attention_norm: reader.norm(&path("post_attention_layernorm"))?,
            eps: spec.eps,
            qkv,
            kv,
            gate,
            o: reader.matrix(&path("self_attn.o_proj"), queries, true)?,
            gate_up: reader::join(&[&gate_proj, &up])?,
            down: reader.matrix(&path("mlp.down_proj"), spec.inner, true)?,
            attention,
            mask: spec.masks[layer],
            convs,
            gemma: sandwich,
        })
    }

    /// Bytes of its weights.
    pub(super) fn bytes(&self) -> usize {
        let weights = [&self.qkv, &self.kv, &self.o, &self.gate_up, &self.down];
        weights.into_iter().chain(&self.gate).map(Weight::nbytes).sum()
    }

    /// Appends `rows` committed rows at positions from `at` on. `features`: `[1, rows, H]`, fused and normed.
    pub(super) fn commit(&self, features: &Array, at: usize, context: &mut LayerContext) -> Computed<()> {
        let rows = features.dim(1) as usize;
        let wanted = context.wanted(rows);
        let last = if wanted < rows {
            features.try_index((.., -(wanted as i32).., ..))?
        } else {
            features.clone()
        };
        let (k, v) = self.keys_values(&mlx_cpu::linear(&last, &self.kv)?, at + rows - wanted)?;
        context.append(&k, &v, rows)
    }

    /// Block rows `x`, `[1, w, H]`, at positions from `at` on. `window`: how many of the context's last rows are seen.
    pub(super) fn forward(&self, x: &Array, at: usize, window: Option<usize>, context: &mut LayerContext) -> Computed<Array> {
        if let Some(sandwich) = &self.gemma {
            return self.sandwiched(sandwich, x, at, window, context);
        }
        if let Some([around_attention, around_mlp]) = &self.convs {
            let a = mlx_cpu::rms_norm(x, Some(&self.input_norm), self.eps)?;
            let of = around_attention.coefficients(&a)?;
            let qkv = mlx_cpu::linear(&around_attention.apply(&a, &of, Side::Input)?, &self.qkv)?;
            let y = mlx_cpu::linear(&self.attend(&qkv, at, window, context)?, &self.o)?;
            let x = add(x, &around_attention.apply(&y, &of, Side::Output)?)?;
            let a = mlx_cpu::rms_norm(&x, Some(&self.attention_norm), self.eps)?;
            let of = around_mlp.coefficients(&a)?;
            let gate_up = mlx_cpu::linear(&around_mlp.apply(&a, &of, Side::Input)?, &self.gate_up)?;
            let y = mlx_cpu::linear(&mlx_cpu::swiglu(&gate_up)?, &self.down)?;
            return add(&x, &around_mlp.apply(&y, &of, Side::Output)?);
        }
        let qkv = mlx_cpu::norm_linear(x, Some(&self.input_norm), self.eps, &self.qkv)?;
        let mut heads = self.attend(&qkv, at, window, context)?;
        if let Some(gate) = &self.gate {
            let gate = mlx_cpu::norm_linear(x, Some(&self.input_norm), self.eps, gate)?;
            heads = multiply(&heads, &sigmoid(&gate)?)?;
        }
        let x = mlx_cpu::linear_plus(&heads, &self.o, x)?;
        let gate_up = mlx_cpu::norm_linear(&x, Some(&self.attention_norm), self.eps, &self.gate_up)?;
        mlx_cpu::swiglu_linear(&gate_up, &self.down, Some(&x))
    }

    fn sandwiched(&self, sandwich: &Sandwich, x: &Array, at: usize, window: Option<usize>, context: &mut LayerContext) -> Computed<Array> {
        let norm = |x: &Array, weight: &Array| mlx_cpu::rms_norm(x, Some(weight), self.eps);
        let qkv = mlx_cpu::norm_linear(x, Some(&self.input_norm), self.eps, &self.qkv)?;
        let y = mlx_cpu::linear(&self.attend(&qkv, at, window, context)?, &self.o)?;
        let x = add(x, &norm(&y, &self.attention_norm)?)?;
        let gate_up = mlx_cpu::norm_linear(&x, Some(&sandwich.before_mlp), self.eps, &self.gate_up)?;
        let parts = gate_up.split_equal(2, -1)?;
        let y = mlx_cpu::linear(&multiply(&gelu_approximate(&parts[0])?, &parts[1])?, &self.down)?;
        multiply(&add(&x, &norm(&y, &sandwich.after_mlp)?)?, &sandwich.scalar)
    }

    /// From projections of the block, `[1, w, ..]`, to heads, `[1, w, heads · dim]`. The context is left as it was.
    fn attend(&self, qkv: &Array, at: usize, window: Option<usize>, context: &mut LayerContext) -> Computed<Array> {
        let (cache, rows) = (&mut context.kv, qkv.dim(1));
        let held = cache.len();
        let narrowed = window.is_some_and(|window| (held as usize) > window);
        let mask = match self.mask {
            BlockMask::Full if !narrowed => Some(Mask::Full),
            BlockMask::Causal => Some(Mask::Causal),
            BlockMask::Sliding(window) => Some(Mask::Sliding(window as i32)),
            BlockMask::Full | BlockMask::BothWays(_) => None,
        };
        let heads = if let (Some(mask), None) = (mask, &self.gemma) {
            self.attention.step(qkv, cache, Positions::From(at as i32), mask)?
        } else {
            let (h, dim) = (self.attention.heads, self.attention.dim);
            let parts = qkv.split_at_indices(&[h * dim], -1)?;
            let q = self.turned(&self.split(&parts[0], h)?, self.attention.q_norm.as_ref(), at)?;
            let (k, v) = self.keys_values(&parts[1], at)?;
            cache.append(&k, &v)?;
            let (scale, sinks) = (self.attention.scale, self.attention.sinks.as_ref());
            let y = match (self.mask, window) {
                (BlockMask::BothWays(window), _) => self.both_ways(&q, cache, held, window as i32)?,
                (BlockMask::Full, Some(window)) if narrowed => {
                    let Some((k, v)) = cache.state()? else {
                        return Err(Exception::custom("the drafter's context is empty after an append"));
                    };
                    let from = held - window as i32;
                    let (k, v) = (k.try_index((.., .., from.., ..))?, v.try_index((.., .., from.., ..))?);
                    mlx_cpu::attend(&q, &KvCache::from_arrays(k, v, 1)?, Mask::Full, scale, sinks)?
                }
                _ => mlx_cpu::attend(&q, cache, mask.unwrap_or(Mask::Full), scale, sinks)?,
            };
            y.transpose_axes(&[0, 2, 1, 3])?.reshape(&[1, rows, h * dim])?
        };
        cache.trim(held);
        Ok(heads)
    }

    /// Keys and values as heads, `[1, kv_heads, T, dim]`, keys normed and turned.
    fn keys_values(&self, projected: &Array, at: usize) -> Computed<(Array, Array)> {
        let kv_heads = self.attention.kv_heads;
        if self.gemma.is_some() {
            let raw = linear::contiguous(&self.split(projected, kv_heads)?)?;
            let values = mlx_cpu::rms_norm(&raw, None, self.eps)?;
            return Ok((self.turned(&raw, self.attention.k_norm.as_ref(), at)?, values));
        }
        let parts = projected.split_equal(2, -1)?;
        let keys = self.turned(&self.split(&parts[0], kv_heads)?, self.attention.k_norm.as_ref(), at)?;
        Ok((keys, self.split(&parts[1], kv_heads)?))
    }

    /// `[1, T, heads · dim]` to `[1, heads, T, dim]`.
    fn split(&self, x: &Array, heads: i32) -> Computed<Array> {
        x.reshape(&[1, x.dim(1), heads, self.attention.dim])?.transpose_axes(&[0, 2, 1, 3])
    }

    fn turned(&self, x: &Array, norm: Option<&(Array, f32)>, at: usize) -> Computed<Array> {
        // One copy for the norm and the rotation; a GPU's rotation wants dense rows anyway (see `mlx_cpu::Rope`).
        let mut x = linear::contiguous(x)?;
        if let Some((weight, eps)) = norm {
            x = mlx_cpu::rms_norm(&x, Some(weight), *eps)?;
        }
        let rope = self.attention.rope.as_ref();
        rope.map_or(Ok(x.clone()), |rope| rope.apply(&x, Positions::From(at as i32)))
    }

    /// Attention where row `i` sees every position less than `window` away, later ones of the block included.
    fn both_ways(&self, q: &Array, cache: &KvCache, held: i32, window: i32) -> Computed<Array> {
        let Some((k, v)) = cache.state()? else {
            return Err(Exception::custom("the drafter's context is empty after an append"));
        };
        let (h, kv_heads, dim, rows) = (self.attention.heads, self.attention.kv_heads, self.attention.dim, q.dim(2));
        let f32s = |x: &Array| x.as_dtype(Dtype::Float32);
        let q = f32s(q)?.reshape(&[1, kv_heads, h / kv_heads, rows, dim])?;
        let (k, v) = (f32s(&k)?.expand_dims(2)?, f32s(&v)?.expand_dims(2)?);
        let scale = self.attention.scale.unwrap_or_else(|| (dim as f32).powf(-0.5));
        let scores = multiply(
            &matmul(&q, &k.transpose_axes(&[0, 1, 2, 4, 3])?)?,
            Array::from_slice(&[scale], &[1]),
        )?;
        let at = |from: i32, to: i32| arange::<_, i32>(from, to, 1);
        let distance = subtract(&at(held, held + rows)?.expand_dims(1)?, &at(0, held + rows)?.expand_dims(0)?)?.abs()?;
        let seen = lt(&distance, Array::from_slice(&[window], &[1]))?;
        let mut scores = select(&seen, &scores, Array::from_slice(&[f32::NEG_INFINITY], &[1]))?;
        if let Some(sinks) = &self.attention.sinks {
            let sinks = f32s(sinks)?.reshape(&[1, kv_heads, h / kv_heads, 1, 1])?;
            let shape = [1, kv_heads, h / kv_heads, rows, 1];
            scores = concatenate(&[scores, mlx_rs::ops::broadcast_to(&sinks, &shape)?], -1)?;
        }
        let weights = softmax_axis(&scores, -1, true)?.try_index((.., .., .., .., ..held + rows))?;
        matmul(&weights, &v)?.reshape(&[1, h, rows, dim])?.as_dtype(q.dtype())
    }
}
