//! Log-probabilities of what was chosen and of the best alternatives, from the RAW logits (no temperature, penalty
//! or truncation), in f32. Source: `spec/speculation.md` §4.

/// Natural-log probabilities at one position.
#[derive(Debug, Clone, PartialEq)]
pub struct Logprobs {
    pub chosen: f32,
    /// Most likely first; lower id first where equal.
    pub top: Vec<(u32, f32)>,
}

/// Of one row of raw logits.
pub fn of_row(logits: &[f32], chosen: u32, top: usize) -> Logprobs {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|l| f64::from((l - max).exp())).sum();
    let norm = f64::from(max) + sum.ln();
    let logprob = |id: u32| (f64::from(logits[id as usize]) - norm) as f32;
    let mut best: Vec<u32> = (0..logits.len() as u32).collect();
    let order = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    let top = top.min(best.len());
    if top > 0 && top < best.len() {
        best.select_nth_unstable_by(top, order);
    }
    best.truncate(top);
    best.sort_unstable_by(order);
    Logprobs {
        chosen: logprob(chosen),
        top: best.into_iter().map(|id| (id, logprob(id))).collect(),
    }
}
