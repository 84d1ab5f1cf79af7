//! ONE decoder for every family: blocks of a mixer and a feed-forward, with a recipe saying what goes where, and one
//! forward for a chain, a tree and a verify.

mod attention;
mod block;
mod conv;
mod dense;
mod ends;
pub(crate) mod experts;
mod gated_delta;
pub(crate) mod linear;
mod mamba;
mod moe;
mod norm;
mod recurrence;
pub mod rope;
mod short_conv;
pub mod spec;

use crate::{
    cache::{CacheKind, DecoderCache, LayerCache},
    drafters::Ends,
    load::{LoadError, Weights},
    target::{Cache, Logits, Output, Rows, Target},
};
use attention::{Place, Tree};
use block::Block;
use ends::{Embedding, Head};
use mlx_rs::{
    Array, Dtype, Stream,
    error::Exception,
    ops::{concatenate, indexing::TryIndexOp},
    with_stream,
};
use spec::{BlockSpec, DecoderSpec, KvSpec, MixerSpec, PassesSpec};

/// A model in memory. It belongs to the thread that built it, as its stream does.
#[derive(Debug)]
pub struct Decoder {
    embedding: Embedding,
    blocks: Vec<Block>,
    /// For each block of a pass the cache that it uses, among those of the pass.
    slots: Vec<Option<usize>>,
    /// Kinds of the caches of a pass.
    caches: Vec<CacheKind>,
    passes: PassesSpec,
    head: Head,
    hidden: usize,
    vocab: usize,
    max_context: usize,
    kv: Dtype,
    /// One handle for every operation, instead of one each.
    stream: Stream,
}

/// The caches that blocks need, and which block uses which: blocks that mix positions have one each, those that share
/// keys and values have another's.
fn caches(blocks: &[BlockSpec]) -> Result<(Vec<Option<usize>>, Vec<CacheKind>), LoadError> {
    let mut kinds = Vec::new();
    let mut slots: Vec<Option<usize>> = Vec::with_capacity(blocks.len());
    for block in blocks {
        let slot = match block.mixer.as_ref().map(|part| &part.inner) {
            None => None,
            Some(MixerSpec::Attention(attention)) => match attention.kv {
                KvSpec::Shared { block: from } => {
                    let slot = slots.get(from).copied().flatten();
                    Some(slot.ok_or_else(|| LoadError::Config(format!("a layer shares the keys of layer {from}, which has none")))?)
                }
                KvSpec::Own { .. } => {
                    kinds.push(attention.window.map_or(CacheKind::Full, CacheKind::Sliding));
                    Some(kinds.len() - 1)
                }
            },
            Some(_) => {
                kinds.push(CacheKind::Recurrent);
                Some(kinds.len() - 1)
            }
        };
        slots.push(slot);
    }
    Ok((slots, kinds))
}

impl Decoder {
    /// Reads the modules of `spec` in order of use, joining what is multiplied with the same input.
    pub(crate) fn build(spec: &DecoderSpec, weights: &mut Weights<'_>, kv: Dtype) -> Result<Self, LoadError> {
        let (slots, caches) = caches(&spec.blocks)?;
        let embedding = Embedding::build(spec, weights)?;
        let blocks = spec
            .blocks
            .iter()
            .map(|block| Block::build(block, weights))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            embedding,
            blocks,
            slots,
            caches,
            passes: spec.passes,
            head: Head::build(spec, weights)?,
            hidden: spec.hidden,
            vocab: spec.vocab,
            max_context: spec.max_context,
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
        let ends = self.embedding.arrays().into_iter().chain(self.head.arrays());
        ends.chain(self.blocks.iter().flat_map(Block::arrays))
    }

    /// An empty cache whose layers stand a rollback of at most `widest` rows.
    pub fn cache(&self, widest: usize) -> DecoderCache {
        let kinds = (0..self.passes.count).flat_map(|_| &self.caches);
        DecoderCache::new(kinds.map(|kind| LayerCache::new(*kind, self.kv, widest)).collect())
    }

    fn run(&self, rows: &Rows<'_>, cache: &mut DecoderCache) -> Result<Output, Exception> {
        let &[1, length] = rows.tokens.shape() else {
            return Err(Exception::custom(format!(
                "a forward takes tokens [1, T], not {:?}",
                rows.tokens.shape()
            )));
        };
        let (offset, layers) = (cache.len(), self.layers());
        let tree = rows.parents.map(|parents| positions(parents, offset, length)).transpose()?;
        let place = Place {
            offset,
            rows: length as usize,
            tree: tree
                .as_ref()
                .zip(rows.parents)
                .map(|(positions, parents)| Tree { parents, positions }),
        };
        if !rows.taps.is_sorted_by(|a, b| a < b) || rows.taps.last().is_some_and(|&last| last >= layers) {
            return Err(Exception::custom(format!("taps {:?} of {layers} layers must ascend", rows.taps)));
        }
        let (mut x, inputs) = self.embedding.forward(rows.tokens)?;
        let mut taps = Vec::with_capacity(rows.taps.len());
        let caches = cache.layers_mut()?;
        for layer in 0..layers {
            let (pass, block) = (layer / self.blocks.len(), layer % self.blocks.len());
            let slot = self.slots[block].map(|slot| pass * self.caches.len() + slot);
            let cache = slot.map(|slot| &mut caches[slot]);
            x = self.blocks[block].forward(&x, inputs.get(block), place, cache)?;
            let ends_pass = block + 1 == self.blocks.len() && layer + 1 < layers;
            if ends_pass && self.passes.norm_between {
                // A tap here is what the next pass reads, so it comes after the norm.
                x = self.head.norm.of(&x)?;
            }
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
        self.head.logits(x, &self.embedding.table)
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
        self.blocks.len() * self.passes.count
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
            embedding: self.embedding.table.clone(),
            head: self.head.own.clone(),
            scale: self.embedding.scale(),
            hidden: self.hidden,
            vocab: self.vocab,
            layers: self.layers(),
        })
    }
}
