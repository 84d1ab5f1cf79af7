//! What this machine allows the loaded model, from what is known of both.

use super::{
    roofline::{Footprint, ceiling, plain_step},
    verdict::Figures,
};
use dspark_protocol::{Mode, Snapshot};

/// The loaded model, the weights that a step reads, and how fast memory is.
#[derive(Debug, Clone, Copy)]
pub struct Limits<'a> {
    pub engine: &'a Snapshot,
    pub footprint: Option<Footprint>,
    /// GB (10⁹ bytes) a second.
    pub bandwidth: Option<f64>,
}

impl Limits<'_> {
    /// Tokens a second that plain decoding cannot exceed at a context.
    pub fn ceiling(&self, context: usize) -> Option<f64> {
        let kv = self.engine.model.as_ref()?.kv_bytes_per_token;
        ceiling(self.bandwidth?, self.footprint?.active, kv, context)
    }

    /// Milliseconds of a plain step, as calibrated.
    pub fn step_ms(&self) -> Option<f64> {
        self.engine.speculation.as_ref()?.curves.as_ref()?.verify.get(&1).copied()
    }

    /// GB a second that a plain step moves and its part of what memory gives, from the calibrated step.
    pub fn plain_step(&self) -> Option<(f64, f64)> {
        let kv = self.engine.model.as_ref()?.kv_bytes_per_token;
        plain_step(self.bandwidth?, self.footprint?.active, kv, self.step_ms()?)
    }

    /// What a verdict needs of them; the last reply and memory are left out.
    pub fn figures(&self) -> Figures {
        let step = self.plain_step();
        Figures {
            used: step.map(|step| step.1),
            moved: step.map(|step| step.0).zip(self.bandwidth),
            drafts: self.engine.speculation.as_ref().is_some_and(|known| known.mode != Mode::Baseline),
            experts_estimated: self.footprint.is_some_and(|footprint| footprint.estimate),
            on_processor: self.engine.machine.backend == "cpu",
            ..Figures::default()
        }
    }
}
