//! Products of experts against MLX's gather products, for every choice of rows.
#![allow(clippy::unwrap_used)]

use mlx_cpu::{ExpertScales, ExpertWeights, gather_linear};
use mlx_rs::{
    Array, Dtype,
    ops::{dequantize, gather_mm, quantize},
    random,
};

fn normal(shape: &[i32], salt: u64) -> Array {
    random::normal::<f32>(shape, None, None, &random::key(salt).unwrap()).unwrap()
}

fn floats(array: &Array) -> Vec<f32> {
    let wide = array.as_dtype(Dtype::Float32).unwrap();
    wide.eval().unwrap();
    wide.as_slice::<f32>().to_vec()
}

fn close(found: &Array, wanted: &Array, allowed: f32, what: &str) {
    assert_eq!(found.shape(), wanted.shape(), "{what}");
    let most = floats(wanted).iter().fold(1.0_f32, |most, value| most.max(value.abs()));
    for (found, wanted) in floats(found).iter().zip(floats(wanted)) {
        assert!((found - wanted).abs() <= allowed * most, "{what}: {found} is not {wanted}");
    }
}

/// What the engine asks for: `k` experts for each row, or a row for each choice.
#[test]
fn every_choice_meets_its_expert() {
    mlx_cpu::exact_products(true);
    const E: i32 = 5;
    for (n, k, rows, chosen) in [(24, 64, 1, 2), (7, 128, 3, 2), (33, 128, 20, 3), (16, 256, 64, 1)] {
        let w = normal(&[E, n, k], 1);
        let choices: Vec<u32> = (0..rows * chosen).map(|i| ((i * i + 3 * i) % E) as u32).collect();
        let choices = Array::from_slice(&choices, &[1, rows, chosen]);
        let x = normal(&[1, rows, 1, 1, k], 2);
        let each = normal(&[1, rows, chosen, 1, k], 3);
        for (x, what) in [(&x, "shared"), (&each, "each")] {
            for dtype in [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16] {
                let what = format!("{what} {n} x {k}, {rows} rows, {dtype:?}");
                let stored = w.as_dtype(dtype).unwrap();
                let wide = stored.as_dtype(Dtype::Float32).unwrap();
                let wanted = gather_mm(x, wide.swap_axes(-1, -2).unwrap(), None, &choices, false).unwrap();
                let dense = ExpertWeights { w: &stored, affine: None };
                close(&gather_linear(x, &choices, &dense).unwrap().unwrap(), &wanted, 2e-6, &what);

                for (bits, group) in [(2, 64), (4, 32), (8, 64)] {
                    let (packed, scales, biases) = quantize(&wide, group, bits).unwrap();
                    let (scales, biases) = (scales.as_dtype(dtype).unwrap(), biases.as_dtype(dtype).unwrap());
                    let f32s = |array: &Array| array.as_dtype(Dtype::Float32).unwrap();
                    let values = dequantize(&packed, f32s(&scales), &f32s(&biases), group, bits).unwrap();
                    let wanted = gather_mm(x, values.swap_axes(-1, -2).unwrap(), None, &choices, false).unwrap();
                    let affine = Some(ExpertScales {
                        scales: &scales,
                        biases: &biases,
                        group,
                        bits,
                    });
                    let weights = ExpertWeights { w: &packed, affine };
                    let found = gather_linear(x, &choices, &weights).unwrap().unwrap();
                    close(&found, &wanted, 4e-6, &format!("{what}, {bits} bits"));
                }
            }
        }
        // A row's result does not depend on its company.
        let dense = ExpertWeights { w: &w, affine: None };
        let all = floats(&gather_linear(&x, &choices, &dense).unwrap().unwrap());
        let first = Array::from_slice(&floats(&x)[..k as usize], &[1, k]);
        let choice = Array::from_slice(&[0_u32], &[1]);
        let alone = floats(&gather_linear(&first, &choice, &dense).unwrap().unwrap());
        assert_eq!(all[..n as usize], alone[..]);
    }
}

#[test]
fn what_does_not_fit_is_an_error_or_left_to_mlx() {
    let (w, x) = (normal(&[3, 8, 64], 1), normal(&[2, 64], 2));
    let dense = ExpertWeights { w: &w, affine: None };
    let beyond = Array::from_slice(&[1_u32, 3], &[2]);
    let error = gather_linear(&x, &beyond, &dense).unwrap().unwrap().eval();
    assert!(error.is_err_and(|error| error.to_string().contains("expert 3 of 3")));
    let odd = Array::from_slice(&[1_u32, 2, 0], &[3]);
    assert!(gather_linear(&x, &odd, &dense).unwrap().unwrap().eval().is_err());
    let signed = Array::from_slice(&[1_i32, 2], &[2]);
    assert!(gather_linear(&x, &signed, &dense).unwrap().is_none());
}
