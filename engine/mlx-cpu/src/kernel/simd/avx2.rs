//! AVX2 with FMA and F16C; and the same with the thirty-two registers of AVX-512VL.

use super::Simd;
use std::arch::x86_64::*;

macro_rules! eight {
    ($name:ident, $wide:literal) => {
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl Simd for $name {
            type F = __m256;
            type Raw = __m256i;
            const WIDE: bool = $wide;

            #[inline(always)]
            unsafe fn zero() -> __m256 {
                _mm256_setzero_ps()
            }
            #[inline(always)]
            unsafe fn load(p: *const f32) -> __m256 {
                _mm256_loadu_ps(p)
            }
            #[inline(always)]
            unsafe fn store(p: *mut f32, v: __m256) {
                _mm256_storeu_ps(p, v);
            }
            #[inline(always)]
            unsafe fn splat(v: f32) -> __m256 {
                _mm256_set1_ps(v)
            }
            #[inline(always)]
            unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
                _mm256_fmadd_ps(a, b, c)
            }
            #[inline(always)]
            unsafe fn sum(v: __m256) -> f32 {
                let v = half_sum(v);
                let v = _mm_hadd_ps(v, v);
                _mm_cvtss_f32(_mm_hadd_ps(v, v))
            }
            #[inline(always)]
            unsafe fn sum4(v: [__m256; 4]) -> [f32; 4] {
                let w = [half_sum(v[0]), half_sum(v[1]), half_sum(v[2]), half_sum(v[3])];
                let w = _mm_hadd_ps(_mm_hadd_ps(w[0], w[1]), _mm_hadd_ps(w[2], w[3]));
                let mut out = [0.0; 4];
                _mm_storeu_ps(out.as_mut_ptr(), w);
                out
            }
            #[inline(always)]
            unsafe fn half(p: *const u16) -> __m256 {
                _mm256_cvtph_ps(_mm_loadu_si128(p.cast()))
            }
            #[inline(always)]
            unsafe fn bhalf(p: *const u16) -> __m256 {
                _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast())), 16))
            }
            #[inline(always)]
            unsafe fn bhalf_pairs(p: *const u16) -> [__m256; 2] {
                let words = _mm256_loadu_si256(p.cast());
                let high = _mm256_and_si256(words, _mm256_set1_epi32(0xffff_0000_u32 as i32));
                [_mm256_castsi256_ps(_mm256_slli_epi32(words, 16)), _mm256_castsi256_ps(high)]
            }
            #[inline(always)]
            unsafe fn raw(p: *const u8) -> __m256i {
                _mm256_loadu_si256(p.cast())
            }
            #[inline(always)]
            unsafe fn field<const BITS: usize>(raw: __m256i, i: usize) -> __m256 {
                _mm256_cvtepi32_ps(if (i + 1) * BITS == 32 {
                    _mm256_srl_epi32(raw, _mm_cvtsi32_si128(32 - BITS as i32))
                } else {
                    _mm256_and_si256(raw, _mm256_set1_epi32(((1 << BITS) - 1) << (i * BITS)))
                })
            }
            #[inline(always)]
            unsafe fn spread(p: *const f32, run: usize, c: usize) -> __m256 {
                match run {
                    1 => _mm256_loadu_ps(p.add(c * 8)),
                    2 => {
                        let four = _mm_loadu_ps(p.add(c * 4));
                        _mm256_permutevar_ps(_mm256_set_m128(four, four), _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3))
                    }
                    4 => {
                        let pair = _mm256_castpd_ps(_mm256_set1_pd(p.add(c * 2).cast::<f64>().read_unaligned()));
                        _mm256_permutevar_ps(pair, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1))
                    }
                    _ => _mm256_set1_ps(*p.add(c * 8 / run)),
                }
            }
            #[inline(always)]
            unsafe fn soon(p: *const u8) {
                _mm_prefetch::<_MM_HINT_T0>(p.cast());
            }
        }
    };
}
eight!(Avx2, false);
eight!(Avx512, true);

#[inline(always)]
unsafe fn half_sum(v: __m256) -> __m128 {
    _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1))
}
