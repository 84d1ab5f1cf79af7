//! What memory allows: bytes that one decode step reads, the ceiling that follows, and how a reply compares.
//! Source: `spec/fit-and-roofline.md` §1.2, §9.

/// Weights as they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Footprint {
    /// All weights, bytes.
    pub total: u64,
    /// Read by one decode step, bytes.
    pub active: u64,
    /// A mixture of experts that does not say how many it uses: all are counted.
    pub estimate: bool,
}

impl Footprint {
    /// From tensors with their bytes. `experts` and `top_k` are of the configuration.
    pub fn of<'a>(tensors: impl IntoIterator<Item = (&'a str, u64)>, experts: Option<u64>, top_k: Option<u64>) -> Self {
        let (mut total, mut routed, mut embedding, mut head) = (0, 0, 0, false);
        for (name, bytes) in tensors {
            total += bytes;
            if name.contains(".switch_mlp.") || name.contains(".experts.") {
                routed += bytes;
            } else if name.contains("embed_tokens.") {
                embedding += bytes;
            }
            head |= name.ends_with("lm_head.weight");
        }
        // A row gather; without a head of its own the matrix is the head, read in full.
        let mut active = total - routed - if head { embedding } else { 0 };
        let used = experts.filter(|experts| *experts > 1).zip(top_k);
        active += used.map_or(routed, |(experts, top_k)| routed * top_k.min(experts) / experts);
        Self {
            total,
            active,
            estimate: routed > 0 && used.is_none(),
        }
    }
}

/// Bytes that a decode step reads at this depth of context.
pub fn bytes_per_token(active: u64, kv_per_token: u64, context: usize) -> u64 {
    active + kv_per_token * context as u64
}

/// Tokens a second that plain decoding cannot exceed; `None` where one side is unknown.
pub fn ceiling(gigabytes_per_second: f64, active: u64, kv_per_token: u64, context: usize) -> Option<f64> {
    let bytes = bytes_per_token(active, kv_per_token, context);
    (gigabytes_per_second > 0.0 && bytes > 0).then(|| gigabytes_per_second * 1e9 / bytes as f64)
}

/// Bytes a second that a plain step moves, in GB, and that as a part of what memory gives.
/// The step is measured at 512 tokens of context.
pub fn plain_step(gigabytes_per_second: f64, active: u64, kv_per_token: u64, step_ms: f64) -> Option<(f64, f64)> {
    if step_ms <= 0.0 || gigabytes_per_second <= 0.0 || active == 0 {
        return None;
    }
    let moved = bytes_per_token(active, kv_per_token, 512) as f64 / (step_ms / 1e3) / 1e9;
    Some((moved, moved / gigabytes_per_second))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn active(tensors: &[(&'static str, u64)], experts: Option<u64>, top_k: Option<u64>) -> (u64, u64, bool) {
        let found = Footprint::of(tensors.iter().copied(), experts, top_k);
        (found.total, found.active, found.estimate)
    }

    #[test]
    fn what_a_step_reads() {
        let plain = [
            ("model.embed_tokens.weight", 1000),
            ("model.layers.0.mlp.up_proj.weight", 5000),
            ("lm_head.weight", 1000),
        ];
        assert_eq!(active(&plain, None, None), (7000, 6000, false));
        assert_eq!(active(&plain[..2], None, None), (6000, 6000, false), "tied: read by the head");
        let mixture = [
            ("model.layers.0.mlp.switch_mlp.up_proj.weight", 1000),
            ("model.layers.0.mlp.shared_expert.up_proj.weight", 100),
            ("model.layers.0.self_attn.q_proj.weight", 50),
            ("lm_head.weight", 10),
        ];
        assert_eq!(active(&mixture, Some(100), Some(10)).1, 260);
        assert_eq!(active(&[mixture[0], mixture[3]], Some(8), None), (1010, 1010, true));
        assert_eq!(active(&[mixture[0], mixture[3]], Some(4), Some(1)).1, 260);
    }

    #[test]
    fn ceilings_of_the_specification() {
        let at = |bandwidth, active, kv, context| (ceiling(bandwidth, active, kv, context).unwrap() * 1e3).round() / 1e3;
        assert_eq!(at(250.0, 10_000_000_000, 0, 0), 25.0);
        assert_eq!(at(250.0, 10_000_000_000, 65_536, 32_768), 20.58);
        assert_eq!(at(226.0, 4_270_000_000, 147_456, 512), 52.008);
        assert_eq!(
            [0, 32_768, 131_072].map(|context| at(226.0, 14_600_000_000, 65_536, context)),
            [15.479, 13.495, 9.746]
        );
        assert_eq!(at(546.0, 8_700_000_000, 147_456, 8192), 55.107);
        assert_eq!(ceiling(0.0, 1, 1, 1), None);
        assert_eq!(ceiling(1.0, 0, 0, 9), None);
    }

    #[test]
    fn a_reply_and_a_plain_step_against_them() {
        let ceiling = ceiling(226.0, 14_600_000_000, 65_536, 700).unwrap();
        assert_eq!((ceiling * 1e3).round() / 1e3, 15.431);
        assert_eq!((38.6 / ceiling * 1e3).round() / 1e3, 2.501);
        let (moved, part) = plain_step(219.0, 4_300_000_000, 0, 20.0).unwrap();
        assert_eq!(((moved * 10.0).round() / 10.0, (part * 1e4).round() / 1e4), (215.0, 0.9817));
        let (moved, part) = plain_step(226.0, 14_633_554_432 - 512 * 65_536, 65_536, 69.0).unwrap();
        assert_eq!(((moved * 10.0).round() / 10.0, (part * 1e4).round() / 1e4), (212.1, 0.9384));
        assert_eq!(plain_step(226.0, 1, 0, 0.0), None);
    }
}
