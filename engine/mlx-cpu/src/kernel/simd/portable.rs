//! Plain arrays, for any machine.

use super::{Simd, from_bf16, from_f16};
use std::array::from_fn;

#[derive(Clone, Copy)]
pub(crate) struct Portable;

// Every machine can run this; pointers are the caller's promise, as in the trait.
impl Simd for Portable {
    type F = [f32; 8];
    type Raw = [u32; 8];
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn zero() -> Self::F {
        [0.0; 8]
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::F {
        p.cast::<Self::F>().read_unaligned()
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::F) {
        p.cast::<Self::F>().write_unaligned(v);
    }
    #[inline(always)]
    unsafe fn splat(v: f32) -> Self::F {
        [v; 8]
    }
    #[inline(always)]
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // Rounded twice: a call into libm for each would cost more than the rest together.
        from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn sum(v: Self::F) -> f32 {
        let w: [f32; 4] = from_fn(|i| v[i] + v[i + 4]);
        (w[0] + w[1]) + (w[2] + w[3])
    }
    #[inline(always)]
    unsafe fn sum4(v: [Self::F; 4]) -> [f32; 4] {
        v.map(|v| Self::sum(v))
    }
    #[inline(always)]
    unsafe fn half(p: *const u16) -> Self::F {
        p.cast::<[u16; 8]>().read_unaligned().map(from_f16)
    }
    #[inline(always)]
    unsafe fn bhalf(p: *const u16) -> Self::F {
        p.cast::<[u16; 8]>().read_unaligned().map(from_bf16)
    }
    #[inline(always)]
    unsafe fn bhalf_pairs(p: *const u16) -> [Self::F; 2] {
        let words = p.cast::<[u32; 8]>().read_unaligned();
        [
            words.map(|w| f32::from_bits(w << 16)),
            words.map(|w| f32::from_bits(w & 0xffff_0000)),
        ]
    }
    #[inline(always)]
    unsafe fn raw(p: *const u8) -> Self::Raw {
        p.cast::<Self::Raw>().read_unaligned()
    }
    #[inline(always)]
    unsafe fn field<const BITS: usize>(raw: Self::Raw, i: usize) -> Self::F {
        if (i + 1) * BITS == 32 {
            raw.map(|w| (w >> (32 - BITS)) as f32)
        } else {
            raw.map(|w| (w & (((1 << BITS) - 1) << (i * BITS))) as f32)
        }
    }
    #[inline(always)]
    unsafe fn spread(p: *const f32, run: usize, c: usize) -> Self::F {
        from_fn(|i| *p.add((c * 8 + i) / run))
    }
}
