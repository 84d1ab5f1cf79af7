//! From a row of logits to the distribution that a token is drawn from: temperature, then top-k, then top-p, then
//! min-p, then renormalise. Pure functions of one row, in plain Rust; `device` states the same rule in MLX.
//!
//! Source: `spec/speculation.md` §4 and the sampling goldens. Every truncation is a threshold on the probability, so
//! values tied at the cut all stay. Weights are f32 (as the device computes them), sums are f64.

use dspark_protocol::{EngineError, Sampling};

/// How a row of logits becomes a distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Above 0; greedy requests have no shape.
    pub temperature: f32,
    /// Nucleus mass; 1 and above keeps everything, 0 only the best.
    pub top_p: f32,
    /// 0 keeps everything.
    pub top_k: u32,
    /// Share of the best probability; 0 keeps everything.
    pub min_p: f32,
}

impl Shape {
    /// The shape of a request; `None` when it is greedy.
    ///
    /// # Errors
    /// [`EngineError::BadRequest`] naming the field that is out of range.
    pub fn of(sampling: &Sampling) -> Result<Option<Self>, EngineError> {
        let Sampling {
            temperature,
            top_p,
            top_k,
            min_p,
            ..
        } = *sampling;
        if !(temperature.is_finite() && temperature >= 0.0) {
            return Err(EngineError::BadRequest(format!(
                "temperature is {temperature}; it must be 0 or more"
            )));
        }
        if !(0.0..=1.0).contains(&top_p) {
            return Err(EngineError::BadRequest(format!("top_p is {top_p}; it must be between 0 and 1")));
        }
        if !(0.0..=1.0).contains(&min_p) {
            return Err(EngineError::BadRequest(format!("min_p is {min_p}; it must be between 0 and 1")));
        }
        Ok((temperature > 0.0).then_some(Self {
            temperature,
            top_p,
            top_k,
            min_p,
        }))
    }

    pub(crate) fn truncates(&self) -> bool {
        self.top_p < 1.0 || self.top_k > 0 || self.min_p > 0.0
    }
}

/// A next-token distribution: what can be drawn, by ascending id. Probabilities sum to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    pub ids: Vec<u32>,
    pub p: Vec<f64>,
}

impl Distribution {
    /// `norm(trunc(softmax(logits / T)))`; `None` when the row holds no finite logit or a NaN.
    pub fn of_logits(logits: &[f32], shape: &Shape) -> Option<Self> {
        let weights = weights(logits, shape.temperature)?;
        Some(Self::of_weights(&weights, shape))
    }

    /// The same from weights proportional to the probabilities before truncation.
    pub fn of_weights(weights: &[f32], shape: &Shape) -> Self {
        let cut = cut(weights, shape);
        let ids: Vec<u32> = (0..weights.len() as u32)
            .filter(|&id| weights[id as usize] >= cut && weights[id as usize] > 0.0)
            .collect();
        let mass: f64 = ids.iter().map(|&id| f64::from(weights[id as usize])).sum();
        let p = ids.iter().map(|&id| f64::from(weights[id as usize]) / mass.max(1e-12)).collect();
        Self { ids, p }
    }

    /// Inverse of the cumulative distribution at `u` in [0, 1): the first id whose cumulative mass exceeds it.
    pub fn draw(&self, u: f64) -> u32 {
        let total: f64 = self.p.iter().sum();
        let mut mass = 0.0;
        for (&id, &p) in self.ids.iter().zip(&self.p) {
            mass += p;
            if u * total < mass {
                return id;
            }
        }
        self.ids.last().copied().unwrap_or(0)
    }
}

/// `exp((logit - max) / T)`; `None` when that is undefined.
fn weights(logits: &[f32], temperature: f32) -> Option<Vec<f32>> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if !max.is_finite() || logits.iter().any(|l| l.is_nan()) {
        return None;
    }
    // Below this every other token underflows anyway; it keeps the scale finite.
    let scale = 1.0 / temperature.max(1e-5);
    Some(logits.iter().map(|l| ((l - max) * scale).exp()).collect())
}

/// The smallest weight that survives.
fn cut(weights: &[f32], shape: &Shape) -> f32 {
    if !shape.truncates() {
        return 0.0;
    }
    let mut cut = 0.0_f32;
    let k = shape.top_k as usize;
    if k > 0 && k < weights.len() {
        let mut scratch = weights.to_vec();
        let (_, kth, _) = scratch.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
        cut = *kth;
    }
    if shape.top_p < 1.0 {
        let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        let kept = weights.iter().copied().filter(|&w| w >= cut && w > 0.0).collect();
        cut = cut.max(nucleus(kept, f64::from(shape.top_p) * total));
    }
    if shape.min_p > 0.0 {
        let max = weights.iter().copied().fold(0.0, f32::max);
        cut = cut.max(shape.min_p * max);
    }
    cut
}

/// The smallest weight whose predecessors, in descending order, weigh less than `mass`; the largest always stays.
fn nucleus(mut weights: Vec<f32>, mass: f64) -> f32 {
    // A nucleus is small as a rule: sort only as many of the largest as it takes.
    let (mut sorted, mut batch, mut before, mut cut) = (0, 64, 0.0, f32::INFINITY);
    while sorted < weights.len() {
        let rest = &mut weights[sorted..];
        let take = rest.len().min(batch);
        if take < rest.len() {
            rest.select_nth_unstable_by(take, |a, b| b.total_cmp(a));
        }
        rest[..take].sort_unstable_by(|a, b| b.total_cmp(a));
        for &weight in &rest[..take] {
            if cut.is_finite() && before >= mass {
                return cut;
            }
            cut = weight;
            before += f64::from(weight);
        }
        sorted += take;
        batch *= 16;
    }
    cut
}
