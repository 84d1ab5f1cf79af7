use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// A change takes hold within this, whatever is being waited for.
const STEP: Duration = Duration::from_millis(100);
/// Seconds of the rate that may be caught up on after waiting a little too long.
const CREDIT: f64 = 0.05;

/// A cap on the bytes a second of everything that is downloaded under it, together. Clones are the same cap; it can be
/// changed while something downloads.
#[derive(Debug, Clone, Default)]
pub struct Limit(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// 0: none.
    rate: AtomicU64,
    owed: Mutex<Owed>,
}

/// Bytes that came before their time.
#[derive(Debug, Default)]
struct Owed {
    bytes: f64,
    at: Option<Instant>,
}

impl Owed {
    /// What is owed now, after `bytes` more.
    fn settle(&mut self, bytes: usize, rate: u64) -> f64 {
        let (now, rate) = (Instant::now(), rate as f64);
        let passed = self.at.map_or(0.0, |at| now.duration_since(at).as_secs_f64());
        self.at = Some(now);
        self.bytes = (self.bytes - passed * rate).max(-CREDIT * rate) + bytes as f64;
        self.bytes
    }
}

impl Limit {
    /// Bytes a second; 0 for none.
    pub fn set(&self, bytes_per_second: u64) {
        self.0.rate.store(bytes_per_second, Relaxed);
    }

    /// Bytes a second; 0 for none.
    pub fn get(&self) -> u64 {
        self.0.rate.load(Relaxed)
    }

    /// Returns when so many bytes that have come may be followed by more.
    pub(crate) async fn pass(&self, bytes: usize) {
        let mut new = bytes;
        loop {
            let rate = self.get();
            let owed = {
                let mut owed = self.0.owed.lock().unwrap_or_else(PoisonError::into_inner);
                if rate == 0 {
                    *owed = Owed::default();
                    return;
                }
                owed.settle(std::mem::take(&mut new), rate)
            };
            if owed <= 0.0 {
                return;
            }
            tokio::time::sleep(Duration::from_secs_f64(owed / rate as f64).min(STEP)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn took(limit: &Limit, pieces: usize, bytes: usize) -> f64 {
        let begin = Instant::now();
        for _ in 0..pieces {
            limit.pass(bytes).await;
        }
        begin.elapsed().as_secs_f64()
    }

    #[tokio::test]
    async fn bytes_take_their_time() {
        let limit = Limit::default();
        assert!(took(&limit, 1000, 1 << 20).await < 0.5, "without a cap nothing waits");
        limit.set(1_000_000);
        let seconds = took(&limit, 10, 50_000).await;
        assert!((0.4..5.0).contains(&seconds), "half a MB at 1 MB a second took {seconds} s");
        // Of small pieces none waits for itself: the clock's grain would make each much longer.
        let seconds = took(&limit, 2000, 200).await;
        assert!((0.3..2.0).contains(&seconds), "{seconds}");
    }

    #[tokio::test]
    async fn several_downloads_share_it_and_a_change_takes_hold_at_once() {
        let limit = Limit::default();
        limit.set(1_000_000);
        let begin = Instant::now();
        tokio::join!(took(&limit, 6, 50_000), took(&limit, 6, 50_000));
        let seconds = begin.elapsed().as_secs_f64();
        assert!(seconds > 0.5, "0.6 MB took {seconds} s");

        // A piece that would have to wait for a minute.
        limit.set(1000);
        let other = limit.clone();
        let waits = tokio::spawn(async move { other.pass(60_000).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!waits.is_finished());
        limit.set(0);
        tokio::time::timeout(Duration::from_secs(10), waits).await.unwrap().unwrap();
    }
}
