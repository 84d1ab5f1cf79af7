//! A drafter in memory: loading, binding, committing context, drafting a block.

use super::{
    Context, DrafterError, Result,
    bind::Ends,
    chain::{self, Chain, Markov, Proposal},
    detect::detect,
    files::Files,
    injection::Injection,
    layer::Layer,
    modules,
    reader::Reader,
    selector::{Lattice, Selector},
    spec::DrafterSpec,
};
use crate::target::Target;
use mlx_cpu::Weight;
use mlx_rs::{
    Array, Dtype, Stream,
    error::Exception,
    ops::{add, concatenate, divide, indexing::TryIndexOp, multiply, sigmoid, tanh},
    with_stream,
};
use std::{cell::OnceCell, path::Path};

/// Sines and cosines that a log signal-to-noise ratio becomes.
pub(super) const SNR_FEATURES: usize = 128;

type Computed<T> = std::result::Result<T, Exception>;

/// Choices of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrafterOptions {
    /// Bits that matrices are quantized to; `None` keeps them. What is packed already stays as it is.
    pub bits: Option<u8>,
    /// Of activations. By default f32 on the CPU, bf16 on a GPU.
    pub activations: Option<Dtype>,
    /// Of the context's keys and values. By default f16 on the CPU, the dtype of activations on a GPU.
    pub kv: Option<Dtype>,
    /// Context rows that a drafter attends to where it was not trained with a window of its own; `None`: all.
    pub context_window: Option<usize>,
    /// Refuse tensors that nothing reads.
    pub strict: bool,
    /// Draft only among this many first ids of the vocabulary; `None`: among all. A byte-pair vocabulary lists its
    /// tokens in the order in which merging found them, so rare ones come last; those are left to the target.
    pub first_ids: Option<usize>,
}

/// On a CPU the head over a large vocabulary takes most of a draft's time.
const FIRST_IDS_HOST: usize = 16_384;

impl DrafterOptions {
    /// For drafting at speed on this device; the text does not depend on it.
    pub fn serving() -> Self {
        Self {
            first_ids: (mlx_cpu::backend() == mlx_cpu::Backend::Cpu).then_some(FIRST_IDS_HOST),
            ..Self::default()
        }
    }
}

impl Default for DrafterOptions {
    fn default() -> Self {
        Self {
            bits: Some(4),
            activations: None,
            kv: None,
            context_window: Some(4096),
            strict: true,
            first_ids: None,
        }
    }
}

/// A loaded drafter. Lives on the thread that loaded it.
#[derive(Debug)]
pub struct Drafter {
    pub(super) spec: DrafterSpec,
    fc: Weight,
    hidden_norm: Array,
    layers: Vec<Layer>,
    norm: Array,
    embedding: Option<Weight>,
    head: Option<Weight>,
    pub(super) markov: Option<Markov>,
    confidence: Option<Weight>,
    selector: Option<Selector>,
    injection: Option<Injection>,
    /// Ids of the target for those of a reduced vocabulary, `[Vd]` u32.
    target_ids: Option<Array>,
    /// Added to the embeddings of the block's slots, `[1, block, H]`.
    conditioning: Option<Array>,
    first_ids: Option<usize>,
    ends: Option<Ends>,
    masks: OnceCell<Array>,
    window: Option<usize>,
    dtype: Dtype,
    kv: Dtype,
    /// What a person should know, one sentence each.
    pub notes: Vec<String>,
    pub(super) stream: Stream,
}

/// The predicting slots of a block.
pub(super) struct Predicted {
    /// `[cap, H]`, normed.
    pub(super) hidden: Array,
    /// `[cap, Vd]`.
    pub(super) logits: Array,
    /// `[cap, H]`: before the last injection, of a DSpine block.
    before: Option<Array>,
}

/// `factor · x`, without an operation where it is 1.
pub(super) fn scaled(x: &Array, factor: f32) -> Computed<Array> {
    if (factor - 1.0).abs() < f32::EPSILON {
        return Ok(x.clone());
    }
    multiply(x, Array::from_slice(&[factor], &[1]).as_dtype(x.dtype())?)
}

/// `cap · tanh(x / cap)`.
pub(super) fn capped(x: &Array, cap: f32) -> Computed<Array> {
    let cap = Array::from_slice(&[cap], &[1]).as_dtype(x.dtype())?;
    multiply(&tanh(&divide(x, &cap)?)?, &cap)
}

/// What kind of drafter is at `path`, a folder or a GGUF file, from its configuration and tensor headers. Reads no tensor
/// and needs no device.
///
/// # Errors
/// As [`Drafter::load`], as far as configuration and headers tell.
pub fn inspect(path: &Path) -> Result<DrafterSpec> {
    let files = Files::open(path)?;
    let spec = detect(&files.config, files.hf_quant.as_ref(), &files.tensors)?;
    modules::check(&spec, &files.tensors, true)?;
    Ok(spec)
}

impl Drafter {
    /// Reads the drafter at `path`: a folder, or a GGUF file.
    ///
    /// # Errors
    /// [`DrafterError`], before any tensor is read where configuration and headers tell.
    pub fn load(path: &Path, options: &DrafterOptions) -> Result<Self> {
        let files = Files::open(path)?;
        let spec = detect(&files.config, files.hf_quant.as_ref(), &files.tensors)?;
        let ignored = modules::check(&spec, &files.tensors, options.strict)?;
        let mut notes = Vec::new();
        if !ignored.is_empty() {
            notes.push(format!(
                "{} tensors of the drafter are not read: {}",
                ignored.len(),
                ignored.join(", ")
            ));
        }
        let bits = options.bits.filter(|bits| *bits > 0).map(i32::from);
        if let Some(bits) = bits.filter(|bits| ![2, 3, 4, 5, 6, 8].contains(bits)) {
            return Err(DrafterError::Unsupported(format!(
                "quantizing to {bits} bits; 2, 3, 4, 5, 6 and 8 are possible"
            )));
        }
        let cpu = mlx_cpu::backend() == mlx_cpu::Backend::Cpu;
        let dtype = options.activations.unwrap_or(if cpu { Dtype::Float32 } else { Dtype::Bfloat16 });
        let stream = Stream::new();
        let mut reader = Reader {
            arrays: files.arrays()?,
            activations: dtype,
            keep_stored: cpu,
            bits,
            norm_offset: if spec.offset_norms { 1.0 } else { 0.0 },
        };
        let kv = options.kv.unwrap_or(if cpu { Dtype::Float16 } else { dtype });
        let window = options.context_window.filter(|window| *window > 0 && spec.takes_context_window());
        let mut drafter = with_stream(&stream.clone(), || {
            Self::build(spec, &mut reader, stream, (dtype, kv), window, notes)
        })?;
        drafter.first_ids = options.first_ids;
        Ok(drafter)
    }

    fn build(
        spec: DrafterSpec,
        reader: &mut Reader,
        stream: Stream,
        (dtype, kv): (Dtype, Dtype),
        window: Option<usize>,
        notes: Vec<String>,
    ) -> Result<Self> {
        let hidden = spec.hidden;
        let mut optional = |here: bool, path: &str, columns: usize, pack: bool| -> Result<Option<Weight>> {
            if here {
                reader.matrix(path, columns, pack).map(Some)
            } else {
                Ok(None)
            }
        };
        let with_markov = spec
            .markov
            .filter(|_| spec.confidence == Some(true))
            .map_or(0, |markov| markov.rank);
        let embedding = optional(spec.own_embed, "embed_tokens", hidden, true)?;
        let head = optional(spec.own_head, "lm_head", hidden, true)?;
        let confidence = optional(spec.confidence.is_some(), "confidence_head.proj", hidden + with_markov, true)?;
        let conditioning = match spec.log_snr {
            Some(bounds) => Some(conditioning(reader, bounds, &spec, dtype)?),
            None => None,
        };
        let target_ids = match spec.draft_vocab {
            None => None,
            Some(rows) => {
                let offsets = reader.integers("d2t")?.ok_or_else(|| DrafterError::tensor("d2t", "is missing"))?;
                let mask = reader.integers("t2d")?;
                let ids = chain::target_ids(&spec, &offsets, mask.as_deref()).map_err(|reason| DrafterError::tensor("d2t", reason))?;
                Some(Array::from_slice(&ids, &[rows as i32]))
            }
        };
        let layers = (0..spec.layers())
            .map(|layer| Layer::read(reader, &spec, layer))
            .collect::<Result<_>>()?;
        Ok(Self {
            fc: reader.matrix("fc", hidden * spec.taps.len(), true)?,
            hidden_norm: reader.norm("hidden_norm")?,
            norm: reader.norm("norm")?,
            markov: spec.markov.map(|markov| Markov::read(reader, markov, hidden)).transpose()?,
            selector: spec
                .selector
                .map(|selector| Selector::read(reader, selector, spec.softcap, hidden))
                .transpose()?,
            injection: spec
                .injection
                .map(|injection| Injection::read(reader, injection, &spec))
                .transpose()?,
            layers,
            embedding,
            head,
            confidence,
            target_ids,
            conditioning,
            first_ids: None,
            ends: None,
            masks: OnceCell::new(),
            window,
            dtype,
            kv,
            notes,
            stream,
            spec,
        })
    }

    pub fn spec(&self) -> &DrafterSpec {
        &self.spec
    }

    /// Bytes of its own weights.
    pub fn weight_bytes(&self) -> u64 {
        let own = [&self.embedding, &self.head, &self.confidence].into_iter().flatten();
        let weights: usize = own.chain([&self.fc]).map(Weight::nbytes).sum();
        let layers: usize = self.layers.iter().map(Layer::bytes).sum();
        let heads = self.markov.as_ref().map_or(0, Markov::bytes) + self.selector.as_ref().map_or(0, Selector::bytes);
        let injection = self.injection.as_ref().map_or(0, Injection::bytes);
        (weights + layers + heads + injection) as u64
    }

    /// Borrows the raw embedding and head of `target`.
    ///
    /// # Errors
    /// [`DrafterError::Unfit`] where sizes or taps do not match.
    pub fn bind(&mut self, target: &dyn Target) -> Result<()> {
        let ends = target
            .ends()
            .ok_or_else(|| DrafterError::Unfit("it does not lend its embedding and head".into()))?;
        self.bind_to(ends)
    }

    /// As [`Self::bind`], to given ends.
    pub fn bind_to(&mut self, mut ends: Ends) -> Result<()> {
        let spec = &self.spec;
        let unfit = |what: &str, ours: usize, theirs: usize| DrafterError::Unfit(format!("its {what} is {ours}, the target's is {theirs}"));
        if ends.hidden != spec.hidden {
            return Err(unfit("hidden size", spec.hidden, ends.hidden));
        }
        if ends.vocab != spec.vocab {
            return Err(unfit("vocabulary", spec.vocab, ends.vocab));
        }
        if let Some(&tap) = spec.taps.last().filter(|tap| **tap >= ends.layers) {
            return Err(DrafterError::Unfit(format!(
                "it reads layer {tap}, the target has layers 0 to {}",
                ends.layers.saturating_sub(1)
            )));
        }
        if let Some(first) = self
            .first_ids
            .take()
            .filter(|first| *first < ends.vocab && spec.draft_vocab.is_none())
        {
            let (head, markov) = (&mut self.head, &mut self.markov);
            with_stream(&self.stream, || -> Result<()> {
                match head {
                    Some(own) => *own = own.first(first as i32)?,
                    None => ends.keep_first(first as i32)?,
                }
                match markov {
                    Some(markov) => Ok(markov.narrow(first as i32)?),
                    None => Ok(()),
                }
            })?;
        }
        self.ends = Some(ends);
        self.masks = OnceCell::new();
        Ok(())
    }

    /// An empty context.
    pub fn new_context(&self) -> Context {
        Context::new(&self.spec.masks, self.kv)
    }

    /// Appends the features of committed tokens: `[1, T, taps · H]` as a forward of the target returns them.
    pub fn commit(&self, features: &Array, context: &mut Context) -> Result<()> {
        with_stream(&self.stream, || {
            let fused = self.fused(features)?;
            let (at, rows) = (context.len(), features.dim(1) as usize);
            for (layer, context) in self.layers.iter().zip(&mut context.layers) {
                layer.commit(&fused, at, context)?;
            }
            context.advance(rows);
            Ok(())
        })
    }

    /// What every layer's keys and values are projected from, `[1, T, H]`.
    pub fn fused(&self, features: &Array) -> Computed<Array> {
        let fused = mlx_cpu::linear(&features.as_dtype(self.dtype)?, &self.fc)?;
        mlx_cpu::rms_norm(&fused, Some(&self.hidden_norm), self.spec.eps)
    }

    /// Bounds the context rows that it attends to; `None`: all. Drafters with a window of their own ignore it.
    pub fn set_context_window(&mut self, window: Option<usize>) {
        self.window = window.filter(|window| *window > 0 && self.spec.takes_context_window());
    }

    /// Normed rows of a block of `width` slots after `anchor`, `[1]` u32: `[1, width, H]`. The context is left as it was.
    pub fn block(&self, anchor: &Array, width: usize, context: &mut Context) -> Result<Array> {
        with_stream(&self.stream, || Ok(self.rows(anchor, width, context)?.0))
    }

    /// Input rows of tokens, `[1, T]` to `[1, T, H]`.
    fn embed(&self, ids: &Array) -> Result<Array> {
        Ok(match (&self.embedding, &self.ends) {
            (Some(own), _) => scaled(&mlx_cpu::embed(ids, own, self.dtype)?, self.spec.embed_scale)?,
            (None, Some(ends)) => ends.embed(ids, self.dtype)?,
            (None, None) => return Err(DrafterError::Unbound),
        })
    }

    /// Input rows of a whole block after the anchor's, `[1, block - 1, H]`: the same in every block.
    fn masks(&self) -> Result<&Array> {
        if let Some(rows) = self.masks.get() {
            return Ok(rows);
        }
        let count = self.spec.block_size - 1;
        let ids = Array::from_slice(&vec![self.spec.mask_token; count], &[1, count as i32]);
        let mut rows = self.embed(&ids)?;
        if let Some(conditioning) = &self.conditioning {
            rows = add(&rows, &conditioning.try_index((.., 1.., ..))?)?;
        }
        rows.eval()?;
        Ok(self.masks.get_or_init(|| rows))
    }

    /// Also the rows before the last injection, where there are any.
    fn rows(&self, anchor: &Array, width: usize, context: &mut Context) -> Result<(Array, Option<Array>)> {
        let width = width.clamp(1, self.spec.block_size) as i32;
        let anchor = anchor.reshape(&[1, 1])?.as_dtype(Dtype::Uint32)?;
        let mut x = self.embed(&anchor)?;
        if let Some(conditioning) = &self.conditioning {
            x = add(&x, &conditioning.try_index((.., ..1, ..))?)?;
        }
        if width > 1 {
            let masks = self.masks()?;
            x = if width == masks.dim(1) + 1 {
                concatenate(&[&x, masks], 1)?
            } else {
                concatenate(&[&x, &masks.try_index((.., ..width - 1, ..))?], 1)?
            };
        }
        let at = context.len();
        let mut before = None;
        for (index, (layer, context)) in self.layers.iter().zip(&mut context.layers).enumerate() {
            x = layer.forward(&x, at, self.window, context)?;
            if let Some(injection) = &self.injection {
                let injected = injection.inject(&x, index, &anchor)?;
                before = Some(std::mem::replace(&mut x, injected));
            }
        }
        Ok((mlx_cpu::rms_norm(&x, Some(&self.norm), self.spec.eps)?, before))
    }

    /// Logits of hidden rows, `[cap, H]` to `[cap, Vd]`, after the drafter's softcap where it has one.
    fn logits(&self, hidden: &Array) -> Result<Array> {
        let logits = match (&self.head, &self.ends) {
            (Some(own), _) => mlx_cpu::linear(hidden, own)?,
            (None, Some(ends)) => ends.logits(hidden)?,
            (None, None) => return Err(DrafterError::Unbound),
        };
        // The selector caps its candidates' logits itself, after its multiplier.
        Ok(match self.spec.softcap.filter(|_| self.selector.is_none()) {
            Some(cap) => capped(&logits, cap)?,
            None => logits,
        })
    }

    /// The first `cap` predicting slots.
    pub(super) fn predicted(&self, anchor: &Array, cap: usize, context: &mut Context) -> Result<Predicted> {
        let cap = cap.clamp(1, self.spec.max_draft());
        let (rows, before) = self.rows(anchor, self.spec.width(cap), context)?;
        let first = self.spec.first_slot as i32;
        let slots = |rows: &Array| rows.try_index((0, first..first + cap as i32, ..));
        let hidden = slots(&rows)?;
        Ok(Predicted {
            logits: self.logits(&hidden)?,
            before: before.as_ref().map(slots).transpose()?,
            hidden,
        })
    }

    /// Starts a chain of at most `cap` drafts after `anchor`, `[1]` u32.
    pub fn chain(&self, anchor: &Array, cap: usize, context: &mut Context) -> Result<Chain<'_>> {
        with_stream(&self.stream, || {
            let slots = self.predicted(anchor, cap, context)?;
            Ok(Chain::new(self, slots.logits, slots.hidden))
        })
    }

    /// The candidates of a DFlash 2 or DSpine block and the scores between them.
    ///
    /// # Errors
    /// For a drafter of another class.
    pub fn lattice(&self, anchor: &Array, cap: usize, context: &mut Context) -> Result<Lattice> {
        with_stream(&self.stream, || {
            if !self.has_lattice() {
                return Err(DrafterError::Unsupported("it has no candidate selector".into()));
            }
            let slots = self.predicted(anchor, cap, context)?;
            match (&self.selector, &self.injection, &slots.before, &self.ends) {
                (Some(selector), ..) => Ok(selector.lattice(&slots.logits, &slots.hidden, anchor)?),
                (None, Some(injection), Some(before), Some(ends)) => {
                    Ok(injection.lattice(&slots.logits, before, anchor, ends, (&self.norm, self.spec.eps))?)
                }
                _ => Err(DrafterError::Unbound),
            }
        })
    }

    /// The greedy drafts after `anchor`, `[cap]` u32, lazily.
    pub fn draft(&self, anchor: &Array, cap: usize, context: &mut Context) -> Result<Array> {
        if self.has_lattice() {
            let lattice = self.lattice(anchor, cap, context)?;
            return with_stream(&self.stream, || Ok(lattice.greedy()?));
        }
        let chain = self.chain(anchor, cap, context)?;
        with_stream(&self.stream, || Ok(chain.best(anchor)?))
    }

    /// The greedy chain with what it was chosen from; for drafters without a selector.
    pub fn propose(&self, anchor: &Array, cap: usize, context: &mut Context) -> Result<Proposal> {
        with_stream(&self.stream, || {
            let slots = self.predicted(anchor, cap, context)?;
            Ok(Chain::new(self, slots.logits, slots.hidden).greedy(anchor)?)
        })
    }

    /// Whether its drafts are a path through candidates ([`Self::lattice`]) instead of a chain of rows.
    pub fn has_lattice(&self) -> bool {
        self.selector.is_some() || self.injection.is_some()
    }

    /// Ids of the target for draft ids.
    pub fn to_target(&self, ids: &Array) -> Computed<Array> {
        let ids = ids.as_dtype(Dtype::Uint32)?;
        self.target_ids.as_ref().map_or(Ok(ids.clone()), |table| table.take_axis(&ids, 0))
    }

    /// The target's id of every draft id; `None` where they are the same.
    pub fn target_table(&self) -> Option<&[u32]> {
        self.target_ids.as_ref().map(Array::as_slice)
    }

    /// A row over the draft vocabulary spread over the target's: what the drafter cannot say has no mass.
    pub fn widen(&self, q: &[f32]) -> Vec<f32> {
        let Some(table) = &self.target_ids else {
            return q.to_vec();
        };
        let mut wide = vec![0.0; self.spec.vocab];
        for (id, mass) in table.as_slice::<u32>().iter().zip(q) {
            wide[*id as usize] = *mass;
        }
        wide
    }

    /// Of hidden rows, `[rows, H]`, with the Markov embeddings of the tokens before: `[rows]`.
    pub(super) fn confidence_of(&self, h: &Array, e: Option<&Array>) -> Computed<Option<Array>> {
        let Some(head) = &self.confidence else { return Ok(None) };
        let logit = match e.filter(|_| self.spec.confidence == Some(true)) {
            Some(e) => mlx_cpu::linear(&concatenate(&[h, e], -1)?, head)?,
            None => mlx_cpu::linear(h, head)?,
        };
        sigmoid(&logit)?.reshape(&[-1]).map(Some)
    }
}

/// What the signal-to-noise ratio of each slot adds to its embedding: the anchor's is the highest, the others' the
/// lowest.
fn conditioning(reader: &mut Reader, (min, max): (f32, f32), spec: &DrafterSpec, dtype: Dtype) -> Result<Array> {
    let row = |snr: f32| {
        let t = (snr - min) / (max - min) * 1000.0;
        let half = SNR_FEATURES / 2;
        let angle = move |i: usize| f64::from(t) * 10_000f64.powf(-(i as f64) / half as f64);
        let (sines, cosines) = (
            (0..half).map(move |i| angle(i).sin() as f32),
            (0..half).map(move |i| angle(i).cos() as f32),
        );
        sines.chain(cosines)
    };
    let features: Vec<f32> = row(max).chain(row(min)).collect();
    let features = Array::from_slice(&features, &[2, SNR_FEATURES as i32]).as_dtype(dtype)?;
    let fc1 = reader.matrix("log_snr_embed.fc1", SNR_FEATURES, false)?;
    let fc2 = reader.matrix("log_snr_embed.fc2", spec.hidden, false)?;
    let rows = mlx_cpu::linear(&mlx_rs::nn::silu(mlx_cpu::linear(&features, &fc1)?)?, &fc2)?;
    let slots: Vec<u32> = (0..spec.block_size).map(|slot| u32::from(slot > 0)).collect();
    let table = rows
        .take_axis(Array::from_slice(&slots, &[slots.len() as i32]), 0)?
        .expand_dims(0)?;
    table.eval()?;
    Ok(table)
}
