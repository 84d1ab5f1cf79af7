//! The three float types of checkpoints, as little-endian bytes and as f32.

use half::{bf16, f16, slice::HalfFloatSliceExt};

/// A float type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Float {
    F32,
    F16,
    BF16,
}

impl Float {
    /// By its name in a safetensors header.
    pub(super) fn stored(name: &str) -> Option<Self> {
        match name {
            "F32" => Some(Self::F32),
            "F16" => Some(Self::F16),
            "BF16" => Some(Self::BF16),
            _ => None,
        }
    }

    /// By its name in `config.json`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "float32" => Some(Self::F32),
            "float16" => Some(Self::F16),
            "bfloat16" => Some(Self::BF16),
            _ => None,
        }
    }

    pub(super) fn header(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
        }
    }

    pub(super) fn width(self) -> usize {
        if self == Self::F32 { 4 } else { 2 }
    }

    /// Appends the values of `bytes`.
    pub(super) fn widen(self, bytes: &[u8], out: &mut Vec<f32>) {
        let pairs = || bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        match self {
            Self::F32 => out.extend(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
            Self::F16 => {
                let halves: Vec<f16> = pairs().map(f16::from_bits).collect();
                let start = out.len();
                out.resize(start + halves.len(), 0.0);
                halves.convert_to_f32_slice(&mut out[start..]);
            }
            Self::BF16 => out.extend(pairs().map(|bits| f32::from_bits(u32::from(bits) << 16))),
        }
    }

    /// Appends `values`, rounded to the nearest.
    pub(super) fn narrow(self, values: &[f32], out: &mut Vec<u8>) {
        match self {
            Self::F32 => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::F16 => out.extend(values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes())),
            Self::BF16 => out.extend(values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes())),
        }
    }

    /// Rounds in place.
    pub(super) fn round(self, values: &mut [f32]) {
        match self {
            Self::F32 => {}
            Self::F16 => values.iter_mut().for_each(|value| *value = f16::from_f32(*value).to_f32()),
            Self::BF16 => values.iter_mut().for_each(|value| *value = bf16::from_f32(*value).to_f32()),
        }
    }
}
