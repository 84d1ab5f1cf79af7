//! The chi-square test of goodness of fit, for tests of distributions.

/// What the test says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChiSquare {
    pub statistic: f64,
    pub freedom: usize,
    /// The chance of a statistic at least so large when the expectation is right.
    pub p_value: f64,
}

/// Observed counts against exact probabilities of the same cells. Cells expected fewer than 5 times are pooled. An
/// observation where the probability is 0 makes the statistic infinite.
pub fn chi_square(observed: &[u64], probabilities: &[f64]) -> ChiSquare {
    assert_eq!(observed.len(), probabilities.len(), "one probability per cell");
    let trials = observed.iter().sum::<u64>() as f64;
    let (mut statistic, mut cells) = (0.0, 0_usize);
    let (mut rare, mut rare_expected) = (0.0, 0.0);
    for (&count, &p) in observed.iter().zip(probabilities) {
        let (count, expected) = (count as f64, p * trials);
        if p <= 0.0 {
            statistic += if count > 0.0 { f64::INFINITY } else { 0.0 };
        } else if expected < 5.0 {
            rare += count;
            rare_expected += expected;
        } else {
            statistic += (count - expected).powi(2) / expected;
            cells += 1;
        }
    }
    if rare_expected > 0.0 {
        statistic += (rare - rare_expected).powi(2) / rare_expected;
        cells += 1;
    }
    let freedom = cells.saturating_sub(1);
    ChiSquare {
        statistic,
        freedom,
        p_value: survival(statistic, freedom),
    }
}

/// P(X >= x) of the chi-square distribution: the regularised upper incomplete gamma function Q(k/2, x/2), by the
/// recurrence Q(a + 1, x) = Q(a, x) + x^a e^-x / Γ(a + 1), which starts at `e^-x` or `erfc(√x)`.
fn survival(statistic: f64, freedom: usize) -> f64 {
    if freedom == 0 {
        return if statistic.is_finite() { 1.0 } else { 0.0 };
    }
    if !statistic.is_finite() {
        return 0.0;
    }
    let x = statistic / 2.0;
    let (mut q, mut a, mut term) = if freedom.is_multiple_of(2) {
        // The term is x^a e^-x / Γ(a + 1), kept as a logarithm.
        ((-x).exp(), 1.0, x.ln() - x)
    } else {
        (erfc(x.sqrt()), 0.5, 0.5 * x.ln() - x - (std::f64::consts::PI.sqrt() / 2.0).ln())
    };
    while a < freedom as f64 / 2.0 {
        q += term.exp();
        a += 1.0;
        term += x.ln() - a.ln();
    }
    q.min(1.0)
}

/// Complementary error function for x >= 0, within 1.2e-7 (Numerical Recipes, §6.2, Chebyshev fit).
fn erfc(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.5 * x);
    let polynomial = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ]
    .iter()
    .rev()
    .fold(0.0, |sum, c| sum * t + c);
    t * (-x * x + polynomial).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_of_the_table() {
        // Upper 5 % and 0.1 % points of the chi-square distribution.
        for (freedom, five, tenth) in [
            (1, 3.841, 10.828),
            (2, 5.991, 13.816),
            (3, 7.815, 16.266),
            (10, 18.307, 29.588),
            (25, 37.652, 52.620),
            (100, 124.342, 149.449),
        ] {
            assert!(
                (survival(five, freedom) - 0.05).abs() < 1e-4,
                "{freedom}: {}",
                survival(five, freedom)
            );
            assert!(
                (survival(tenth, freedom) - 0.001).abs() < 1e-5,
                "{freedom}: {}",
                survival(tenth, freedom)
            );
        }
        assert_eq!(survival(0.0, 4), 1.0);
    }

    #[test]
    fn the_impossible_and_the_rare() {
        assert_eq!(chi_square(&[10, 1], &[1.0, 0.0]).p_value, 0.0);
        let rare = chi_square(&[9_992, 3, 5], &[0.9992, 0.0004, 0.0004]);
        assert_eq!(rare.freedom, 1);
        assert!(rare.p_value > 0.9, "{rare:?}");
    }
}
