//! Rotary position embedding: which frequencies a configuration asks for. Source of the variants:
//! `spec/checkpoints.md` §1.4; formulas as in mlx-lm's `rope_utils`.

use crate::load::{LoadError, float};
use serde_json::{Map, Value};
use std::f64::consts::PI;

/// Rotation of the first `dims` elements of a head: pair `i` turns by `position · f_i`.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Rotated elements of each head; the rest pass through.
    pub dims: usize,
    /// Pairs are (even, odd) neighbours instead of the two halves.
    pub traditional: bool,
    /// Factor on the rotated elements of queries and keys (yarn, longrope).
    pub scale: f32,
    frequencies: Frequencies,
}

#[derive(Debug, Clone, PartialEq)]
enum Frequencies {
    /// Radians a position, for each pair.
    Fixed(Vec<f64>),
    /// NTK scaling that grows with the context beyond `max_positions`.
    Dynamic { theta: f64, factor: f64, max_positions: usize },
}

type Result<T> = std::result::Result<T, LoadError>;

impl Rope {
    /// From `rope_theta` and the `rope_scaling` (or `rope_parameters`) entry.
    pub fn new(head_dim: usize, theta: f64, traditional: bool, scaling: Option<&Map<String, Value>>, max_positions: usize) -> Result<Self> {
        let empty = Map::new();
        let scaling = Scaling(scaling.unwrap_or(&empty));
        let proportional = scaling.kind() == "proportional";
        let dims = match scaling.number("partial_rotary_factor")? {
            Some(factor) if !proportional => (head_dim as f64 * factor) as usize,
            _ => head_dim,
        };
        if !(theta.is_finite() && theta > 0.0) {
            return Err(LoadError::Config(format!("`rope_theta` must be positive, found {theta}")));
        }
        if dims == 0 || dims % 2 == 1 || dims > head_dim || dims > 1 << 16 {
            return Err(LoadError::Config(format!(
                "RoPE over {dims} of {head_dim} elements of a head is impossible"
            )));
        }
        let base: Vec<f64> = (0..dims / 2).map(|i| theta.powf(-2.0 * i as f64 / dims as f64)).collect();
        let mut scale = 1.0;
        let frequencies = match scaling.kind() {
            "default" | "mrope" => base,
            // Pairs of the whole head, of which the first turn and the others stand still.
            "proportional" => {
                let factor = scaling.number("factor")?.unwrap_or(1.0);
                let share = scaling.number("partial_rotary_factor")?.unwrap_or(1.0);
                let turned = (head_dim as f64 * share) as usize / 2;
                let still = std::iter::repeat_n(0.0, base.len().saturating_sub(turned));
                base.iter().take(turned).map(|f| f / factor).chain(still).collect()
            }
            "linear" => {
                let factor = scaling.need("factor")?;
                base.into_iter().map(|f| f / factor).collect()
            }
            "dynamic" => {
                let factor = scaling.need("factor")?;
                return Ok(Self {
                    dims,
                    traditional,
                    scale: 1.0,
                    frequencies: Frequencies::Dynamic {
                        theta,
                        factor,
                        max_positions,
                    },
                });
            }
            "llama3" => scaling.llama3(base)?,
            "yarn" => {
                let (frequencies, input) = scaling.yarn(base, dims, theta)?;
                scale = input;
                frequencies
            }
            "longrope" => {
                let original = scaling.need("original_max_position_embeddings")?;
                let long = scaling.factors("long_factor", dims / 2)?;
                let factor = max_positions as f64 / original;
                if factor > 1.0 {
                    scale = (1.0 + factor.ln() / original.ln()).sqrt();
                }
                base.into_iter().zip(long).map(|(f, long)| f / long).collect()
            }
            other => return Err(LoadError::Config(format!("the RoPE type `{other}` is not supported"))),
        };
        Ok(Self {
            dims,
            traditional,
            scale: scale as f32,
            frequencies: Frequencies::Fixed(frequencies),
        })
    }

    /// Whether the frequencies depend on the context length.
    pub fn is_dynamic(&self) -> bool {
        matches!(self.frequencies, Frequencies::Dynamic { .. })
    }

    /// Radians a position for each pair, for a context of `length` tokens (cache and new rows).
    pub fn frequencies(&self, length: usize) -> Vec<f64> {
        match &self.frequencies {
            Frequencies::Fixed(fixed) => fixed.clone(),
            Frequencies::Dynamic {
                theta,
                factor,
                max_positions,
            } => {
                let (dims, max) = (self.dims as f64, *max_positions as f64);
                let stretch = factor * (length as f64).max(max) / max - (factor - 1.0);
                let theta = theta * stretch.powf(dims / (dims - 2.0));
                (0..self.dims / 2).map(|i| theta.powf(-2.0 * i as f64 / dims)).collect()
            }
        }
    }
}

struct Scaling<'a>(&'a Map<String, Value>);

impl Scaling<'_> {
    fn kind(&self) -> &str {
        let word = |key| self.0.get(key).and_then(Value::as_str);
        word("type").or_else(|| word("rope_type")).unwrap_or("default")
    }

    fn number(&self, key: &str) -> Result<Option<f64>> {
        let present = self.0.get(key).filter(|value| !value.is_null());
        let number =
            |value| float(value).ok_or_else(|| LoadError::Config(format!("`{key}` of the RoPE scaling must be a number, found {value}")));
        present.map(number).transpose()
    }

    fn need(&self, key: &str) -> Result<f64> {
        let found = self.number(key)?.filter(|number| *number > 0.0);
        found.ok_or_else(|| LoadError::Config(format!("RoPE scaling `{}` needs a positive `{key}`", self.kind())))
    }

    /// A list with one factor for each pair, or one number for all.
    fn factors(&self, key: &str, pairs: usize) -> Result<Vec<f64>> {
        let list = match self.0.get(key) {
            Some(Value::Array(items)) => items.iter().map(float).collect::<Option<Vec<_>>>(),
            _ => self.number(key)?.map(|factor| vec![factor; pairs]),
        };
        let right = list.filter(|list| list.len() == pairs && list.iter().all(|factor| *factor > 0.0));
        right.ok_or_else(|| LoadError::Config(format!("RoPE scaling `{}` needs {pairs} positive numbers in `{key}`", self.kind())))
    }

    /// Long waves are divided by `factor`, short ones kept, those between interpolated.
    fn llama3(&self, base: Vec<f64>) -> Result<Vec<f64>> {
        let factor = self.need("factor")?;
        let low = self.number("low_freq_factor")?.unwrap_or(1.0);
        let high = self.number("high_freq_factor")?.unwrap_or(4.0);
        let original = self.number("original_max_position_embeddings")?.unwrap_or(8192.0);
        let scaled = base.into_iter().map(|f| {
            let wave = 2.0 * PI / f;
            if wave > original / low {
                f / factor
            } else if wave > original / high {
                let smooth = (original / wave - low) / (high - low);
                f * ((1.0 - smooth) / factor + smooth)
            } else {
                f
            }
        });
        Ok(scaled.collect())
    }

    /// A ramp over the pairs between `beta_fast` and `beta_slow` turns within the original context.
    fn yarn(&self, base: Vec<f64>, dims: usize, theta: f64) -> Result<(Vec<f64>, f64)> {
        let factor = self.need("factor")?;
        let original = self.number("original_max_position_embeddings")?.unwrap_or(4096.0);
        let fast = self.number("beta_fast")?.unwrap_or(32.0);
        let slow = self.number("beta_slow")?.unwrap_or(1.0);
        let pair_of = |turns: f64| dims as f64 * (original / (turns * 2.0 * PI)).ln() / (2.0 * theta.ln());
        let low = pair_of(fast).floor().max(0.0);
        let mut high = pair_of(slow).ceil().min(dims as f64 - 1.0);
        if low == high {
            high += 0.001;
        }
        let mixed = base.iter().enumerate().map(|(i, f)| {
            let ramp = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
            f / factor * ramp + f * (1.0 - ramp)
        });
        let mscale = |m: f64| if factor <= 1.0 { 1.0 } else { 0.1 * m * factor.ln() + 1.0 };
        let input = mscale(self.number("mscale")?.unwrap_or(1.0)) / mscale(self.number("mscale_all_dim")?.unwrap_or(0.0));
        Ok((mixed.collect(), input))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rope(scaling: Value, max: usize) -> Result<Rope> {
        let Value::Object(scaling) = scaling else { panic!("not an object") };
        Rope::new(64, 10_000.0, false, Some(&scaling), max)
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-5 * b.abs(), "{a} is not {b}");
    }

    // Expected values: mlx-lm 0.32.2, `1 / rope._freqs` of the same configuration.
    #[test]
    fn known_frequencies() {
        let plain = rope(json!({}), 2048).unwrap().frequencies(1);
        close(plain[0], 1.0);
        close(plain[31], 10_000f64.powf(-62.0 / 64.0));
        let linear = rope(json!({"type": "linear", "factor": 4.0}), 2048).unwrap().frequencies(1);
        close(linear[5], plain[5] / 4.0);
        let mrope = rope(json!({"rope_type": "mrope", "mrope_section": [8, 12, 12]}), 2048).unwrap();
        assert_eq!(mrope.frequencies(1), plain);
    }

    #[test]
    fn llama3_keeps_short_waves_and_stretches_long_ones() {
        let scaling = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64});
        let (plain, found) = (
            rope(json!({}), 2048).unwrap().frequencies(1),
            rope(scaling, 2048).unwrap().frequencies(1),
        );
        close(found[0], plain[0]);
        close(found[31], plain[31] / 8.0);
        // Pair 10 has wavelength 2π·10^(10/8) = 111.7 > 64; pair 6 has 35.3, in the middle band.
        close(found[10], plain[10] / 8.0);
        let smooth = (64.0 * plain[6] / (2.0 * PI) - 1.0) / 3.0;
        close(found[6], plain[6] * ((1.0 - smooth) / 8.0 + smooth));
    }

    #[test]
    fn yarn_scales_its_input() {
        let found = rope(
            json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}),
            256,
        )
        .unwrap();
        close(f64::from(found.scale), 0.1 * 4f64.ln() + 1.0);
        let equal = rope(json!({"type": "yarn", "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 0.7}), 256).unwrap();
        close(f64::from(equal.scale), 1.0);
    }

    #[test]
    fn dynamic_grows_beyond_the_trained_context() {
        let found = rope(json!({"rope_type": "dynamic", "factor": 2.0}), 100).unwrap();
        assert!(found.is_dynamic());
        let plain = rope(json!({}), 100).unwrap().frequencies(1);
        close(found.frequencies(100)[7], plain[7]);
        let theta = 10_000.0 * 3f64.powf(64.0 / 62.0);
        close(found.frequencies(200)[7], theta.powf(-14.0 / 64.0));
    }

    #[test]
    fn longrope_and_partial_rotation() {
        let scaling = json!({"type": "longrope", "original_max_position_embeddings": 1024, "long_factor": vec![2.0; 32], "short_factor": vec![1.0; 32]});
        let found = rope(scaling, 4096).unwrap();
        close(f64::from(found.scale), (1.0 + 4f64.ln() / 1024f64.ln()).sqrt());
        close(found.frequencies(1)[3], 10_000f64.powf(-6.0 / 64.0) / 2.0);
        let partial = rope(json!({"rope_type": "default", "partial_rotary_factor": 0.25}), 64).unwrap();
        assert_eq!((partial.dims, partial.frequencies(1).len()), (16, 8));
    }

    #[test]
    fn unusable_scalings_are_refused() {
        for (scaling, named) in [
            (json!({"type": "spiral"}), "spiral"),
            (json!({"type": "linear"}), "factor"),
            (
                json!({"type": "longrope", "original_max_position_embeddings": 8, "long_factor": [1.0]}),
                "long_factor",
            ),
            (json!({"type": "yarn", "factor": "x"}), "factor"),
            (json!({"partial_rotary_factor": 0.0}), "impossible"),
        ] {
            assert!(rope(scaling, 64).unwrap_err().to_string().contains(named), "{named}");
        }
    }
}
