//! Whole numbers: quantized weights as bytes against activations of sixteen bits, summed exactly.
//!
//! A *run* is 32 neighbouring weights of a row. In a *block* of eight runs each run has a lane to itself, so that its products pile up in
//! that lane and meet their scale once; what is left of a row comes in *chunks* of eight words, a word to a lane. Either way the weights
//! are *parts*: vectors of four bytes a lane.

use super::Simd;
use std::array::from_fn;

/// Integer products of one instruction set; every function needs it, as in [`Simd`]. Weights come as *twins*, two rows at once: where
/// there are vectors of sixteen lanes, each row fills a half.
pub(crate) trait Whole: Simd {
    /// Parts of two rows.
    type Part: Copy;
    /// The activations of a part.
    type X: Copy;
    /// Sums of products of two rows, one a lane.
    type Sum: Copy;
    /// Floats of two rows.
    type Twin: Copy;

    unsafe fn none() -> Self::Sum;
    /// The 256 weights of each row, `32 * BITS` bytes: lane `l` holds run `run(BITS, l)`, part `i` what [`weight`] says of it.
    unsafe fn block<const BITS: usize>(rows: [*const u8; 2]) -> [Self::Part; 8];
    /// Part `i` of eight words of each row, for `i` below `8 / BITS`.
    unsafe fn chunk<const BITS: usize>(rows: [*const u8; 2], i: usize) -> Self::Part;
    /// 64 bytes that [`Whole::planes`] filled, eight pairs, first halves first.
    unsafe fn x(p: *const u8) -> Self::X;
    /// `sum + w · x` in each lane.
    unsafe fn dot(sum: Self::Sum, w: Self::Part, x: Self::X) -> Self::Sum;
    /// `sum * scale * x_scale + acc`, the scales multiplied first; the eight floats at `x_scale` are for both rows.
    unsafe fn scaled(sum: Self::Sum, scale: Self::Twin, x_scale: *const f32, acc: Self::Twin) -> Self::Twin;
    /// `bias * sum + acc`; the eight floats at `sum` are for both rows.
    unsafe fn lifted(bias: Self::Twin, sum: *const f32, acc: Self::Twin) -> Self::Twin;
    unsafe fn twin(rows: [Self::F; 2]) -> Self::Twin;
    unsafe fn rows(twin: Self::Twin) -> [Self::F; 2];
    /// Eight values in the order of the runs, put in the order of the lanes of a block.
    unsafe fn order<const BITS: usize>(v: Self::Twin) -> Self::Twin;
    /// The activations of the four bytes of a lane, as this set wants them. They are within ±32639.
    fn planes(x: [i32; 4]) -> [u32; 2];
}

/// Weights in a run.
pub(crate) const RUN: usize = 32;

/// Weights in a block.
pub(crate) const BLOCK: usize = 8 * RUN;

/// The run in lane `lane` of a block: what the cheapest shuffles make of it.
pub(crate) const fn run(bits: usize, lane: usize) -> usize {
    match bits {
        2 => [0, 1, 4, 5, 2, 3, 6, 7][lane],
        4 => [0, 2, 4, 6, 1, 3, 5, 7][lane],
        _ => lane,
    }
}

/// The weight of a run in byte `byte` of its lane in part `i` of a block.
pub(crate) const fn weight(bits: usize, i: usize, byte: usize) -> usize {
    let fields = 8 / bits;
    i / fields * 4 * fields + byte * fields + i % fields
}

/// The high and the low byte of each: `256 * high + low`.
#[inline(always)]
pub(crate) fn bytes(x: [i32; 4]) -> [u32; 2] {
    let high = x.map(|x| (x + 128) >> 8);
    let pack = |b: [i32; 4]| u32::from_le_bytes(b.map(|b| b as u8));
    [pack(high), pack([0, 1, 2, 3].map(|i| x[i] - (high[i] << 8)))]
}

/// The even and the odd ones, as pairs of sixteen bits.
#[inline(always)]
pub(crate) fn pairs(x: [i32; 4]) -> [u32; 2] {
    let pair = |a: i32, b: i32| u32::from(a as u16) | u32::from(b as u16) << 16;
    [pair(x[0], x[2]), pair(x[1], x[3])]
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Whole, bytes, pairs, run};
    use crate::kernel::simd::avx2::{Avx2, Avx512};
    use std::arch::x86_64::*;

    /// In each half: word `i` of vector `j` becomes word `j` of vector `i`.
    #[inline(always)]
    unsafe fn turn(v: [__m256i; 4]) -> [__m256i; 4] {
        let (a, b) = (_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpackhi_epi32(v[0], v[1]));
        let (c, d) = (_mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[2], v[3]));
        [
            _mm256_unpacklo_epi64(a, c),
            _mm256_unpackhi_epi64(a, c),
            _mm256_unpacklo_epi64(b, d),
            _mm256_unpackhi_epi64(b, d),
        ]
    }

    /// Field `i` of each byte.
    #[inline(always)]
    unsafe fn field<const BITS: usize>(words: __m256i, i: usize) -> __m256i {
        let mask = _mm256_set1_epi8((0xff >> (8 - BITS)) as u8 as i8);
        match (BITS, i) {
            (8, _) => words,
            (_, 0) => _mm256_and_si256(words, mask),
            _ => _mm256_and_si256(_mm256_srl_epi16(words, _mm_cvtsi32_si128((i * BITS) as i32)), mask),
        }
    }

    #[inline(always)]
    unsafe fn block<const BITS: usize>(p: *const u8) -> [__m256i; 8] {
        let mut parts = [_mm256_setzero_si256(); 8];
        match BITS {
            2 => {
                let (a, b) = (_mm256_castsi256_ps(load(p)), _mm256_castsi256_ps(load(p.add(32))));
                let words = [_mm256_shuffle_ps::<0x88>(a, b), _mm256_shuffle_ps::<0xdd>(a, b)];
                for i in 0..8 {
                    parts[i] = field::<BITS>(_mm256_castps_si256(words[i / 4]), i % 4);
                }
            }
            4 => {
                let words = turn([load(p), load(p.add(32)), load(p.add(64)), load(p.add(96))]);
                for i in 0..8 {
                    parts[i] = field::<BITS>(words[i / 2], i % 2);
                }
            }
            _ => {
                let low = turn([two(p, 0, 128), two(p, 32, 160), two(p, 64, 192), two(p, 96, 224)]);
                let high = turn([two(p, 16, 144), two(p, 48, 176), two(p, 80, 208), two(p, 112, 240)]);
                for i in 0..4 {
                    (parts[i], parts[4 + i]) = (low[i], high[i]);
                }
            }
        }
        parts
    }

    #[inline(always)]
    unsafe fn load(p: *const u8) -> __m256i {
        _mm256_loadu_si256(p.cast())
    }

    /// Sixteen bytes from each place.
    #[inline(always)]
    unsafe fn two(p: *const u8, low: usize, high: usize) -> __m256i {
        _mm256_inserti128_si256::<1>(
            _mm256_castsi128_si256(_mm_loadu_si128(p.add(low).cast())),
            _mm_loadu_si128(p.add(high).cast()),
        )
    }

    /// For the lanes of a block: the run of each.
    #[inline(always)]
    unsafe fn lanes<const BITS: usize>() -> __m256i {
        let lane = |l: usize| run(BITS, l) as i32;
        _mm256_setr_epi32(lane(0), lane(1), lane(2), lane(3), lane(4), lane(5), lane(6), lane(7))
    }

    macro_rules! shared {
        () => {
            type Part = [__m256i; 2];
            type X = [__m256i; 2];
            type Twin = [__m256; 2];

            #[inline(always)]
            unsafe fn block<const BITS: usize>(rows: [*const u8; 2]) -> [[__m256i; 2]; 8] {
                let (a, b) = (block::<BITS>(rows[0]), block::<BITS>(rows[1]));
                [0, 1, 2, 3, 4, 5, 6, 7].map(|i| [a[i], b[i]])
            }
            #[inline(always)]
            unsafe fn chunk<const BITS: usize>(rows: [*const u8; 2], i: usize) -> [__m256i; 2] {
                [field::<BITS>(load(rows[0]), i), field::<BITS>(load(rows[1]), i)]
            }
            #[inline(always)]
            unsafe fn x(p: *const u8) -> [__m256i; 2] {
                [load(p), load(p.add(32))]
            }
            #[inline(always)]
            unsafe fn scaled(sum: Self::Sum, scale: [__m256; 2], x_scale: *const f32, acc: [__m256; 2]) -> [__m256; 2] {
                let (x_scale, sum) = (_mm256_loadu_ps(x_scale), Self::total(sum));
                let scale = [_mm256_mul_ps(scale[0], x_scale), _mm256_mul_ps(scale[1], x_scale)];
                [
                    _mm256_fmadd_ps(sum[0], scale[0], acc[0]),
                    _mm256_fmadd_ps(sum[1], scale[1], acc[1]),
                ]
            }
            #[inline(always)]
            unsafe fn lifted(bias: [__m256; 2], sum: *const f32, acc: [__m256; 2]) -> [__m256; 2] {
                let sum = _mm256_loadu_ps(sum);
                [_mm256_fmadd_ps(bias[0], sum, acc[0]), _mm256_fmadd_ps(bias[1], sum, acc[1])]
            }
            #[inline(always)]
            unsafe fn twin(rows: [__m256; 2]) -> [__m256; 2] {
                rows
            }
            #[inline(always)]
            unsafe fn rows(twin: [__m256; 2]) -> [__m256; 2] {
                twin
            }
            #[inline(always)]
            unsafe fn order<const BITS: usize>(v: [__m256; 2]) -> [__m256; 2] {
                if BITS == 8 {
                    return v;
                }
                let lanes = lanes::<BITS>();
                [_mm256_permutevar8x32_ps(v[0], lanes), _mm256_permutevar8x32_ps(v[1], lanes)]
            }
        };
    }

    impl Avx512 {
        #[inline(always)]
        unsafe fn total(sum: [[__m256i; 2]; 2]) -> [__m256; 2] {
            let [a, b] = sum;
            [
                _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_slli_epi32::<8>(a[0]), a[1])),
                _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_slli_epi32::<8>(b[0]), b[1])),
            ]
        }
    }

    impl Avx2 {
        #[inline(always)]
        unsafe fn total(sum: [__m256i; 2]) -> [__m256; 2] {
            [_mm256_cvtepi32_ps(sum[0]), _mm256_cvtepi32_ps(sum[1])]
        }
    }

    impl Whole for Avx512 {
        shared!();
        /// Of high bytes and of low ones, for each row.
        type Sum = [[__m256i; 2]; 2];

        #[inline(always)]
        unsafe fn none() -> Self::Sum {
            [[_mm256_setzero_si256(); 2]; 2]
        }
        #[inline(always)]
        unsafe fn dot(sum: Self::Sum, w: [__m256i; 2], x: [__m256i; 2]) -> Self::Sum {
            [
                [
                    _mm256_dpbusd_epi32(sum[0][0], w[0], x[0]),
                    _mm256_dpbusd_epi32(sum[0][1], w[0], x[1]),
                ],
                [
                    _mm256_dpbusd_epi32(sum[1][0], w[1], x[0]),
                    _mm256_dpbusd_epi32(sum[1][1], w[1], x[1]),
                ],
            ]
        }
        #[inline(always)]
        fn planes(x: [i32; 4]) -> [u32; 2] {
            bytes(x)
        }
    }

    impl Whole for Avx2 {
        shared!();
        type Sum = [__m256i; 2];

        #[inline(always)]
        unsafe fn none() -> [__m256i; 2] {
            [_mm256_setzero_si256(); 2]
        }
        #[inline(always)]
        unsafe fn dot(sum: [__m256i; 2], w: [__m256i; 2], x: [__m256i; 2]) -> [__m256i; 2] {
            let low = _mm256_set1_epi16(255);
            let of = [
                [_mm256_and_si256(w[0], low), _mm256_srli_epi16::<8>(w[0])],
                [_mm256_and_si256(w[1], low), _mm256_srli_epi16::<8>(w[1])],
            ];
            [
                _mm256_add_epi32(
                    _mm256_add_epi32(sum[0], _mm256_madd_epi16(of[0][0], x[0])),
                    _mm256_madd_epi16(of[0][1], x[1]),
                ),
                _mm256_add_epi32(
                    _mm256_add_epi32(sum[1], _mm256_madd_epi16(of[1][0], x[0])),
                    _mm256_madd_epi16(of[1][1], x[1]),
                ),
            ]
        }
        #[inline(always)]
        fn planes(x: [i32; 4]) -> [u32; 2] {
            pairs(x)
        }
    }
}

impl Whole for super::portable::Portable {
    type Part = [[u32; 8]; 2];
    type X = [[u32; 8]; 2];
    type Sum = [[i32; 8]; 2];
    type Twin = [[f32; 8]; 2];

    #[inline(always)]
    unsafe fn none() -> [[i32; 8]; 2] {
        [[0; 8]; 2]
    }
    #[inline(always)]
    unsafe fn block<const BITS: usize>(rows: [*const u8; 2]) -> [[[u32; 8]; 2]; 8] {
        from_fn(|i| {
            rows.map(|row| {
                let word = |l: usize| row.cast::<u32>().add(run(BITS, l) * BITS + i * BITS / 8).read_unaligned();
                from_fn(|l| field::<BITS>(word(l), i % (8 / BITS)))
            })
        })
    }
    #[inline(always)]
    unsafe fn chunk<const BITS: usize>(rows: [*const u8; 2], i: usize) -> [[u32; 8]; 2] {
        rows.map(|row| row.cast::<[u32; 8]>().read_unaligned().map(|word| field::<BITS>(word, i)))
    }
    #[inline(always)]
    unsafe fn x(p: *const u8) -> [[u32; 8]; 2] {
        p.cast::<[[u32; 8]; 2]>().read_unaligned()
    }
    #[inline(always)]
    unsafe fn dot(sum: [[i32; 8]; 2], w: [[u32; 8]; 2], x: [[u32; 8]; 2]) -> [[i32; 8]; 2] {
        let low = |x: u32| i32::from(x as u16 as i16);
        let high = |x: u32| x as i32 >> 16;
        from_fn(|r| {
            from_fn(|l| {
                let byte = |i: u32| (w[r][l] >> (8 * i) & 255) as i32;
                sum[r][l] + byte(0) * low(x[0][l]) + byte(2) * high(x[0][l]) + byte(1) * low(x[1][l]) + byte(3) * high(x[1][l])
            })
        })
    }
    #[inline(always)]
    unsafe fn scaled(sum: [[i32; 8]; 2], scale: [[f32; 8]; 2], x_scale: *const f32, acc: [[f32; 8]; 2]) -> [[f32; 8]; 2] {
        let x_scale = Self::load(x_scale);
        from_fn(|r| from_fn(|l| sum[r][l] as f32 * (scale[r][l] * x_scale[l]) + acc[r][l]))
    }
    #[inline(always)]
    unsafe fn lifted(bias: [[f32; 8]; 2], sum: *const f32, acc: [[f32; 8]; 2]) -> [[f32; 8]; 2] {
        let sum = Self::load(sum);
        from_fn(|r| Self::fma(bias[r], sum, acc[r]))
    }
    #[inline(always)]
    unsafe fn twin(rows: [[f32; 8]; 2]) -> [[f32; 8]; 2] {
        rows
    }
    #[inline(always)]
    unsafe fn rows(twin: [[f32; 8]; 2]) -> [[f32; 8]; 2] {
        twin
    }
    #[inline(always)]
    unsafe fn order<const BITS: usize>(v: [[f32; 8]; 2]) -> [[f32; 8]; 2] {
        v.map(|v| from_fn(|l| v[run(BITS, l)]))
    }
    #[inline(always)]
    fn planes(x: [i32; 4]) -> [u32; 2] {
        pairs(x)
    }
}

/// Field `i` of each byte of a word.
#[inline(always)]
fn field<const BITS: usize>(word: u32, i: usize) -> u32 {
    word >> (i * BITS) & (0x0101_0101 * (255 >> (8 - BITS)))
}
