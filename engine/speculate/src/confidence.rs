//! Cutting a chain where the drafter itself doubts that all of it survives. Source: `spec/speculation.md` §7.

/// How many drafts to keep, at least 1 (0 without any): as long as the product of the confidences stays at or above
/// `threshold`. `confidence[i]` is the chance that draft i is taken given that those before it were. A threshold of 0
/// or below keeps all.
pub fn keep(confidence: &[f32], threshold: f32) -> usize {
    if threshold <= 0.0 {
        return confidence.len();
    }
    let mut survival = 1.0_f64;
    let kept = confidence
        .iter()
        .take_while(|&&confidence| {
            survival *= f64::from(confidence);
            survival >= f64::from(threshold)
        })
        .count();
    kept.max(1).min(confidence.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_at_the_first_product_below_the_threshold() {
        assert_eq!(keep(&[0.9, 0.9, 0.5, 0.99], 0.5), 2);
        assert_eq!(keep(&[0.9, 0.9, 0.9], 0.0), 3);
        assert_eq!(keep(&[1.0, 1.0], 1.0), 2);
    }

    #[test]
    fn one_draft_always_stays_but_none_comes_from_nothing() {
        assert_eq!(keep(&[0.1, 0.9], 0.5), 1);
        assert_eq!(keep(&[f32::NAN, 0.9], 0.5), 1);
        assert_eq!(keep(&[], 0.5), 0);
        assert_eq!(keep(&[], 0.0), 0);
    }
}
