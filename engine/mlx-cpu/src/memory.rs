//! Weights on huge pages.
#![allow(unsafe_code)]

use crate::{Backend, Result, backend};
use mlx_rs::{Array, transforms::eval};

/// A huge page on x86-64 and on arm64 with pages of 4 KiB.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 << 20;

/// Puts evaluated weights on huge pages, and returns the bytes that are on them. Call it once, after loading.
///
/// A product reads every weight once, so on ordinary pages it also walks the page tables of them all: on a virtual machine that costs
/// a fifth of the decoding speed. Only Linux (6.1 and later) does this on request; elsewhere, on a GPU, and where the system refuses,
/// nothing happens. The arrays stay where they are and other threads may read them meanwhile.
pub fn settle<'a>(weights: impl IntoIterator<Item = &'a Array>) -> Result<usize> {
    let weights: Vec<&Array> = weights.into_iter().collect();
    eval(weights.iter().copied())?;
    if backend() == Backend::Cpu { Ok(collapse(&weights)) } else { Ok(0) }
}

#[cfg(target_os = "linux")]
fn collapse(weights: &[&Array]) -> usize {
    /// Newer than some C libraries' headers.
    const MADV_COLLAPSE: libc::c_int = 25;
    let mut spans: Vec<(usize, usize)> = weights
        .iter()
        .map(|a| {
            // SAFETY: only the address is used; the array is evaluated, so it has one.
            let start = unsafe { mlx_sys::mlx_array_data_uint8(a.as_ptr()) } as usize;
            (start, start + a.nbytes())
        })
        .filter(|(start, end)| *start != 0 && end > start)
        .collect();
    spans.sort_unstable();
    // How much of each huge page the weights fill.
    let mut pages: Vec<(usize, usize)> = Vec::new();
    for (start, end) in spans {
        for page in start / HUGE..=(end - 1) / HUGE {
            let filled = end.min((page + 1) * HUGE) - start.max(page * HUGE);
            match pages.last_mut() {
                Some((last, sum)) if *last == page => *sum += filled,
                _ => pages.push((page, filled)),
            }
        }
    }
    let mut bytes = 0;
    for (page, filled) in pages {
        // A page that is mostly something else is not worth its memory.
        if filled * 2 >= HUGE {
            // SAFETY: changes how the pages are backed, never what they hold; an address that is not ours to change is an error.
            if unsafe { libc::madvise((page * HUGE) as *mut libc::c_void, HUGE, MADV_COLLAPSE) } == 0 {
                bytes += filled.min(HUGE);
            }
        }
    }
    bytes
}

#[cfg(not(target_os = "linux"))]
fn collapse(_: &[&Array]) -> usize {
    0
}
