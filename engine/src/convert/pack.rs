//! Rows of floats to MLX's packed rows. Affine packings are plain arithmetic, the same as MLX's on its CPU to the bit, and
//! shared among threads; the float packings are MLX's own operation.

use super::{ConvertError, Float, Result};
use crate::{
    decoder::linear::{mode_name, optional},
    load::{LoadError, Mode, Packing},
};
use mlx_rs::{Array, Dtype, Stream, error::Exception, with_stream};

/// Packed rows, as bytes of the output tensors.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Packed {
    pub(super) weight: Vec<u8>,
    pub(super) scales: Vec<u8>,
    /// Empty in the float modes.
    pub(super) biases: Vec<u8>,
}

/// Packs whole groups of `values`, which are exact in `float`.
pub(super) fn pack(values: &[f32], packing: Packing, float: Float) -> Result<Packed> {
    if packing.mode != Mode::Affine {
        return float_modes(values, packing, float).map_err(|error| ConvertError::Load(LoadError::Compute(error)));
    }
    let threads = mlx_cpu::threads().max(1);
    let group = packing.group as usize;
    let share = (values.len() / group).div_ceil(threads) * group;
    if share == 0 {
        return Ok(Packed::default());
    }
    let mut parts = std::thread::scope(|scope| {
        let work = |part| scope.spawn(move || affine(part, packing, float));
        let running: Vec<_> = values.chunks(share).map(work).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_default())
            .collect::<Vec<_>>()
    });
    let mut packed = std::mem::take(&mut parts[0]);
    for part in &parts[1..] {
        packed.weight.extend_from_slice(&part.weight);
        packed.scales.extend_from_slice(&part.scales);
        packed.biases.extend_from_slice(&part.biases);
    }
    Ok(packed)
}

/// Adding this to a number of 0 to 2^22 leaves it, rounded to even, in the low bits.
const ROUND: f32 = 8_388_608.0;

/// `scale · q + bias` with the edge of larger magnitude exact and zero among the values, as MLX chooses them.
fn affine(values: &[f32], packing: Packing, float: Float) -> Packed {
    let (bits, group) = (packing.bits as usize, packing.group as usize);
    let bins = ((1_u32 << bits) - 1) as f32;
    let groups = values.len() / group;
    let mut packed = Packed {
        weight: Vec::with_capacity(values.len() * bits / 8),
        scales: Vec::with_capacity(groups * float.width()),
        biases: Vec::with_capacity(groups * float.width()),
    };
    let mut fields = vec![0_u8; group];
    for values in values.chunks_exact(group) {
        let (low, high) = values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &value| {
            (if value < low { value } else { low }, if high < value { value } else { high })
        });
        let negative = low.abs() > high.abs();
        let step = ((high - low) / bins).max(1e-7);
        let mut scale = if negative { step } else { -step };
        let edge = if negative { low } else { high };
        let zero = (edge / scale).round_ties_even();
        let mut bias = 0.0;
        if zero != 0.0 {
            (scale, bias) = (edge / zero, edge);
        }
        for (field, value) in fields.iter_mut().zip(values) {
            let place = ((value - bias) / scale).max(0.0).min(bins);
            *field = (place + ROUND).to_bits() as u8;
        }
        push(&fields, bits, &mut packed.weight);
        float.narrow(&[scale], &mut packed.scales);
        float.narrow(&[bias], &mut packed.biases);
    }
    packed
}

/// Fields one after the other, low bits first; a group is whole bytes.
fn push(fields: &[u8], bits: usize, out: &mut Vec<u8>) {
    let (mut word, mut filled) = (0_u32, 0);
    for field in fields {
        word |= u32::from(*field) << filled;
        filled += bits;
        while filled >= 8 {
            out.push(word as u8);
            word >>= 8;
            filled -= 8;
        }
    }
}

#[allow(unsafe_code)]
fn float_modes(values: &[f32], packing: Packing, float: Float) -> std::result::Result<Packed, Exception> {
    with_stream(&Stream::cpu(), || {
        let columns = packing.group;
        let dtype = match float {
            Float::F32 => Dtype::Float32,
            Float::F16 => Dtype::Float16,
            Float::BF16 => Dtype::Bfloat16,
        };
        let rows = Array::from_slice(values, &[values.len() as i32 / columns, columns]).as_dtype(dtype)?;
        let stream = Stream::thread_local_or_default();
        let refused = || Exception::custom(format!("MLX refused to pack to {packing}"));
        // SAFETY: the handles live through the call; the vector owns what it holds until the arrays are taken out of it,
        // each of which is a reference of its own.
        let arrays: Vec<Array> = unsafe {
            let (mut vector, none) = (mlx_sys::mlx_vector_array_new(), mlx_sys::mlx_array_new());
            let status = mlx_sys::mlx_quantize(
                &raw mut vector,
                rows.as_ptr(),
                optional(packing.group),
                optional(packing.bits),
                mode_name(packing.mode).as_ptr(),
                none,
                stream.as_ptr(),
            );
            mlx_sys::mlx_array_free(none);
            let count = if status == 0 { mlx_sys::mlx_vector_array_size(vector) } else { 0 };
            let arrays = (0..count).map(|index| {
                let mut array = mlx_sys::mlx_array_new();
                mlx_sys::mlx_vector_array_get(&raw mut array, vector, index);
                Array::from_ptr(array)
            });
            let arrays = arrays.collect();
            mlx_sys::mlx_vector_array_free(vector);
            arrays
        };
        let [weight, scales] = &arrays[..] else { return Err(refused()) };
        weight.eval()?;
        scales.eval()?;
        Ok(Packed {
            weight: weight.as_slice::<u32>().iter().flat_map(|word| word.to_le_bytes()).collect(),
            scales: scales.as_slice::<u8>().to_vec(),
            biases: Vec::new(),
        })
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stock(values: &[f32], packing: Packing, float: Float) -> Packed {
        with_stream(&Stream::cpu(), || {
            let dtype = match float {
                Float::F32 => Dtype::Float32,
                Float::F16 => Dtype::Float16,
                Float::BF16 => Dtype::Bfloat16,
            };
            let rows = Array::from_slice(values, &[values.len() as i32 / packing.group, packing.group])
                .as_dtype(dtype)
                .unwrap();
            let (weight, scales, biases) = mlx_rs::ops::quantize(&rows, packing.group, packing.bits).unwrap();
            let bytes = |array: &Array| {
                let wide = array.as_dtype(Dtype::Float32).unwrap();
                wide.eval().unwrap();
                let mut out = Vec::new();
                float.narrow(wide.as_slice::<f32>(), &mut out);
                out
            };
            weight.eval().unwrap();
            Packed {
                weight: weight.as_slice::<u32>().iter().flat_map(|word| word.to_le_bytes()).collect(),
                scales: bytes(&scales),
                biases: bytes(&biases),
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        /// Every byte that MLX's CPU writes, for values of any size, sign and spread.
        #[test]
        fn affine_is_mlx_to_the_byte(
            seed in prop::collection::vec(-1.0_f32..1.0, 384),
            size in -30..20_i32,
            shift in prop_oneof![Just(0.0_f32), -4.0_f32..4.0, Just(300.0)],
            bits in prop::sample::select(vec![2, 3, 4, 5, 6, 8]),
            group in prop::sample::select(vec![32, 64, 128]),
            float in prop::sample::select(vec![Float::F32, Float::F16, Float::BF16]),
            grid in any::<bool>(),
        ) {
            let mut values: Vec<f32> = seed.iter().map(|value| {
                // A grid has ties and equal values.
                let value = if grid { (value * 4.0).round() / 4.0 } else { *value };
                (value + shift) * 2_f32.powi(size)
            }).collect();
            float.round(&mut values);
            prop_assume!(values.iter().all(|value| value.is_finite()));
            let packing = Packing { bits, group, mode: Mode::Affine };
            prop_assert_eq!(pack(&values, packing, float).unwrap(), stock(&values, packing, float));
        }
    }
}
