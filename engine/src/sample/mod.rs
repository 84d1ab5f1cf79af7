//! From logits to a token. One [`Sampler`] per generation; its draws depend on the request's seed and the token's
//! position only.
//!
//! | file | owns |
//! |---|---|
//! | `penalties` | what is added to the raw logits |
//! | `shape` | temperature and truncation of one row, in plain Rust (`dspark-speculate`) |
//! | `device` | the same rule in MLX, for any number of rows |
//! | `host` | the plain rule as one operation of MLX's CPU stream |
//! | `rng` | counter-based random numbers (`dspark-speculate`) |
//! | `logprobs` | what is reported about the raw rows |
//!
//! On the CPU a draw inverts the cumulative distribution at one uniform; on a GPU it is Gumbel-max with MLX's
//! generator, keyed per token. Each is reproducible on its own kind of device; the two need not agree with each other.

pub mod device;
pub mod host;
pub mod logprobs;
pub mod penalties;

pub use dspark_speculate::sample::{rng, shape};

use crate::grammar::masked;
use dspark_protocol::{EngineError, Sampling};
use mlx_rs::{Array, Device, DeviceType, Dtype, error::Exception, ops::indexing};
use penalties::Penalties;
use rng::Lane;
use shape::Shape;

/// Where draws are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Plain Rust on MLX's CPU stream.
    Host,
    /// MLX operations.
    Device,
}

impl Place {
    /// The right one for MLX's default device.
    pub fn current() -> Self {
        match Device::try_default().and_then(|device| device.get_type()) {
            Ok(DeviceType::Cpu) => Self::Host,
            _ => Self::Device,
        }
    }
}

/// The logits of `[.., T]` chosen tokens in their rows, `[.., T, V]`: `[.., T]` f32, lazily. One that is not a number
/// tells of a row that is not of numbers, from which the best was chosen all the same.
///
/// # Errors
/// When the shapes do not match.
pub(crate) fn logits_of(chosen: &Array, rows: &Array) -> Result<Array, Exception> {
    rows.take_along_axis(&chosen.expand_dims(-1)?, -1)?
        .as_dtype(Dtype::Float32)?
        .squeeze_axes(&[-1])
}

/// What is said when a target computes no numbers.
pub(crate) fn not_numbers() -> Exception {
    Exception::custom(
        "the model's logits are not numbers, so no token can be chosen. Its weights are probably damaged, or too large for their \
         number format. Download the model again, or load another quantization of it.",
    )
}

/// Draws the tokens of one generation.
#[derive(Debug, Clone)]
pub struct Sampler {
    shape: Option<Shape>,
    penalties: Option<Penalties>,
    seed: u64,
    /// The seed was given: the text must follow from it, however it is computed.
    given: bool,
    place: Place,
}

impl Sampler {
    /// # Errors
    /// [`EngineError::BadRequest`] naming the field that is out of range.
    pub fn new(sampling: &Sampling, prompt: &[u32], vocab: usize, place: Place) -> Result<Self, EngineError> {
        Ok(Self {
            shape: Shape::of(sampling)?,
            penalties: Penalties::of(sampling, prompt, vocab)?,
            seed: sampling.seed.unwrap_or_else(rng::fresh_seed),
            given: sampling.seed.is_some(),
            place,
        })
    }

    /// The seed in use, given or drawn.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether each token is to be the one that plain decoding draws at its position. A draft is then taken where the target draws the
    /// very same token, so that caps, modes and timing do not show in the text; without a given seed, drafts are taken more willingly
    /// (`accept::chain`), with the same distribution.
    pub fn pathwise(&self) -> bool {
        self.given && self.shape.is_some()
    }

    /// What drafts are drawn by. Those that the target's own draws must meet are drawn by the same numbers.
    fn draft_lane(&self) -> Lane {
        if self.pathwise() { Lane::Token } else { Lane::Draft }
    }

    /// The token at `position` from a row on the host that penalties and masks were applied to; `None` where it is not of numbers.
    ///
    /// # Errors
    /// When a computation fails.
    pub fn draw_weighed(&self, row: &[f32], position: u64) -> Result<Option<u32>, Exception> {
        let Some(shape) = &self.shape else { return Ok(None) };
        if self.place == Place::Host {
            let row = shape::Distribution::of_logits(row, shape);
            return Ok(row.map(|row| row.draw(rng::uniform(self.seed, position, Lane::Token))));
        }
        if row.iter().any(|logit| logit.is_nan()) {
            return Ok(None);
        }
        let row = Array::from_slice(row, &[1, 1, row.len() as i32]);
        let token = device::draw(&row, shape, rng::device_key(self.seed, position, Lane::Token))?;
        Ok(Some(token.item_cast::<u32>()))
    }

    /// Whether the next draw needs the previous token on the host first.
    pub fn sequential(&self) -> bool {
        self.penalties.as_ref().is_some_and(Penalties::counts)
    }

    /// The token after `[1, 1, V]` raw logits, `[1, 1]` u32, lazily. `position` counts generated tokens from 0.
    pub fn draw(&self, logits: &Array, position: u64) -> Result<Array, Exception> {
        self.draw_masked(logits, position, None)
    }

    /// The same among the tokens that `mask` allows, `[1, 1, V]` bool: before any truncation, as if the others had no
    /// probability.
    pub fn draw_masked(&self, logits: &Array, position: u64, mask: Option<&Array>) -> Result<Array, Exception> {
        let mut row = logits.as_dtype(Dtype::Float32)?;
        if let Some(penalties) = &self.penalties {
            row = penalties.apply_device(&row)?;
        }
        if let Some(mask) = mask {
            row = masked(&row, mask)?;
        }
        match (&self.shape, self.place) {
            // The lowest id wins an exact tie.
            (None, _) => indexing::argmax_axis(&row, -1, false),
            (Some(shape), Place::Host) => host::draw(&row, shape, rng::uniform(self.seed, position, Lane::Token)),
            (Some(shape), Place::Device) => device::draw(&row, shape, rng::device_key(self.seed, position, Lane::Token)),
        }
    }

    /// Whether the likeliest token is taken, and no token changes the odds of the next: the choice of every row of a
    /// verify can then be made on the device.
    pub fn plainly_greedy(&self) -> bool {
        self.shape.is_none() && !self.sequential()
    }

    /// How a row becomes a distribution; `None` is greedy.
    pub fn shape(&self) -> Option<&Shape> {
        self.shape.as_ref()
    }

    /// The best token of each of `[1, T, V]` raw rows, `[1, T]` u32, lazily, among those that `mask` allows, `[1, T, V]`
    /// bool. For [`Self::plainly_greedy`] requests.
    pub fn best(&self, logits: &Array, mask: Option<&Array>) -> Result<Array, Exception> {
        let biased = match &self.penalties {
            Some(penalties) => &penalties.apply_device(&logits.as_dtype(Dtype::Float32)?)?,
            None => logits,
        };
        match mask {
            Some(mask) => indexing::argmax_axis(masked(biased, mask)?, -1, false),
            None => indexing::argmax_axis(biased, -1, false),
        }
    }

    /// A draft from a drafter's row, `[1, Vd]` logits, by the temperature and truncation of this request: `[1]` u32,
    /// lazily. `position` is that of the generated token it guesses. A row that is not of numbers gives some id.
    pub fn draw_draft(&self, logits: &Array, position: u64) -> Result<Array, Exception> {
        let row = logits.as_dtype(Dtype::Float32)?;
        let id = match (&self.shape, self.place) {
            (None, _) => indexing::argmax_axis(&row, -1, false)?,
            (Some(shape), Place::Host) => host::draw_guess(&row, shape, rng::uniform(self.seed, position, self.draft_lane()))?,
            (Some(shape), Place::Device) => device::draw(&row, shape, rng::device_key(self.seed, position, self.draft_lane()))?,
        };
        id.reshape(&[1])
    }

    /// What a draft at `position` is drawn by.
    pub fn draft_uniform(&self, position: u64) -> f64 {
        rng::uniform(self.seed, position, self.draft_lane())
    }

    /// Changes a raw row, on the host, by penalties and biases as of the tokens observed so far.
    pub fn penalize(&self, row: &mut [f32]) {
        if let Some(penalties) = &self.penalties {
            penalties.apply(row);
        }
    }

    /// Takes back one [`Self::observe`].
    pub fn retract(&mut self, token: u32) {
        if let Some(penalties) = &mut self.penalties {
            penalties.retract(token);
        }
    }

    /// Takes note of a generated token.
    pub fn observe(&mut self, token: u32) {
        if let Some(penalties) = &mut self.penalties {
            penalties.observe(token);
        }
    }
}
