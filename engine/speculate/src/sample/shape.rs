//! From a row of logits to the distribution that a token is drawn from: temperature, then top-k, then top-p, then
//! min-p, then renormalise. Pure functions of one row, in plain Rust; `device` states the same rule in MLX.
//!
//! Source: `spec/speculation.md` §4 and the sampling goldens. Every truncation is a threshold on the probability, so
//! values tied at the cut all stay. Weights are f32 (as the device computes them), sums are f64.

use super::exp;
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

    pub fn truncates(&self) -> bool {
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
        let weights = exp::weights(logits, shape.temperature)?;
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

    /// From (id, weight) pairs in any order; ids may repeat. `None` when the weights sum to nothing.
    pub fn of_pairs(mut pairs: Vec<(u32, f64)>) -> Option<Self> {
        pairs.retain(|&(_, weight)| weight > 0.0);
        pairs.sort_unstable_by_key(|&(id, _)| id);
        pairs.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0.0 };
            same
        });
        let mass: f64 = pairs.iter().map(|&(_, weight)| weight).sum();
        (mass > 0.0 && mass.is_finite()).then(|| {
            let (ids, p) = pairs.into_iter().map(|(id, weight)| (id, weight / mass)).unzip();
            Self { ids, p }
        })
    }

    /// The same over the ids of a larger vocabulary: a reduced drafter's distribution in the target's terms. `target`
    /// maps each id to an id of its own.
    #[must_use]
    pub fn widened(&self, target: impl Fn(u32) -> u32) -> Self {
        let mut pairs: Vec<(u32, f64)> = self.ids.iter().map(|&id| target(id)).zip(self.p.iter().copied()).collect();
        pairs.sort_unstable_by_key(|&(id, _)| id);
        let (ids, p) = pairs.into_iter().unzip();
        Self { ids, p }
    }

    /// The probability of a token.
    pub fn of(&self, id: u32) -> f64 {
        self.ids.binary_search(&id).map_or(0.0, |at| self.p[at])
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

/// Draws a token at `u` in [0, 1) from a row of logits: what [`Distribution::draw`] gives, without writing the
/// distribution down. `None` when the row holds no finite logit or a NaN.
pub fn draw(logits: &[f32], shape: &Shape, u: f64) -> Option<u32> {
    let weights = exp::weights(logits, shape.temperature)?;
    let cut = cut(&weights, shape);
    let kept = |weight: f32| if weight >= cut { f64::from(weight) } else { 0.0 };
    let total = if cut > 0.0 {
        weights.iter().map(|&weight| kept(weight)).sum()
    } else {
        exp::sum(&weights)
    };
    let (mut mass, mut last) = (0.0, None);
    for (id, &weight) in weights.iter().enumerate() {
        let share = kept(weight);
        mass += share;
        if share > 0.0 {
            last = Some(id as u32);
            if u * total < mass {
                break;
            }
        }
    }
    last
}

/// The smallest weight that survives.
fn cut(weights: &[f32], shape: &Shape) -> f32 {
    if !shape.truncates() {
        return 0.0;
    }
    let mut cut = 0.0_f32;
    let k = shape.top_k as usize;
    let top_k = k > 0 && k < weights.len();
    if top_k || shape.top_p < 1.0 {
        let piles = Piles::of(weights);
        if top_k {
            let mut best = piles.candidates(weights, |count, _| count >= k);
            let (_, kth, _) = best.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
            cut = *kth;
        }
        if shape.top_p < 1.0 {
            let mass = f64::from(shape.top_p) * exp::sum(weights);
            let mut best = piles.candidates(weights, |_, held| held >= mass);
            best.retain(|&weight| weight >= cut && weight > 0.0);
            cut = cut.max(nucleus(best, mass));
        }
    }
    if shape.min_p > 0.0 {
        cut = cut.max(shape.min_p * exp::max(weights).unwrap_or(0.0));
    }
    cut
}

/// The smallest weight whose predecessors, in descending order, weigh less than `mass`; the largest always stays.
fn nucleus(mut weights: Vec<f32>, mass: f64) -> f32 {
    weights.sort_unstable_by(|a, b| b.total_cmp(a));
    let mut before = 0.0;
    let mut cut = weights.first().copied().unwrap_or(0.0);
    for weight in weights {
        if before >= mass {
            break;
        }
        cut = weight;
        before += f64::from(weight);
    }
    cut
}

/// Weights sorted roughly, by exponent and three bits of the mantissa: enough to find the few that a cut can fall on
/// without sorting a vocabulary.
struct Piles {
    count: Vec<u32>,
    mass: Vec<f64>,
}

impl Piles {
    const SHIFT: u32 = 20;

    fn of(weights: &[f32]) -> Self {
        let n = Self::pile(exp::max(weights).unwrap_or(1.0)) + 1;
        let (mut count, mut mass) = (vec![0; n], vec![0.0; n]);
        for &weight in weights {
            let pile = Self::pile(weight);
            count[pile] += 1;
            mass[pile] += f64::from(weight);
        }
        Self { count, mass }
    }

    /// Ascending with the weight.
    fn pile(weight: f32) -> usize {
        (weight.to_bits() >> Self::SHIFT) as usize
    }

    /// The largest weights: at least so many that `enough`, told their count and mass, says so; all where it never does.
    fn candidates(&self, weights: &[f32], enough: impl Fn(usize, f64) -> bool) -> Vec<f32> {
        let (mut count, mut mass, mut least) = (0, 0.0, 0);
        for pile in (0..self.count.len()).rev() {
            count += self.count[pile] as usize;
            mass += self.mass[pile];
            least = pile;
            // A hair more than enough: sums in another order round otherwise.
            if enough(count, mass * (1.0 - 1e-9)) {
                break;
            }
        }
        weights.iter().copied().filter(|&weight| Self::pile(weight) >= least).collect()
    }
}
