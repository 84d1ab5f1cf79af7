//! Where a prompt's computation pauses for a copy of what cannot be cut. Source: `spec/caching-batching.md` §1.3.

use super::MIN_REUSE;

/// Tokens between two rungs of a long prompt.
const EVERY: usize = 8192;

/// Ascending positions in a prompt of `total` tokens, of which `reuse` need not be computed: every [`EVERY`] tokens; where it
/// leaves the kept text that it shares most with (`shared` tokens), since others will leave it there too; and the stable
/// boundary, before the `unstable` tokens that the next turn may write differently.
pub(crate) fn marks(total: usize, reuse: usize, shared: usize, unstable: usize) -> Vec<usize> {
    let boundary = total.saturating_sub(unstable.max(1));
    let steps = (reuse / EVERY + 1..).map(|step| step * EVERY).take_while(|at| *at < boundary);
    let fork = (shared >= reuse + MIN_REUSE).then_some(shared);
    let mut marks: Vec<usize> = steps.chain(fork).filter(|at| *at < boundary).chain([boundary]).collect();
    marks.retain(|at| *at > reuse && *at >= MIN_REUSE);
    marks.sort_unstable();
    marks.dedup();
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundary_steps_and_fork() {
        assert_eq!(marks(100, 0, 0, 4), [96]);
        assert_eq!(marks(20_000, 0, 0, 1), [8192, 16_384, 19_999]);
        assert_eq!(marks(20_000, 9000, 12_000, 5), [12_000, 16_384, 19_995]);
        // Nothing new before what is reused, nothing at or behind the boundary but itself.
        assert_eq!(marks(100, 96, 98, 4), [0; 0]);
        assert_eq!(marks(100, 50, 99, 4), [96]);
        assert_eq!(marks(12, 0, 0, 1), [0; 0], "too short to be worth it");
        assert_eq!(marks(100, 50, 60, 1), [99], "a fork just behind the reuse");
    }
}
