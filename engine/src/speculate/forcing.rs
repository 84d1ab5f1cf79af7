//! The proof of losslessness: an emitted text is fed to the target again, one token at a time, and every token must be
//! the one that plain decoding would have chosen there, or as good as tied with it. Source: `spec/speculation.md` §3.

use super::guess::{floats, read};
use crate::{
    grammar::{self, failed},
    target::{Logits, Rows, Target},
    worker::step::ids,
};
use dspark_grammar::Matcher;
use dspark_protocol::{Divergence, ForcingReport};
use mlx_rs::{Array, Dtype, error::Exception, ops::indexing, transforms::eval};
use std::time::Instant;

/// Prompt tokens of one forward.
const CHUNK: usize = 256;
/// Logits of f32 that differ by less are a near tie: keys and values of 16 bits and another order of summation move them
/// by as much.
const NEAR_TIE_F32: f32 = 0.02;
/// The same for logits of 16 bits, in units in the last place.
const NEAR_TIE_ULPS: f32 = 4.0;

/// Feeds `emitted` after `prompt` token by token. `more` is asked between steps whether to go on.
///
/// `near_tie`: what counts as tied, in logits; `None` takes the rule for the dtype of the logits.
///
/// # Errors
/// When a computation fails, or `more` says no.
pub fn force(
    target: &dyn Target,
    prompt: &[u32],
    emitted: &[u32],
    near_tie: Option<f32>,
    more: &mut dyn FnMut() -> bool,
) -> Result<ForcingReport, Exception> {
    force_masked(target, prompt, emitted, near_tie, None, more)
}

/// The same for a text that had to follow a grammar: every token must be the best of those that were allowed.
///
/// # Errors
/// As [`force`], and where the text does not follow the grammar.
pub(crate) fn force_masked(
    target: &dyn Target,
    prompt: &[u32],
    emitted: &[u32],
    near_tie: Option<f32>,
    mut matcher: Option<&mut Matcher>,
    more: &mut dyn FnMut() -> bool,
) -> Result<ForcingReport, Exception> {
    let mut cache = target.new_cache();
    let mut report = ForcingReport::default();
    let (inner, tail) = prompt.split_at(prompt.len().saturating_sub(1) / CHUNK * CHUNK);
    for tokens in inner.chunks(CHUNK) {
        target.forward(&Rows::chain(&ids(tokens), Logits::None), &mut *cache)?;
        eval(cache.arrays())?;
    }
    let mut feed = tail.to_vec();
    let mut started = Instant::now();
    for (step, &token) in emitted.iter().enumerate() {
        if !more() {
            return Err(Exception::custom("the check was cancelled"));
        }
        let output = target.forward(&Rows::chain(&ids(&feed), Logits::Last), &mut *cache)?;
        let logits = output
            .logits
            .ok_or_else(|| Exception::custom("a step gave no logits"))?
            .reshape(&[-1])?;
        let logits = match &mut matcher {
            Some(matcher) => {
                let mask = grammar::rows([&matcher.mask().map_err(failed)?].into_iter(), target.vocab());
                matcher.accept(token).map_err(failed)?;
                match mask {
                    Some(mask) => grammar::masked(&logits, &mask.reshape(&[-1])?)?,
                    None => logits,
                }
            }
            None => logits,
        };
        let plain = read(&indexing::argmax_axis(&logits, -1, false)?)?.pop().unwrap_or(0);
        if plain != token {
            report.divergences.push(divergence(&logits, step, plain, token, near_tie)?);
        }
        feed = vec![token];
        report.tokens += 1;
        if step == 0 {
            // The first step belongs to the prompt.
            started = Instant::now();
        }
    }
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

fn divergence(logits: &Array, step: usize, plain: u32, emitted: u32, near_tie: Option<f32>) -> Result<Divergence, Exception> {
    let pair = floats(&logits.take_axis(Array::from_slice(&[plain, emitted], &[2]), 0)?)?;
    let (plain_logit, emitted_logit) = (pair[0], pair[1]);
    let margin = plain_logit - emitted_logit;
    let unit = unit_in_the_last_place(logits.dtype(), plain_logit);
    let allowed = near_tie.unwrap_or(match logits.dtype() {
        Dtype::Bfloat16 | Dtype::Float16 => NEAR_TIE_ULPS * unit,
        _ => NEAR_TIE_F32,
    });
    Ok(Divergence {
        step,
        emitted,
        plain,
        plain_logit,
        emitted_logit,
        ulps: margin / unit,
        near_tie: margin <= allowed,
    })
}

/// Of `value` as a number of this dtype.
fn unit_in_the_last_place(dtype: Dtype, value: f32) -> f32 {
    let mantissa = match dtype {
        Dtype::Bfloat16 => 7,
        Dtype::Float16 => 10,
        _ => 23,
    };
    2f32.powi(value.abs().max(f32::MIN_POSITIVE).log2().floor() as i32 - mantissa)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_in_the_last_place_follow_the_dtype_and_the_magnitude() {
        let unit = unit_in_the_last_place;
        assert_eq!(unit(Dtype::Bfloat16, 20.0), 0.125);
        assert_eq!(unit(Dtype::Float16, -20.0), 0.015_625);
        assert_eq!(unit(Dtype::Float32, 1.5), f32::EPSILON);
        assert_eq!(unit(Dtype::Bfloat16, 0.9), 0.003_906_25);
    }
}
