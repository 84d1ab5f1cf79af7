//! Vectors of one instruction set. The kernels are written once over [`Simd`].
//!
//! Every set has eight lanes and takes sums in the same order, so those that fuse multiply and add agree to the bit.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(crate) mod portable;
#[cfg(not(target_arch = "aarch64"))]
pub(crate) mod whole;

use std::sync::OnceLock;

/// Vectors of f32 and how quantized words become them.
///
/// # Safety
/// Every function needs the instruction set of the implementor; pointers must be readable (writable for `store`) for the lanes or
/// bytes that the function names. [`Isa::detect`] picks a set that this machine has, and the `dispatch!` macro enables its features.
pub(crate) trait Simd: Copy {
    type F: Copy;
    /// Eight words of quantized fields.
    type Raw: Copy;

    /// f32 in a vector.
    const LANES: usize = 8;
    /// There are 32 registers, not 16.
    const WIDE: bool;

    unsafe fn zero() -> Self::F;
    unsafe fn load(p: *const f32) -> Self::F;
    unsafe fn store(p: *mut f32, v: Self::F);
    unsafe fn splat(v: f32) -> Self::F;
    /// `a * b + c`
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// All lanes: halves are added until four lanes are left, then `(0 + 1) + (2 + 3)`.
    unsafe fn sum(v: Self::F) -> f32;
    /// [`Simd::sum`] of each, to the bit.
    unsafe fn sum4(v: [Self::F; 4]) -> [f32; 4];
    /// LANES f16.
    unsafe fn half(p: *const u16) -> Self::F;
    /// LANES bf16.
    unsafe fn bhalf(p: *const u16) -> Self::F;
    /// 2 * LANES bf16, as the even and the odd ones.
    unsafe fn bhalf_pairs(p: *const u16) -> [Self::F; 2];

    unsafe fn raw(p: *const u8) -> Self::Raw;
    /// Field `i` of each word as a float, times `2^(BITS * i)` unless it is the last: a mask or a shift, and a conversion.
    unsafe fn field<const BITS: usize>(raw: Self::Raw, i: usize) -> Self::F;
    /// For each of the eight words of chunk `c` of a row, the value of its group, where `run` words share one.
    unsafe fn spread(p: *const f32, run: usize, c: usize) -> Self::F;

    /// Will be read soon, if it exists.
    unsafe fn soon(_p: *const u8) {}
}

/// An instruction set with kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isa {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "aarch64")]
    Neon,
    Portable,
}

impl Isa {
    /// The sets of this machine, best first.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vnni")
            {
                all.push(Self::Avx512);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
                all.push(Self::Avx2);
            }
        }
        #[cfg(target_arch = "aarch64")]
        all.push(Self::Neon);
        all.push(Self::Portable);
        all
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "aarch64")]
            Self::Neon => "neon",
            Self::Portable => "portable",
        }
    }

    /// The set in use: the best one, or the one that `MLX_CPU_ISA` names.
    pub(crate) fn detect() -> Self {
        static FOUND: OnceLock<Isa> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let all = Self::all();
            let named = std::env::var("MLX_CPU_ISA")
                .ok()
                .and_then(|name| all.iter().copied().find(|isa| isa.name() == name));
            named.unwrap_or_else(|| all.first().copied().unwrap_or(Self::Portable))
        })
    }
}

/// Defines a function over `V: Simd` as one that takes an [`Isa`] first and is compiled for each.
macro_rules! dispatch {
    ($(#[$meta:meta])* $vis:vis fn $name:ident[$($generic:ident: $bound:ident),*] $args:tt $body:block) => {
        dispatch! {$(#[$meta])* $vis fn $name<$crate::kernel::simd::Simd>[$($generic: $bound),*] $args $body}
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident<$simd:path>[$($generic:ident: $bound:ident),*]($($arg:ident: $kind:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        $vis unsafe fn $name<$($generic: $bound),*>(isa: $crate::kernel::simd::Isa, $($arg: $kind),*) {
            #[inline(always)]
            unsafe fn inner<V: $simd, $($generic: $bound),*>($($arg: $kind),*) $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
            unsafe fn avx512<$($generic: $bound),*>($($arg: $kind),*) {
                inner::<$crate::kernel::simd::avx2::Avx512, $($generic),*>($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn avx2<$($generic: $bound),*>($($arg: $kind),*) {
                inner::<$crate::kernel::simd::avx2::Avx2, $($generic),*>($($arg),*)
            }
            match isa {
                #[cfg(target_arch = "x86_64")]
                $crate::kernel::simd::Isa::Avx512 => avx512::<$($generic),*>($($arg),*),
                #[cfg(target_arch = "x86_64")]
                $crate::kernel::simd::Isa::Avx2 => avx2::<$($generic),*>($($arg),*),
                #[cfg(target_arch = "aarch64")]
                $crate::kernel::simd::Isa::Neon => inner::<$crate::kernel::simd::neon::Neon, $($generic),*>($($arg),*),
                $crate::kernel::simd::Isa::Portable => inner::<$crate::kernel::simd::portable::Portable, $($generic),*>($($arg),*),
            }
        }
    };
}
pub(crate) use dispatch;

/// A number as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Float {
    F16,
    F32,
    Bf16,
}

impl Float {
    pub(crate) fn size(self) -> usize {
        if self == Self::F32 { 4 } else { 2 }
    }

    /// # Safety
    /// `p` holds more than `i` such numbers.
    #[inline(always)]
    pub(crate) unsafe fn get(self, p: *const u8, i: isize) -> f32 {
        match self {
            Self::F32 => *p.cast::<f32>().offset(i),
            Self::F16 => from_f16(*p.cast::<u16>().offset(i)),
            Self::Bf16 => from_bf16(*p.cast::<u16>().offset(i)),
        }
    }

    /// # Safety
    /// `p` has room for more than `i` such numbers.
    #[inline(always)]
    pub(crate) unsafe fn put(self, p: *mut u8, i: usize, v: f32) {
        match self {
            Self::F32 => *p.cast::<f32>().add(i) = v,
            Self::F16 => *p.cast::<u16>().add(i) = to_f16(v),
            Self::Bf16 => *p.cast::<u16>().add(i) = to_bf16(v),
        }
    }

    /// LANES of them.
    ///
    /// # Safety
    /// As [`Simd`]; `p` holds `i + LANES`.
    #[inline(always)]
    pub(crate) unsafe fn vector<V: Simd>(self, p: *const u8, i: usize) -> V::F {
        match self {
            Self::F32 => V::load(p.cast::<f32>().add(i)),
            Self::F16 => V::half(p.cast::<u16>().add(i)),
            Self::Bf16 => V::bhalf(p.cast::<u16>().add(i)),
        }
    }
}

#[inline(always)]
pub(crate) fn from_bf16(h: u16) -> f32 {
    f32::from_bits((h as u32) << 16)
}

#[inline(always)]
pub(crate) fn to_bf16(v: f32) -> u16 {
    let b = v.to_bits();
    if v.is_nan() {
        return (b >> 16) as u16 | 0x40;
    }
    ((b + 0x7fff + (b >> 16 & 1)) >> 16) as u16
}

#[inline(always)]
pub(crate) fn from_f16(h: u16) -> f32 {
    let (sign, rest) = ((h as u32 & 0x8000) << 16, (h as u32 & 0x7fff) << 13);
    // The exponent is rebiased by a product, which also normalises subnormals.
    let v = if rest >= 0x0f80_0000 {
        f32::from_bits(rest | 0x7f80_0000)
    } else {
        f32::from_bits(rest) * f32::from_bits(0x7780_0000)
    };
    f32::from_bits(v.to_bits() | sign)
}

#[inline(always)]
pub(crate) fn to_f16(v: f32) -> u16 {
    let (b, sign) = (v.to_bits() & 0x7fff_ffff, (v.to_bits() >> 16 & 0x8000) as u16);
    sign | if b > 0x7f80_0000 {
        0x7e00
    } else if b >= 0x477f_f000 {
        0x7c00
    } else if b < 0x3880_0000 {
        ((f32::from_bits(b) + 0.5).to_bits() - 0.5f32.to_bits()) as u16
    } else {
        ((b - 0x3800_0000 + 0xfff + (b >> 13 & 1)) >> 13) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    #[test]
    fn every_half_converts_exactly() {
        for h in 0..=u16::MAX {
            let (a, b) = (from_f16(h), f16::from_bits(h).to_f32());
            assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{h:#x}");
            assert!(a.is_nan() || to_f16(a) == h, "{h:#x}");
            let (a, b) = (from_bf16(h), bf16::from_bits(h).to_f32());
            assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{h:#x}");
            assert!(a.is_nan() || to_bf16(a) == h, "{h:#x}");
        }
    }

    #[test]
    fn halves_round_to_even() {
        for i in 0..2_000_000u32 {
            let v = f32::from_bits(i.wrapping_mul(2_147_001_325));
            if !v.is_nan() {
                assert_eq!(to_f16(v), f16::from_f32(v).to_bits(), "{v}");
                assert_eq!(to_bf16(v), bf16::from_f32(v).to_bits(), "{v}");
            }
        }
    }

    dispatch! {fn sums[](v: &[f32; 64], out: &mut [f32; 4]) {
        let rows = [V::load(v.as_ptr()), V::load(v.as_ptr().add(16)), V::load(v.as_ptr().add(32)), V::load(v.as_ptr().add(48))];
        *out = V::sum4(rows);
        for i in 0..4 {
            assert_eq!(out[i].to_bits(), V::sum(rows[i]).to_bits());
        }
        let mut lanes = [0.0; 16];
        V::store(lanes.as_mut_ptr(), rows[1]);
        let exact: f64 = lanes[..V::LANES].iter().map(|v| *v as f64).sum();
        assert!((out[1] as f64 - exact).abs() < 1e-5);
        let small: Vec<u16> = v.iter().map(|v| to_f16(*v)).collect();
        V::store(lanes.as_mut_ptr(), V::half(small.as_ptr()));
        assert_eq!(lanes[V::LANES - 1], from_f16(small[V::LANES - 1]));
        let small: Vec<u16> = v.iter().map(|v| to_bf16(*v)).collect();
        for (odd, v) in V::bhalf_pairs(small.as_ptr()).into_iter().enumerate() {
            V::store(lanes.as_mut_ptr(), v);
            assert_eq!(lanes[V::LANES - 1], from_bf16(small[2 * V::LANES - 2 + odd]));
        }
    }}

    #[test]
    fn sums_of_four_equal_single_sums() {
        let v = std::array::from_fn(|i| (i as f32 * 0.7).sin());
        for isa in Isa::all() {
            // SAFETY: `all` lists what this machine has.
            unsafe { sums(isa, &v, &mut [0.0; 4]) };
        }
    }
}
