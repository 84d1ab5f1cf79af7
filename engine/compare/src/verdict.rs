//! Whether two texts of one prompt are the same; where they are not, the model itself is asked what it would have said
//! there. Source: `spec/speculation.md` §3, `spec/http-api.md` §13.10.

use dspark_protocol::{Divergence, EngineError, EngineHandle, Result};
use serde::{Deserialize, Serialize};

/// Where two texts part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Of the emitted tokens, from 0.
    pub at: usize,
    pub reference_token: u32,
    pub token: u32,
    /// The two tokens as text.
    #[serde(default)]
    pub reference_text: String,
    #[serde(default)]
    pub text: String,
    /// Logit of what one-by-one decoding says there less that of the token that was written instead.
    pub margin: f32,
    /// The same in units in the last place of the logits' dtype.
    pub ulps: f32,
    /// Both logits; `None` where neither text strays from one-by-one decoding.
    #[serde(default)]
    pub logits: Option<(f32, f32)>,
}

/// What is said of a text beside the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Verdict {
    /// The same ids to the end.
    Identical,
    /// The same as far as the shorter one goes, which is this many tokens.
    Shorter { at: usize },
    /// They part where two tokens are as good as tied: one row and several are rounded differently.
    NearTie(Difference),
    /// One of them said what plain decoding would clearly not have said.
    Differs(Difference),
}

impl Verdict {
    pub fn is_identical(&self) -> bool {
        matches!(self, Self::Identical)
    }

    pub fn difference(&self) -> Option<&Difference> {
        match self {
            Self::NearTie(difference) | Self::Differs(difference) => Some(difference),
            Self::Identical | Self::Shorter { .. } => None,
        }
    }
}

/// Sets `ids` beside `reference`, both written greedily after `prompt`. Takes as long as writing the text up to the
/// first difference; none where there is no difference.
///
/// # Errors
/// What the engine says.
pub async fn judge(handle: &EngineHandle, prompt: &[u32], reference: &[u32], ids: &[u32]) -> Result<Verdict> {
    let Some(at) = reference.iter().zip(ids).position(|(a, b)| a != b) else {
        let shorter = reference.len().min(ids.len());
        return Ok(if reference.len() == ids.len() {
            Verdict::Identical
        } else {
            Verdict::Shorter { at: shorter }
        });
    };
    // Mostly it is the other text that strays from one-by-one decoding; where it does not, the reference must.
    let mut strays = forced(handle, prompt, &ids[..=at]).await?;
    if strays.is_none() {
        strays = forced(handle, prompt, &reference[..=at]).await?;
    }
    let codec = handle.codec().ok();
    let text = |id: u32| codec.as_ref().map(|codec| codec.decode(&[id])).unwrap_or_default();
    let difference = Difference {
        at,
        reference_token: reference[at],
        token: ids[at],
        reference_text: text(reference[at]),
        text: text(ids[at]),
        margin: strays.map_or(0.0, |at| at.plain_logit - at.emitted_logit),
        ulps: strays.map_or(0.0, |at| at.ulps),
        logits: strays.map(|at| (at.plain_logit, at.emitted_logit)),
    };
    Ok(if strays.is_none_or(|at| at.near_tie) {
        Verdict::NearTie(difference)
    } else {
        Verdict::Differs(difference)
    })
}

/// How the last of `emitted` strays from one-by-one decoding, if it does.
async fn forced(handle: &EngineHandle, prompt: &[u32], emitted: &[u32]) -> Result<Option<Divergence>> {
    let report = handle.force(prompt.to_vec(), emitted.to_vec())?;
    let report = report.await.map_err(|_| EngineError::Stopped)??;
    let last = emitted.len().saturating_sub(1);
    Ok(report.divergences.into_iter().find(|at| at.step == last))
}
