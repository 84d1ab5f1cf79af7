//! Random names for requests, replies and keys.

use std::fmt::Write;

/// `bytes` random bytes as lower-case hex.
pub(crate) fn hex(bytes: usize) -> String {
    let mut raw = vec![0; bytes];
    fill(&mut raw);
    raw.iter().fold(String::with_capacity(bytes * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(crate) fn request_id() -> String {
    format!("req_{}", hex(12))
}

/// A machine without a random source still gets distinct ids: time and a counter.
fn fill(raw: &mut [u8]) {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    if getrandom::fill(raw).is_ok() {
        return;
    }
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    let unique = nanos.rotate_left(20) ^ NEXT.fetch_add(1, Ordering::Relaxed);
    for (byte, value) in raw.iter_mut().zip(unique.to_le_bytes().iter().cycle()) {
        *byte = *value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_hex_of_the_stated_length_and_distinct() {
        let (a, b) = (request_id(), request_id());
        assert_eq!(a.len(), 4 + 24);
        assert!(a[4..].bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(a, b);
    }
}
