//! ONE decoder for every family: `Block { norm, mixer, norm, ffn }` with a recipe saying what goes where, and one
//! forward for a chain, a tree and a verify.

mod attention;
mod dense;
pub(crate) mod linear;
pub mod rope;
pub mod spec;

use crate::{
    cache::{DecoderCache, LayerCache},
    drafters::Ends,
    load::{LoadError, Weights},
    target::{Cache, Logits, Output, Rows, Target},
};
use attention::{Attention, Place, Tree};
use dense::Dense;
use linear::Linear;
use mlx_rs::{
    Array, Dtype, Stream,
    error::Exception,
    ops::{concatenate, indexing::TryIndexOp},
    with_stream,
};
use spec::{BlockSpec, DecoderSpec, FfnSpec, HeadSpec, MixerSpec};

/// A model in memory. It belongs to the thread that built it, as its stream does.
#[derive(Debug)]
pub struct Decoder {
    embedding: Linear,
    blocks: Vec<Block>,
    norm: Norm,
    /// `None`: the embedding, transposed.
    head: Option<Linear>,
    vocab: usize,
    max_context: usize,
    /// Of activations.
    dtype: Dtype,
    kv: Dtype,
    /// One handle for every operation, instead of one each.
    stream: Stream,
}

#[derive(Debug)]
struct Norm {
    weight: Array,
    eps: f32,
}

#[derive(Debug)]
struct Block {
    mixer_norm: Norm,
    mixer: Mixer,
    ffn_norm: Norm,
    ffn: Ffn,
    /// Window of its cache.
    window: Option<usize>,
}

#[derive(Debug)]
enum Mixer {
    Attention(Attention),
}

#[derive(Debug)]
enum Ffn {
    Dense(Dense),
}

impl Norm {
    fn build(spec: &spec::NormSpec, weights: &mut Weights<'_>) -> Result<Self, LoadError> {
        Ok(Self {
            weight: weights.norm(spec)?,
            eps: spec.eps,
        })
    }
}

impl Block {
    fn build(spec: &BlockSpec, weights: &mut Weights<'_>) -> Result<Self, LoadError> {
        let MixerSpec::Attention(attention) = &spec.mixer;
        let FfnSpec::Dense(dense) = &spec.ffn;
        Ok(Self {
            mixer_norm: Norm::build(&spec.mixer_norm, weights)?,
            mixer: Mixer::Attention(Attention::build(attention, weights)?),
            ffn_norm: Norm::build(&spec.ffn_norm, weights)?,
            ffn: Ffn::Dense(Dense::build(dense, weights)?),
            window: attention.window,
        })
    }

    fn forward(&self, x: &Array, place: Place<'_>, cache: &mut LayerCache) -> Result<Array, Exception> {
        let Mixer::Attention(attention) = &self.mixer;
        let x = attention.forward(x, &self.mixer_norm.weight, self.mixer_norm.eps, place, cache)?;
        let Ffn::Dense(dense) = &self.ffn;
        dense.forward(&x, &self.ffn_norm.weight, self.ffn_norm.eps)
    }

    fn arrays(&self) -> Vec<&Array> {
        let (Mixer::Attention(attention), Ffn::Dense(dense)) = (&self.mixer, &self.ffn);
        let norms = vec![&self.mixer_norm.weight, &self.ffn_norm.weight];
        [norms, attention.arrays(), dense.arrays()].concat()
    }
}

impl Decoder {
    /// Reads the modules of `spec` in order of use, joining what is multiplied with the same input.
    pub(crate) fn build(spec: &DecoderSpec, weights: &mut Weights<'_>, kv: Dtype) -> Result<Self, LoadError> {
        let embedding = weights.matrix(&spec.embedding, spec.hidden, None)?;
        let blocks = spec
            .blocks
            .iter()
            .map(|block| Block::build(block, weights))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            embedding,
            blocks,
            norm: Norm::build(&spec.norm, weights)?,
            head: match &spec.head {
                HeadSpec::Tied => None,
                HeadSpec::Own(head) => Some(weights.linear(head)?),
            },
            vocab: spec.vocab,
            max_context: spec.max_context,
            dtype: weights.precision().activations,
            kv,
            stream: Stream::new(),
        })
    }

    /// Bytes of the arrays it holds.
    pub fn weight_bytes(&self) -> u64 {
        self.arrays().map(|array| array.nbytes() as u64).sum()
    }

    /// Every weight.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &Array> {
        let own = self.embedding.arrays().into_iter().chain([&self.norm.weight]);
        let head = self.head.iter().flat_map(Linear::arrays);
        let blocks = self.blocks.iter().flat_map(Block::arrays);
        own.chain(head).chain(blocks)
    }

    /// An empty cache whose sliding layers stand a rollback of at most `widest` rows.
    pub fn cache(&self, widest: usize) -> DecoderCache {
        DecoderCache::new(
            self.blocks
                .iter()
                .map(|block| LayerCache::new(self.kv, block.window, widest))
                .collect(),
        )
    }

    fn run(&self, rows: &Rows<'_>, cache: &mut DecoderCache) -> Result<Output, Exception> {
        let &[1, length] = rows.tokens.shape() else {
            return Err(Exception::custom(format!(
                "a forward takes tokens [1, T], not {:?}",
                rows.tokens.shape()
            )));
        };
        let offset = cache.len();
        let tree = rows.parents.map(|parents| positions(parents, offset, length)).transpose()?;
        let place = Place {
            offset,
            rows: length as usize,
            tree: tree
                .as_ref()
                .zip(rows.parents)
                .map(|(positions, parents)| Tree { parents, positions }),
        };
        if !rows.taps.is_sorted_by(|a, b| a < b) || rows.taps.last().is_some_and(|&last| last >= self.blocks.len()) {
            return Err(Exception::custom(format!(
                "taps {:?} of {} layers must ascend",
                rows.taps,
                self.blocks.len()
            )));
        }
        let mut x = self.embedding.embed(rows.tokens, self.dtype)?;
        let mut taps = Vec::with_capacity(rows.taps.len());
        for (layer, (block, cache)) in self.blocks.iter().zip(cache.layers_mut()?).enumerate() {
            x = block.forward(&x, place, cache)?;
            if rows.taps.contains(&layer) {
                taps.push(x.clone());
            }
        }
        cache.advance(place.rows);
        let logits = match rows.logits {
            Logits::None => None,
            Logits::Last if length > 1 => Some(self.logits(&x.try_index((.., -1.., ..))?)?),
            Logits::Last | Logits::All => Some(self.logits(&x)?),
        };
        let features = if taps.is_empty() { None } else { Some(concatenate(&taps, -1)?) };
        Ok(Output { logits, features })
    }

    fn logits(&self, x: &Array) -> Result<Array, Exception> {
        self.head
            .as_ref()
            .unwrap_or(&self.embedding)
            .of_norm(x, &self.norm.weight, self.norm.eps)
    }
}

/// Absolute positions of tree rows: the cache length plus their depth.
fn positions(parents: &[i32], offset: usize, length: i32) -> Result<Vec<i32>, Exception> {
    if parents.len() != length as usize {
        return Err(Exception::custom(format!("{} parents for {length} rows", parents.len())));
    }
    let mut positions: Vec<i32> = Vec::with_capacity(parents.len());
    for (row, &parent) in parents.iter().enumerate() {
        positions.push(match parent {
            -1 => offset as i32,
            parent if (0..row as i32).contains(&parent) => positions[parent as usize] + 1,
            _ => {
                return Err(Exception::custom(format!(
                    "row {row} of the tree has parent {parent}; parents come before their children"
                )));
            }
        });
    }
    Ok(positions)
}

impl Target for Decoder {
    fn vocab(&self) -> usize {
        self.vocab
    }

    fn max_context(&self) -> usize {
        self.max_context
    }

    fn layers(&self) -> usize {
        self.blocks.len()
    }

    fn new_cache(&self) -> Box<dyn Cache> {
        Box::new(self.cache(crate::cache::WIDEST))
    }

    fn forward(&self, rows: &Rows<'_>, cache: &mut dyn Cache) -> Result<Output, Exception> {
        let cache: &mut dyn std::any::Any = cache;
        let cache = cache
            .downcast_mut::<DecoderCache>()
            .ok_or_else(|| Exception::custom("this cache was made by another kind of model"))?;
        with_stream(&self.stream, || self.run(rows, cache))
    }

    fn ends(&self) -> Option<Ends> {
        Some(Ends {
            embedding: self.embedding.clone(),
            head: self.head.clone(),
            scale: 1.0,
            hidden: self.norm.weight.dim(-1) as usize,
            vocab: self.vocab,
            layers: self.blocks.len(),
        })
    }
}
