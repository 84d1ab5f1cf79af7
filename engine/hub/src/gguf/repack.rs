//! Blocks of ggml → MLX affine quantization, bit for bit the same weights.
//!
//! MLX stores `w = scale·q + bias` per group of 32 along a row, `q` unsigned and packed low bits first into u32 words:
//! Q4_1 `d·q + m` is that already; Q4_0 `d·(q − 8)` has bias `−8·d`; Q8_0 `d·q` with signed `q` becomes `q + 128` with
//! bias `−128·d`. The factors are powers of two, so the biases are exact in f16 unless they overflow.

use super::DType;
use half::f16;

/// Elements in one quantization group, on both sides.
pub(super) const GROUP: usize = 32;

/// Bits per weight of the MLX side; none for float types, which are copied.
pub(super) fn bits(dtype: DType) -> Option<u32> {
    match dtype {
        DType::Q4_0 | DType::Q4_1 => Some(4),
        DType::Q8_0 => Some(8),
        _ => None,
    }
}

/// Why a block cannot be repacked as asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A bias overflows f16: scales and biases of this tensor must be f32.
    NeedsF32,
    /// A scale is infinite or not a number.
    NotFinite,
}

/// The three MLX buffers for some rows.
#[derive(Default)]
pub(super) struct Packed {
    pub(super) weight: Vec<u8>,
    pub(super) scales: Vec<u8>,
    pub(super) biases: Vec<u8>,
}

impl Packed {
    pub(super) fn clear(&mut self) {
        self.weight.clear();
        self.scales.clear();
        self.biases.clear();
    }

    /// Appends whole blocks of `dtype`; `wide` stores scales and biases as f32.
    pub(super) fn push(&mut self, dtype: DType, blocks: &[u8], wide: bool) -> Result<(), Refusal> {
        match dtype {
            DType::Q4_1 => blocks.chunks_exact(20).try_for_each(|block| {
                self.factors(half(block, 0), Bias::Stored(half(block, 2)), wide)?;
                self.nibbles(&block[4..]);
                Ok(())
            }),
            DType::Q4_0 => blocks.chunks_exact(18).try_for_each(|block| {
                self.factors(half(block, 0), Bias::TimesScale(-8.0), wide)?;
                self.nibbles(&block[2..]);
                Ok(())
            }),
            DType::Q8_0 => blocks.chunks_exact(34).try_for_each(|block| {
                self.factors(half(block, 0), Bias::TimesScale(-128.0), wide)?;
                // Two's complement q plus 128 is q with its top bit flipped.
                self.weight.extend(block[2..].iter().map(|q| q ^ 0x80));
                Ok(())
            }),
            _ => {
                self.weight.extend_from_slice(blocks);
                Ok(())
            }
        }
    }

    fn factors(&mut self, scale: f16, bias: Bias, wide: bool) -> Result<(), Refusal> {
        let exact = match bias {
            Bias::Stored(bias) => bias.to_f32(),
            Bias::TimesScale(factor) => scale.to_f32() * factor,
        };
        if !scale.is_finite() || !exact.is_finite() {
            return Err(Refusal::NotFinite);
        }
        if wide {
            self.scales.extend(scale.to_f32().to_le_bytes());
            self.biases.extend(exact.to_le_bytes());
        } else {
            let narrow = f16::from_f32(exact);
            if narrow.to_f32() != exact {
                return Err(Refusal::NeedsF32);
            }
            self.scales.extend(scale.to_le_bytes());
            self.biases.extend(narrow.to_le_bytes());
        }
        Ok(())
    }

    /// ggml puts element j in the low and element j + 16 in the high half of byte j; MLX wants neighbours together.
    fn nibbles(&mut self, bytes: &[u8]) {
        let pairs = |shift: u32| {
            bytes
                .chunks_exact(2)
                .map(move |pair| (pair[0] >> shift & 15) | (pair[1] >> shift & 15) << 4)
        };
        self.weight.extend(pairs(0).chain(pairs(4)));
    }
}

enum Bias {
    Stored(f16),
    TimesScale(f32),
}

fn half(block: &[u8], at: usize) -> f16 {
    f16::from_le_bytes([block[at], block[at + 1]])
}

/// A row of ggml blocks as f32, the way ggml defines them; the reference that a finished conversion is checked against.
pub(super) fn dequantize(dtype: DType, blocks: &[u8]) -> Vec<f32> {
    let mut out = Vec::new();
    match dtype {
        DType::Q4_1 => blocks.chunks_exact(20).for_each(|block| {
            let (d, m) = (half(block, 0).to_f32(), half(block, 2).to_f32());
            let quant = |shift: u32| block[4..].iter().map(move |byte| d * f32::from(byte >> shift & 15) + m);
            out.extend(quant(0).chain(quant(4)));
        }),
        DType::Q4_0 => blocks.chunks_exact(18).for_each(|block| {
            let d = half(block, 0).to_f32();
            let quant = |shift: u32| block[2..].iter().map(move |byte| d * (f32::from(byte >> shift & 15) - 8.0));
            out.extend(quant(0).chain(quant(4)));
        }),
        DType::Q8_0 => blocks.chunks_exact(34).for_each(|block| {
            let d = half(block, 0).to_f32();
            out.extend(block[2..].iter().map(|q| d * f32::from(q.cast_signed())));
        }),
        _ => {}
    }
    out
}

/// A row of the MLX layout as f32.
pub(super) fn dequantize_mlx(bits: u32, weight: &[u8], scales: &[f32], biases: &[f32]) -> Vec<f32> {
    let unpacked: Vec<u8> = if bits == 8 {
        weight.to_vec()
    } else {
        weight.iter().flat_map(|byte| [byte & 15, byte >> 4]).collect()
    };
    unpacked
        .chunks(GROUP)
        .zip(scales.iter().zip(biases))
        .flat_map(|(group, (scale, bias))| group.iter().map(move |q| scale * f32::from(*q) + bias))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Element by element, from the definitions alone; shares nothing with the code above.
    fn naive(dtype: DType, block: &[u8], index: usize) -> f64 {
        let number = |at: usize| f64::from(f16::from_bits(u16::from(block[at]) | u16::from(block[at + 1]) << 8));
        let nibble = |at: usize| {
            let byte = block[at + index % 16];
            f64::from(if index < 16 { byte % 16 } else { byte / 16 })
        };
        match dtype {
            DType::Q4_1 => number(0) * nibble(4) + number(2),
            DType::Q4_0 => number(0) * (nibble(2) - 8.0),
            _ => {
                let byte = i16::from(block[2 + index]);
                number(0) * f64::from(if byte > 127 { byte - 256 } else { byte })
            }
        }
    }

    /// Element `index` of one MLX group, by the documented bit position.
    fn naive_mlx(packed: &Packed, bits: usize, wide: bool, index: usize) -> f64 {
        let bit = index * bits;
        let word = u32::from_le_bytes(packed.weight[bit / 32 * 4..][..4].try_into().unwrap());
        let q = word >> (bit % 32) & ((1 << bits) - 1);
        let number = |bytes: &[u8]| {
            if wide {
                f64::from(f32::from_le_bytes(bytes.try_into().unwrap()))
            } else {
                f64::from(f16::from_le_bytes(bytes.try_into().unwrap()))
            }
        };
        number(&packed.scales) * f64::from(q) + number(&packed.biases)
    }

    proptest! {
        #[test]
        fn every_block_keeps_every_weight(bytes in prop::collection::vec(any::<u8>(), 34), kind in 0..3) {
            let (dtype, size) = [(DType::Q4_0, 18), (DType::Q4_1, 20), (DType::Q8_0, 34)][kind as usize];
            let block = &bytes[..size];
            let mut packed = Packed::default();
            let mut wide = false;
            let mut outcome = packed.push(dtype, block, wide);
            if outcome == Err(Refusal::NeedsF32) {
                (packed, wide) = (Packed::default(), true);
                outcome = packed.push(dtype, block, wide);
            }
            let scale = f16::from_le_bytes([block[0], block[1]]);
            let minimum = f16::from_le_bytes([block[2], block[3]]);
            let finite = scale.is_finite() && (dtype != DType::Q4_1 || minimum.is_finite());
            prop_assert_eq!(outcome.is_ok(), finite);
            if finite {
                for index in 0..32 {
                    // f64 holds every product and sum of these exactly, so equality is equality of the weights.
                    prop_assert_eq!(naive(dtype, block, index), naive_mlx(&packed, bits(dtype).unwrap() as usize, wide, index));
                }
                let row = dequantize(dtype, block);
                prop_assert_eq!(row.len(), 32);
            }
        }
    }

    #[test]
    fn a_bias_beyond_f16_asks_for_f32() {
        let mut block = [0_u8; 34];
        block[..2].copy_from_slice(&f16::from_f32(600.0).to_le_bytes());
        assert_eq!(Packed::default().push(DType::Q8_0, &block, false), Err(Refusal::NeedsF32));
        let mut packed = Packed::default();
        packed.push(DType::Q8_0, &block, true).unwrap();
        assert_eq!(packed.biases, (-76800.0_f32).to_le_bytes());
    }
}
