//! NEON: pairs of four lanes, as eight.

use super::Simd;
use std::arch::{aarch64::*, asm};

#[derive(Clone, Copy)]
pub(crate) struct Neon;

impl Simd for Neon {
    type F = [float32x4_t; 2];
    type Raw = [uint32x4_t; 2];
    // Thirty-two registers, but of half a vector each.
    const WIDE: bool = false;

    #[inline(always)]
    unsafe fn zero() -> Self::F {
        [vdupq_n_f32(0.0); 2]
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self::F {
        [vld1q_f32(p), vld1q_f32(p.add(4))]
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: Self::F) {
        vst1q_f32(p, v[0]);
        vst1q_f32(p.add(4), v[1]);
    }
    #[inline(always)]
    unsafe fn splat(v: f32) -> Self::F {
        [vdupq_n_f32(v); 2]
    }
    #[inline(always)]
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        [vfmaq_f32(c[0], a[0], b[0]), vfmaq_f32(c[1], a[1], b[1])]
    }
    #[inline(always)]
    unsafe fn sum(v: Self::F) -> f32 {
        let v = vaddq_f32(v[0], v[1]);
        let v = vpaddq_f32(v, v);
        vgetq_lane_f32(vpaddq_f32(v, v), 0)
    }
    #[inline(always)]
    unsafe fn sum4(v: [Self::F; 4]) -> [f32; 4] {
        let w = v.map(|v| vaddq_f32(v[0], v[1]));
        let w = vpaddq_f32(vpaddq_f32(w[0], w[1]), vpaddq_f32(w[2], w[3]));
        let mut out = [0.0; 4];
        vst1q_f32(out.as_mut_ptr(), w);
        out
    }
    #[inline(always)]
    unsafe fn half(p: *const u16) -> Self::F {
        let halves = vld1q_u16(p);
        let (low, high): (float32x4_t, float32x4_t);
        // The base instruction set converts f16; the intrinsics for it are not stable.
        asm!("fcvtl {0:v}.4s, {2:v}.4h", "fcvtl2 {1:v}.4s, {2:v}.8h", out(vreg) low, lateout(vreg) high, in(vreg) halves, options(pure, nomem, nostack));
        [low, high]
    }
    #[inline(always)]
    unsafe fn bhalf(p: *const u16) -> Self::F {
        let halves = vld1q_u16(p);
        [
            vreinterpretq_f32_u32(vshll_n_u16::<16>(vget_low_u16(halves))),
            vreinterpretq_f32_u32(vshll_high_n_u16::<16>(halves)),
        ]
    }
    #[inline(always)]
    unsafe fn bhalf_pairs(p: *const u16) -> [Self::F; 2] {
        let words = [vld1q_u32(p.cast()), vld1q_u32(p.cast::<u32>().add(4))];
        let mask = vdupq_n_u32(0xffff_0000);
        [
            words.map(|w| vreinterpretq_f32_u32(vshlq_n_u32::<16>(w))),
            words.map(|w| vreinterpretq_f32_u32(vandq_u32(w, mask))),
        ]
    }
    #[inline(always)]
    unsafe fn raw(p: *const u8) -> Self::Raw {
        [vld1q_u32(p.cast()), vld1q_u32(p.cast::<u32>().add(4))]
    }
    #[inline(always)]
    unsafe fn field<const BITS: usize>(raw: Self::Raw, i: usize) -> Self::F {
        if (i + 1) * BITS == 32 {
            let shift = vdupq_n_s32(BITS as i32 - 32);
            raw.map(|w| vcvtq_f32_u32(vshlq_u32(w, shift)))
        } else {
            let mask = vdupq_n_u32(((1 << BITS) - 1) << (i * BITS));
            raw.map(|w| vcvtq_f32_u32(vandq_u32(w, mask)))
        }
    }
    #[inline(always)]
    unsafe fn spread(p: *const f32, run: usize, c: usize) -> Self::F {
        if run >= 4 {
            [vdupq_n_f32(*p.add(c * 8 / run)), vdupq_n_f32(*p.add((c * 8 + 4) / run))]
        } else {
            let pair = |i: usize| vcombine_f32(vdup_n_f32(*p.add(c * 4 + i)), vdup_n_f32(*p.add(c * 4 + i + 1)));
            [pair(0), pair(2)]
        }
    }
}
