//! Random numbers that depend on (seed, position) only: the same seed gives the same text, whatever else runs,
//! however often a position is computed, and whichever loop computes it.
//!
//! Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a keyed bijection of a
//! 128-bit counter. The key is the request's seed; the counter is the position of the drawn token and a lane.

/// What a draw is for. Each lane is an independent sequence, so that speculation adds uniforms of its own without
/// moving the ones that plain decoding uses.
///
/// A committed token at a position rests on one of: `Token` alone (plain step, the token after a fully accepted
/// chain, or a point proposal); `Draft` and `Accept` (an accepted draft); `Draft`, `Accept` and `Residual` (its
/// replacement). Never on one number twice.
///
/// After a rejection at position j the positions behind it are drafted again from the numbers that already drew the
/// discarded drafts there. That is sound: whatever was committed up to j (each draft, whether it was offered, accepted
/// or replaced) is a function of numbers at positions up to j, because drafts, their q and p rows and their
/// confidences look only backwards. The numbers behind j were looked at by nothing that was kept, so given the
/// committed text they are still uniform and independent. It stops being true if whether a draft is offered depends
/// on the draft itself: truncation may look at the confidence of draft i given the drafts before it, not at its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Lane {
    /// The token drawn from the target's distribution.
    Token = 0,
    /// The token drawn from the drafter's distribution.
    Draft = 1,
    /// Whether that draft is taken.
    Accept = 2,
    /// The token in place of a rejected draft.
    Residual = 3,
}

const ROUNDS: usize = 10;
const MULTIPLIERS: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..ROUNDS {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let low = MULTIPLIERS[0] * u64::from(counter[0]);
        let high = MULTIPLIERS[1] * u64::from(counter[2]);
        counter = [
            (high >> 32) as u32 ^ counter[1] ^ key[0],
            high as u32,
            (low >> 32) as u32 ^ counter[3] ^ key[1],
            low as u32,
        ];
    }
    counter
}

fn block(seed: u64, position: u64, lane: Lane) -> [u32; 4] {
    philox(
        [position as u32, (position >> 32) as u32, lane as u32, 0],
        [seed as u32, (seed >> 32) as u32],
    )
}

/// Uniform in [0, 1), 53 bits.
pub fn uniform(seed: u64, position: u64, lane: Lane) -> f64 {
    let [a, b, ..] = block(seed, position, lane);
    let bits = (u64::from(a) << 32 | u64::from(b)) >> 11;
    bits as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// A key for MLX's own generator (two words), for draws made on the device.
pub fn device_key(seed: u64, position: u64, lane: Lane) -> [u32; 2] {
    let [.., a, b] = block(seed, position, lane);
    [a, b]
}

/// A seed for a request that named none.
pub fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library's hasher keys come from the operating system.
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u64(
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |now| now.as_nanos() as u64),
    );
    // Seeds travel through JSON, whose numbers are exact up to 2^53.
    hasher.finish() >> 11
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers published with the Random123 library (`kat_vectors`).
    #[test]
    fn philox_known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn uniforms_fill_the_unit_interval_evenly() {
        let mut bins = [0_u32; 16];
        for position in 0..160_000 {
            let u = uniform(7, position, Lane::Token);
            assert!((0.0..1.0).contains(&u));
            bins[(u * 16.0) as usize] += 1;
        }
        let chi: f64 = bins.iter().map(|&n| (f64::from(n) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi < 44.3, "chi-square {chi} with 15 degrees of freedom"); // p = 1e-4
    }

    #[test]
    fn seed_and_position_both_matter() {
        let u = uniform(1, 2, Lane::Token);
        assert_eq!(u, uniform(1, 2, Lane::Token));
        assert_ne!(u, uniform(2, 2, Lane::Token));
        assert_ne!(u, uniform(1, 3, Lane::Token));
        assert_ne!(u, uniform(1 << 40, 2, Lane::Token));
        assert_ne!(device_key(1, 2, Lane::Token), device_key(1, 3, Lane::Token));
        let lanes = [Lane::Token, Lane::Draft, Lane::Accept, Lane::Residual].map(|lane| uniform(1, 2, lane));
        for (i, u) in lanes.iter().enumerate() {
            assert!(!lanes[..i].contains(u), "{lanes:?}");
        }
        assert_ne!(fresh_seed(), fresh_seed());
    }
}
