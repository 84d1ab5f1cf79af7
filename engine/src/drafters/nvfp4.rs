//! ModelOpt NVFP4: two E2M1 values a byte (low nibble first), an E4M3 scale per 16, one f32 scale per matrix.

use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{multiply, stack},
};

/// Elements along the input axis that share a scale.
pub(super) const GROUP: usize = 16;

/// The values of a nibble: sign in bit 3.
pub const E2M1: [f32; 16] = [
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
];

/// The value of an E4M3 byte (no infinities; 0x7f and 0xff are NaN).
pub fn e4m3(byte: u8) -> f32 {
    let (exponent, mantissa) = ((byte >> 3) & 15, f32::from(byte & 7));
    let magnitude = match (exponent, byte & 7) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa / 8.0 * 2f32.powi(-6),
        (exponent, _) => (1.0 + mantissa / 8.0) * 2f32.powi(i32::from(exponent) - 7),
    };
    if byte & 0x80 == 0 { magnitude } else { -magnitude }
}

/// `[N, K]` bf16 from `weight` `[N, K/2]` u8, `scale` `[N, K/16]` E4M3 bytes and `scale2`, one f32.
pub(super) fn decode(weight: &Array, scale: &Array, scale2: &Array) -> Result<Array, Exception> {
    let &[rows, bytes] = weight.shape() else {
        return Err(Exception::custom(format!("NVFP4 weights are [N, K/2], not {:?}", weight.shape())));
    };
    let nibbles = Array::from_slice(&E2M1, &[16]);
    let weight = weight.as_dtype(Dtype::Uint32)?;
    let high = weight.floor_divide(Array::from_slice(&[16_u32], &[1]))?;
    let low = weight.subtract(multiply(&high, Array::from_slice(&[16_u32], &[1]))?)?;
    let values = nibbles.take_axis(stack(&[low, high], -1)?, 0)?;
    let values = values.reshape(&[rows, 2 * bytes / GROUP as i32, GROUP as i32])?;
    let table: Vec<f32> = (0..=u8::MAX).map(e4m3).collect();
    let table = Array::from_slice(&table, &[256]);
    let scale = table.take_axis(scale.as_dtype(Dtype::Uint32)?, 0)?.expand_dims(-1)?;
    let scale = multiply(&scale, scale2.as_dtype(Dtype::Float32)?.reshape(&[1, 1, 1])?)?;
    multiply(&values, &scale)?.reshape(&[rows, 2 * bytes])?.as_dtype(Dtype::Bfloat16)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Every byte of weights against its two nibbles taken apart by hand, every scale byte against the bit formula.
    #[test]
    fn every_nibble_and_byte() {
        let bytes: Vec<u8> = (0..=255).collect();
        let weight = Array::from_slice(&bytes, &[32, 8]);
        // 0x38 is 1.
        let scale = Array::from_slice(&[0x38_u8; 32], &[32, 1]);
        let one = Array::from_slice(&[1.0_f32], &[1]);
        let found = decode(&weight, &scale, &one).unwrap().to_vec_cast::<f32>().unwrap();
        for (byte, pair) in bytes.iter().zip(found.chunks(2)) {
            for (nibble, value) in [byte & 15, byte >> 4].into_iter().zip(pair) {
                let (sign, exponent, mantissa) = (nibble >> 3, (nibble >> 1) & 3, f32::from(nibble & 1));
                let magnitude = match exponent {
                    0 => mantissa * 0.5,
                    e => (1.0 + mantissa * 0.5) * 2f32.powi(i32::from(e) - 1),
                };
                assert_eq!(*value, if sign == 1 { -magnitude } else { magnitude }, "nibble {nibble}");
            }
        }
        assert_eq!((e4m3(0x38), e4m3(0x7e), e4m3(0x01), e4m3(0xb8)), (1.0, 448.0, 2f32.powi(-9), -1.0));
        assert!(e4m3(0x7f).is_nan() && e4m3(0xff).is_nan());
        // Positive bytes ascend.
        assert!((0..0x7e).all(|byte| e4m3(byte) < e4m3(byte + 1)));
    }
}
