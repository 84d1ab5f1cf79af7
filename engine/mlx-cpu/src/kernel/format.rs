//! How stored weights become vectors of f32.

use super::simd::Simd;

/// A row of weights, chunk by chunk. A chunk is `chunk / LANES` vectors in the order of [`Format::place`].
pub(crate) trait Format {
    /// Weights that share a scale; 0 without scales.
    const GROUP: usize;
    type Raw<V: Simd>: Copy;

    /// Weights in a chunk.
    fn chunk<V: Simd>() -> usize;
    /// Bytes of a chunk.
    fn bytes<V: Simd>() -> usize;
    /// Which weight of a chunk is in lane `i % LANES` of vector `i / LANES`.
    fn place<V: Simd>(i: usize) -> usize;
    /// What undoes the power of two in vector `i`.
    fn factor(_i: usize) -> f32 {
        1.0
    }
    /// # Safety
    /// As [`Simd`]; `p` holds a chunk.
    unsafe fn raw<V: Simd>(p: *const u8) -> Self::Raw<V>;
    /// Vector `i` of the chunk: weights, or fields yet without scale and bias.
    ///
    /// # Safety
    /// As [`Simd`].
    unsafe fn vector<V: Simd>(raw: Self::Raw<V>, i: usize) -> V::F;
    /// The scale of each lane in chunk `c`.
    ///
    /// # Safety
    /// As [`Simd`]; `scales` holds those of the chunk.
    unsafe fn scale<V: Simd>(_scales: *const f32, _c: usize) -> V::F {
        V::zero()
    }
}

/// MLX's affine quantization in fields of 2, 4 or 8 bits. A chunk is eight words; vector `i` holds field `i` of each.
pub(crate) struct Affine<const BITS: usize, const GROUP: usize>;

impl<const BITS: usize, const GROUP: usize> Format for Affine<BITS, GROUP> {
    const GROUP: usize = GROUP;
    type Raw<V: Simd> = V::Raw;
    #[inline(always)]
    fn chunk<V: Simd>() -> usize {
        256 / BITS
    }
    #[inline(always)]
    fn bytes<V: Simd>() -> usize {
        32
    }
    #[inline(always)]
    fn place<V: Simd>(i: usize) -> usize {
        i % 8 * (32 / BITS) + i / 8
    }
    #[inline(always)]
    fn factor(i: usize) -> f32 {
        if (i + 1) * BITS == 32 {
            1.0
        } else {
            f32::from_bits((127 - (i * BITS) as u32) << 23)
        }
    }
    #[inline(always)]
    unsafe fn raw<V: Simd>(p: *const u8) -> V::Raw {
        V::raw(p)
    }
    #[inline(always)]
    unsafe fn vector<V: Simd>(raw: V::Raw, i: usize) -> V::F {
        V::field::<BITS>(raw, i)
    }
    #[inline(always)]
    unsafe fn scale<V: Simd>(scales: *const f32, c: usize) -> V::F {
        V::spread(scales, GROUP * BITS / 32, c)
    }
}

pub(crate) struct Bf16;

impl Format for Bf16 {
    const GROUP: usize = 0;
    type Raw<V: Simd> = [V::F; 2];
    #[inline(always)]
    fn chunk<V: Simd>() -> usize {
        2 * V::LANES
    }
    #[inline(always)]
    fn bytes<V: Simd>() -> usize {
        4 * V::LANES
    }
    #[inline(always)]
    fn place<V: Simd>(i: usize) -> usize {
        i % V::LANES * 2 + i / V::LANES
    }
    #[inline(always)]
    unsafe fn raw<V: Simd>(p: *const u8) -> [V::F; 2] {
        V::bhalf_pairs(p.cast())
    }
    #[inline(always)]
    unsafe fn vector<V: Simd>(raw: [V::F; 2], i: usize) -> V::F {
        raw[i]
    }
}

macro_rules! plain {
    ($name:ident, $bytes:literal, $load:ident) => {
        pub(crate) struct $name;

        impl Format for $name {
            const GROUP: usize = 0;
            type Raw<V: Simd> = V::F;
            #[inline(always)]
            fn chunk<V: Simd>() -> usize {
                V::LANES
            }
            #[inline(always)]
            fn bytes<V: Simd>() -> usize {
                $bytes * V::LANES
            }
            #[inline(always)]
            fn place<V: Simd>(i: usize) -> usize {
                i
            }
            #[inline(always)]
            unsafe fn raw<V: Simd>(p: *const u8) -> V::F {
                V::$load(p.cast())
            }
            #[inline(always)]
            unsafe fn vector<V: Simd>(raw: V::F, _: usize) -> V::F {
                raw
            }
        }
    };
}
plain!(F16, 2, half);
plain!(F32, 4, load);
