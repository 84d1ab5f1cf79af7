//! Exponentials of a whole vocabulary: branch-free, so that the compiler computes several at a time.

/// `exp((logit - max) / T)` of every logit; `None` when the row holds a NaN or nothing finite.
pub(super) fn weights(logits: &[f32], temperature: f32) -> Option<Vec<f32>> {
    let max = max(logits).filter(|max| max.is_finite())?;
    // Below this every other token underflows anyway; it keeps the scale finite.
    let scale = 1.0 / temperature.max(1e-5);
    Some(logits.iter().map(|logit| exp((logit - max) * scale)).collect())
}

/// The sum, in f64.
pub(super) fn sum(weights: &[f32]) -> f64 {
    let (lanes, rest) = weights.as_chunks::<8>();
    let mut sums = [0.0_f64; 8];
    for lane in lanes {
        for (sum, weight) in sums.iter_mut().zip(lane) {
            *sum += f64::from(*weight);
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|weight| f64::from(*weight)).sum::<f64>()
}

/// The largest; `None` for an empty row or one with a NaN.
pub(super) fn max(values: &[f32]) -> Option<f32> {
    let (lanes, rest) = values.as_chunks::<8>();
    let mut most = [f32::NEG_INFINITY; 8];
    let mut nan = [false; 8];
    let padded = std::array::from_fn(|i| rest.get(i).copied().unwrap_or(f32::NEG_INFINITY));
    for lane in lanes.iter().chain([&padded]) {
        for i in 0..8 {
            most[i] = if lane[i] > most[i] { lane[i] } else { most[i] };
            nan[i] |= lane[i].is_nan();
        }
    }
    (!values.is_empty() && !nan.contains(&true)).then(|| most.into_iter().fold(f32::NEG_INFINITY, f32::max))
}

/// `e^x` for x at most 0, within 2 units in the last place; 0 below the smallest normal number. Coefficients of the
/// Cephes library's `expf`.
#[inline]
fn exp(x: f32) -> f32 {
    const LOWEST: f32 = -87.0;
    /// Adding it rounds to an integer, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let clamped = if x < LOWEST { LOWEST } else { x };
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    // ln 2 in two parts, the first exact in few bits.
    let r = clamped - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    let value = (p * r * r + r + 1.0) * power;
    if x < LOWEST { 0.0 } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_exact_to_rounding() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-100.0), 0.0);
        let mut worst = 0.0_f64;
        for i in 0..870_000 {
            let x = -i as f32 * 1e-4;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - exact).abs() / exact);
        }
        assert!(worst < 2.5e-7, "{worst}");
    }

    #[test]
    fn rows_without_a_number_to_stand_on_have_no_weights() {
        assert_eq!(weights(&[], 1.0), None);
        assert_eq!(weights(&[f32::NEG_INFINITY; 3], 1.0), None);
        for at in 0..20 {
            let mut row = [0.5; 20];
            row[at] = f32::NAN;
            assert_eq!(weights(&row, 1.0), None, "{at}");
            row[at] = f32::INFINITY;
            assert_eq!(weights(&row, 1.0), None, "{at}");
            row[at] = 3.0;
            assert_eq!(max(&row), Some(3.0));
            let weights = weights(&row, 1.0).unwrap_or_default();
            assert_eq!(weights[at], 1.0);
            assert!((sum(&weights) - 1.0 - 19.0 * (-2.5_f64).exp()).abs() < 1e-6);
        }
    }
}
