//! How fast this machine reads memory: what a decode step is up against. Source: `spec/fit-and-roofline.md` §8.

use dspark_protocol::Bandwidth;
use mlx_cpu::Backend;
use mlx_rs::{Array, Dtype, error::Exception, ops, transforms::eval};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// Bytes read at a time, and where memory is short.
const BYTES: usize = 512 << 20;
const FEW_BYTES: usize = 128 << 20;
/// Below this much free memory the smaller size is read.
const ROOM: u64 = 2 << 30;
const WARM_UPS: usize = 3;
const SAMPLES: usize = 10;

/// Reads weights' worth of memory and takes the median: a half-precision matrix times a vector on a GPU, all cores reading
/// on the processor, where MLX's own product would measure arithmetic. `more` is asked between readings.
///
/// # Errors
/// What MLX said. `None` where `more` said no.
pub(crate) fn measure(more: &mut dyn FnMut() -> bool) -> Result<Option<Bandwidth>, Exception> {
    let bytes = if available() < ROOM { FEW_BYTES } else { BYTES };
    if mlx_cpu::backend() == Backend::Cpu {
        Ok(cores(bytes, more))
    } else {
        matrix(bytes, more)
    }
}

/// Bytes of main memory to be had now; all of it where the system does not say.
fn available() -> u64 {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    System::new_with_specifics(memory).map_or(u64::MAX, |system| system.available_memory())
}

fn matrix(bytes: usize, more: &mut dyn FnMut() -> bool) -> Result<Option<Bandwidth>, Exception> {
    let side = side(bytes);
    let weights = ops::ones_dtype(&[side as i32, side as i32], Dtype::Float16)?;
    let vector = ops::ones_dtype(&[side as i32, 1], Dtype::Float16)?;
    eval([&weights, &vector])?;
    let mut times = Vec::new();
    for reading in 0..WARM_UPS + SAMPLES {
        if !more() {
            return Ok(None);
        }
        let begun = Instant::now();
        let product: Array = ops::matmul(&weights, &vector)?;
        eval([&product])?;
        if reading >= WARM_UPS {
            times.push(begun.elapsed());
        }
    }
    let read = 2 * side * side;
    Ok(Some(Bandwidth {
        gigabytes_per_second: rate(read, times),
        bytes: read as u64,
        samples: SAMPLES,
        method: format!("{} MiB matvec, median of {SAMPLES}", read >> 20),
    }))
}

/// Rows of a square half-precision matrix of at most so many bytes, a multiple of 64.
fn side(bytes: usize) -> usize {
    (bytes / 2).isqrt() / 64 * 64
}

fn cores(bytes: usize, more: &mut dyn FnMut() -> bool) -> Option<Bandwidth> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    // Written once, so that there are pages to read.
    let memory = vec![1_u64; bytes / 8];
    let mut times = Vec::new();
    for reading in 0..WARM_UPS + SAMPLES {
        if !more() {
            return None;
        }
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for part in memory.chunks(memory.len().div_ceil(threads)) {
                scope.spawn(|| black_box(sum(black_box(part))));
            }
        });
        if reading >= WARM_UPS {
            times.push(begun.elapsed());
        }
    }
    Some(Bandwidth {
        gigabytes_per_second: rate(bytes, times),
        bytes: bytes as u64,
        samples: SAMPLES,
        method: format!("{} MiB read by {threads} cores, median of {SAMPLES}", bytes >> 20),
    })
}

/// Eight sums, so that no addition waits for the one before it.
fn sum(part: &[u64]) -> u64 {
    let mut sums = [0_u64; 8];
    let (eights, rest) = part.as_chunks::<8>();
    for eight in eights {
        for (sum, value) in sums.iter_mut().zip(eight) {
            *sum = sum.wrapping_add(*value);
        }
    }
    sums.iter().chain(rest).fold(0, |sum, value| sum.wrapping_add(*value))
}

/// GB a second by the median, to one decimal.
fn rate(bytes: usize, mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    let median = times[times.len() / 2].as_secs_f64();
    (bytes as f64 / median / 1e8).round() / 10.0
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_the_matrix() {
        assert_eq!(side(BYTES), 16_384);
        assert_eq!(2 * side(BYTES) * side(BYTES), 536_870_912);
    }

    #[test]
    fn every_word_is_read_and_the_median_counts() {
        assert_eq!(sum(&(0..1003).collect::<Vec<u64>>()), 1003 * 1002 / 2);
        let times = [9, 1, 2, 3].map(Duration::from_millis).to_vec();
        assert_eq!(rate(6_000_000, times), 2.0, "the upper middle of four: 3 ms");
    }

    #[test]
    fn cancelled_between_readings() {
        let mut left = 2;
        let mut more = || {
            left -= 1;
            left >= 0
        };
        assert_eq!(cores(1 << 20, &mut more), None);
        let measured = cores(1 << 20, &mut || true).unwrap();
        assert!(measured.gigabytes_per_second > 0.0 && measured.samples == 10);
    }
}
