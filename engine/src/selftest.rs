//! Does this machine compute right? A few dozen milliseconds at start, before a model is trusted to it: products at the
//! row counts that take different kernels, rotation, attention and softmax, each against plain Rust in f64.

use mlx_cpu::{Backend, KvCache, Mask, Positions, Rope, Weight};
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{concatenate, softmax_axis},
};
use std::time::{Duration, Instant};

/// The machine computes wrong, or not at all.
#[derive(Debug, thiserror::Error)]
pub enum SelfTestError {
    #[error(
        "this machine computes wrong: {what} is off by {:.2} % of its largest value (allowed: {:.2} %). The MLX library, the GPU driver or the hardware is at fault: update the driver, or compute on the processor with {}=cpu",
        off * 100.0, allowed * 100.0, crate::device::DEVICE_VARIABLE
    )]
    Wrong { what: String, off: f64, allowed: f64 },
    #[error("the self-test could not run: {what}: {reason}")]
    Failed { what: String, reason: Exception },
}

/// Runs every check in the dtype that models run in on this backend. Returns how long it took.
///
/// # Errors
/// The first check that is off.
pub fn run() -> Result<Duration, SelfTestError> {
    let started = Instant::now();
    let dtype = match mlx_cpu::backend() {
        Backend::Cpu => Dtype::Float32,
        Backend::Cuda | Backend::Metal => Dtype::Bfloat16,
    };
    products(dtype, packings(), &|x, weight| mlx_cpu::linear(x, weight))?;
    rotation()?;
    attention(dtype)?;
    step(dtype)?;
    softmax()?;
    Ok(started.elapsed())
}

/// Bits and groups to try. CUDA compiles a kernel for each at its first use, for many seconds.
fn packings() -> &'static [(usize, usize)] {
    match mlx_cpu::backend() {
        Backend::Cuda => &[(4, 64)],
        Backend::Cpu | Backend::Metal => &[(4, 32), (4, 64), (8, 64)],
    }
}

/// Reproducible numbers in [-1, 1).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / f64::from(1 << 23) - 1.0
    }

    /// Values that bf16 holds exactly, so that every dtype starts from the same numbers.
    fn list(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| half::bf16::from_f64(self.next()).to_f32()).collect()
    }
}

fn array(values: &[f32], shape: &[i32], dtype: Dtype) -> Result<Array, Exception> {
    Array::from_slice(values, shape).as_dtype(dtype)
}

/// Compares with what was expected, relative to the largest expected value.
fn judge(what: &str, found: Result<Array, Exception>, expected: &[f64], allowed: f64) -> Result<(), SelfTestError> {
    let failed = |reason| SelfTestError::Failed {
        what: what.to_owned(),
        reason,
    };
    let found = found.and_then(|found| found.reshape(&[-1])).map_err(failed)?;
    let found = found
        .to_vec_cast::<f32>()
        .map_err(|error| failed(Exception::custom(error.to_string())))?;
    let largest = expected.iter().fold(f64::MIN_POSITIVE, |max, x| max.max(x.abs()));
    let worst = found.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).abs());
    // NaN is as wrong as can be, and a comparison would lose it.
    let off = worst.fold(0.0, |max: f64, x| if x.is_nan() { f64::INFINITY } else { max.max(x) }) / largest;
    if found.len() == expected.len() && off <= allowed {
        Ok(())
    } else {
        Err(SelfTestError::Wrong {
            what: what.to_owned(),
            off,
            allowed,
        })
    }
}

fn tolerance(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Float32 => 1e-4,
        // A result rounded to 8 bits, and sums in other orders.
        _ => 1.5e-2,
    }
}

type Product<'a> = &'a dyn Fn(&Array, &Weight) -> Result<Array, Exception>;

/// Packed and dense products at 1 to 16 rows.
fn products(dtype: Dtype, packings: &[(usize, usize)], product: Product<'_>) -> Result<(), SelfTestError> {
    const OUTPUTS: usize = 32;
    const INPUTS: usize = 256;
    const ROWS: [usize; 8] = [1, 2, 3, 4, 5, 8, 12, 16];
    let mut numbers = Numbers(1);
    let x = numbers.list(16 * INPUTS);
    for &(bits, group) in packings {
        let packed = Packed::new(&mut numbers, OUTPUTS, INPUTS, bits, group);
        for rows in ROWS {
            let what = format!("a {bits}-bit product of {rows} rows in groups of {group}");
            let found = packed
                .weight(dtype)
                .and_then(|weight| product(&array(&x[..rows * INPUTS], &[rows as i32, INPUTS as i32], dtype)?, &weight));
            judge(
                &what,
                found,
                &multiply(&x[..rows * INPUTS], &packed.values, INPUTS),
                tolerance(dtype),
            )?;
        }
    }
    let values = numbers.list(OUTPUTS * INPUTS);
    let dense = || Ok(Weight::dense(array(&values, &[OUTPUTS as i32, INPUTS as i32], dtype)?));
    let values: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
    for rows in ROWS {
        let found = dense().and_then(|weight| product(&array(&x[..rows * INPUTS], &[rows as i32, INPUTS as i32], dtype)?, &weight));
        judge(
            &format!("a dense product of {rows} rows"),
            found,
            &multiply(&x[..rows * INPUTS], &values, INPUTS),
            tolerance(dtype),
        )?;
    }
    Ok(())
}

/// `x Wᵀ`.
fn multiply(x: &[f32], w: &[f64], inputs: usize) -> Vec<f64> {
    let row = |x: &[f32], w: &[f64]| x.iter().zip(w).map(|(x, w)| f64::from(*x) * w).sum();
    x.chunks(inputs).flat_map(|x| w.chunks(inputs).map(move |w| row(x, w))).collect()
}

/// A matrix packed here, bit by bit, so that MLX's packing is checked too.
struct Packed {
    words: Vec<u32>,
    scales: Vec<f32>,
    biases: Vec<f32>,
    values: Vec<f64>,
    shape: [usize; 2],
    bits: usize,
    group: usize,
}

impl Packed {
    fn new(numbers: &mut Numbers, outputs: usize, inputs: usize, bits: usize, group: usize) -> Self {
        let groups = outputs * inputs / group;
        let scales: Vec<f32> = (0..groups)
            .map(|_| half::bf16::from_f64(0.02 + 0.01 * numbers.next()).to_f32())
            .collect();
        let biases = numbers.list(groups);
        let mut words = vec![0; outputs * inputs * bits / 32];
        let mut values = Vec::with_capacity(outputs * inputs);
        for i in 0..outputs * inputs {
            let level = (f64::midpoint(numbers.next(), 1.0) * f64::from(1 << bits)) as u32;
            words[i * bits / 32] |= level << (i * bits % 32);
            values.push(f64::from(scales[i / group]) * f64::from(level) + f64::from(biases[i / group]));
        }
        Self {
            words,
            scales,
            biases,
            values,
            shape: [outputs, inputs],
            bits,
            group,
        }
    }

    fn weight(&self, dtype: Dtype) -> Result<Weight, Exception> {
        let [outputs, inputs] = self.shape.map(|n| n as i32);
        let (bits, group) = (self.bits as i32, self.group as i32);
        let side = |values: &[f32]| array(values, &[outputs, inputs / group], dtype);
        let words = Array::from_slice(&self.words, &[outputs, inputs * bits / 32]);
        Ok(Weight::affine(words, side(&self.scales)?, side(&self.biases)?, group, bits))
    }
}

/// Rotation in halves, at an offset and at positions of its own for each row.
fn rotation() -> Result<(), SelfTestError> {
    const DIM: usize = 64;
    let x = Numbers(2).list(2 * 3 * DIM);
    let expected = |positions: [f64; 3]| -> Vec<f64> {
        let mut y = Vec::new();
        for (i, row) in x.chunks(DIM).enumerate() {
            for d in 0..DIM {
                let pair = d % (DIM / 2);
                let angle = positions[i % 3] * 10_000f64.powf(-2.0 * pair as f64 / DIM as f64);
                let (a, b) = (f64::from(row[pair]), f64::from(row[pair + DIM / 2]));
                y.push(if d < DIM / 2 {
                    a * angle.cos() - b * angle.sin()
                } else {
                    a * angle.sin() + b * angle.cos()
                });
            }
        }
        y
    };
    let rope = Rope::with_base(10_000.0, DIM as i32, false);
    let input = Array::from_slice(&x, &[1, 2, 3, DIM as i32]);
    judge(
        "rotation by position",
        rope.apply(&input, Positions::From(100)),
        &expected([100.0, 101.0, 102.0]),
        1e-3,
    )?;
    let each = rope.apply(&input, Positions::Each(&[7, 8, 8]));
    judge("rotation by positions of a tree", each, &expected([7.0, 8.0, 8.0]), 1e-3)
}

/// Grouped heads over a cache: a causal block, and a tree.
fn attention(dtype: Dtype) -> Result<(), SelfTestError> {
    const DIM: usize = 64;
    const PARENTS: [i32; 4] = [-1, 0, 0, 2];
    let (heads, kv_heads, context, rows) = (4, 2, 20, 4);
    let total = context + rows;
    let mut numbers = Numbers(3);
    let q = numbers.list(heads * rows * DIM);
    let (keys, values) = (numbers.list(kv_heads * total * DIM), numbers.list(kv_heads * total * DIM));
    let ancestors = |row: usize| {
        let mut seen = vec![row];
        while let Ok(parent) = usize::try_from(PARENTS[seen[seen.len() - 1]]) {
            seen.push(parent);
        }
        seen
    };
    let at = |list: &[f32], head: usize, position: usize, d: usize| f64::from(list[(head * total + position) * DIM + d]);
    let expected = |tree: bool| {
        let mut y = Vec::new();
        for head in 0..heads {
            for row in 0..rows {
                let kv = head / (heads / kv_heads);
                let sees = |t: usize| {
                    t < context
                        || if tree {
                            ancestors(row).contains(&(t - context))
                        } else {
                            t - context <= row
                        }
                };
                let score = |t: usize| -> f64 {
                    let q = &q[(head * rows + row) * DIM..][..DIM];
                    q.iter().enumerate().map(|(d, q)| f64::from(*q) * at(&keys, kv, t, d)).sum::<f64>() / 8.0
                };
                let weights: Vec<(usize, f64)> = (0..total).filter(|t| sees(*t)).map(|t| (t, score(t).exp())).collect();
                let sum: f64 = weights.iter().map(|(_, w)| w).sum();
                y.extend((0..DIM).map(|d| weights.iter().map(|(t, w)| w / sum * at(&values, kv, *t, d)).sum::<f64>()));
            }
        }
        y
    };
    let found = |mask: Mask<'_>| {
        let kv = |list: &[f32]| array(list, &[1, kv_heads as i32, total as i32, DIM as i32], dtype);
        let mut cache = KvCache::new(dtype, 64);
        cache.append(&kv(&keys)?, &kv(&values)?)?;
        mlx_cpu::attend(
            &array(&q, &[1, heads as i32, rows as i32, DIM as i32], dtype)?,
            &cache,
            mask,
            None,
            None,
        )
    };
    judge("attention", found(Mask::Causal), &expected(false), tolerance(dtype))?;
    let tree = Mask::Tree {
        parents: &PARENTS,
        window: None,
    };
    judge("attention over a tree", found(tree), &expected(true), tolerance(dtype))
}

/// A whole step, from joined projections to heads: the layouts that a model really uses.
fn step(dtype: Dtype) -> Result<(), SelfTestError> {
    const DIM: usize = 64;
    const ROWS: usize = 12;
    let (heads, kv_heads) = (4, 2);
    let width = (heads + 2 * kv_heads) * DIM;
    let qkv = Numbers(5).list(ROWS * width);
    let turned = |row: usize, head: usize, d: usize| {
        let pair = d % (DIM / 2);
        let angle = row as f64 * 10_000f64.powf(-2.0 * pair as f64 / DIM as f64);
        let at = |d: usize| f64::from(qkv[row * width + head * DIM + d]);
        let (a, b) = (at(pair), at(pair + DIM / 2));
        if d < DIM / 2 {
            a * angle.cos() - b * angle.sin()
        } else {
            a * angle.sin() + b * angle.cos()
        }
    };
    let mut expected = Vec::new();
    for row in 0..ROWS {
        for head in 0..heads {
            let kv = head / (heads / kv_heads);
            let score = |t: usize| (0..DIM).map(|d| turned(row, head, d) * turned(t, heads + kv, d)).sum::<f64>() / 8.0;
            let weights: Vec<f64> = (0..=row).map(|t| score(t).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let value = |t: usize, d: usize| f64::from(qkv[t * width + (heads + kv_heads + kv) * DIM + d]);
            expected.extend((0..DIM).map(|d| weights.iter().enumerate().map(|(t, w)| w / sum * value(t, d)).sum::<f64>()));
        }
    }
    let attention = mlx_cpu::Attention {
        heads: heads as i32,
        kv_heads: kv_heads as i32,
        dim: DIM as i32,
        scale: None,
        q_norm: None,
        k_norm: None,
        rope: Some(Rope::with_base(10_000.0, DIM as i32, false)),
        sinks: None,
    };
    let found = || {
        let mut cache = KvCache::new(dtype, 64);
        let mut heads = Vec::new();
        // A block, then a row: two kernels.
        for (from, to) in [(0, ROWS - 1), (ROWS - 1, ROWS)] {
            let rows = array(&qkv[from * width..to * width], &[1, (to - from) as i32, width as i32], dtype)?;
            heads.push(attention.step(&rows, &mut cache, Positions::From(from as i32), Mask::Causal)?);
        }
        concatenate(&heads, 1)
    };
    judge("a step of attention", found(), &expected, tolerance(dtype))
}

fn softmax() -> Result<(), SelfTestError> {
    let x: Vec<f32> = Numbers(4).list(1000).iter().map(|x| x * 30.0 + 100.0).collect();
    let max = x.iter().copied().fold(f32::MIN, f32::max);
    let weights: Vec<f64> = x.iter().map(|x| f64::from(x - max).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let expected: Vec<f64> = weights.iter().map(|w| w / sum).collect();
    judge(
        "softmax",
        softmax_axis(Array::from_slice(&x, &[1, 1000]), -1, true),
        &expected,
        1e-4,
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::print_stdout)]
mod tests {
    use super::*;
    use mlx_rs::ops::{add, quantized_matmul};

    #[test]
    fn this_machine_computes_right() {
        let took = run().unwrap();
        println!("{took:?}");
    }

    /// MLX's own bf16 product on the CPU is off by several percent: exactly what a self-test is for.
    #[test]
    fn a_wrong_product_is_refused() {
        if mlx_cpu::backend() != Backend::Cpu {
            return;
        }
        let stock = |x: &Array, weight: &Weight| match weight {
            Weight::Affine {
                w,
                scales,
                biases,
                group,
                bits,
                ..
            } => quantized_matmul(x, w, scales, biases, true, *group, *bits),
            Weight::Dense { .. } => mlx_cpu::linear(x, weight),
        };
        products(Dtype::Float32, packings(), &stock).unwrap();
        let error = products(Dtype::Bfloat16, packings(), &stock).unwrap_err().to_string();
        assert!(
            error.starts_with("this machine computes wrong: a 4-bit product of 1 rows") && error.contains("MLX_DSPARK_DEVICE=cpu"),
            "{error}"
        );
    }

    #[test]
    fn one_wrong_row_or_a_nan_is_enough() {
        let spoilt = |value: f32| {
            products(Dtype::Float32, packings(), &move |x, weight| {
                let y = mlx_cpu::linear(x, weight)?;
                let mut noise = vec![0.0; y.size()];
                if x.dim(0) == 12 {
                    noise[11 * 32 + 3] = value;
                }
                add(&y, Array::from_slice(&noise, y.shape()))
            })
        };
        assert!(spoilt(0.0).is_ok());
        assert!(matches!(spoilt(0.5), Err(SelfTestError::Wrong { what, .. }) if what.contains("12 rows")));
        assert!(matches!(spoilt(f32::NAN), Err(SelfTestError::Wrong { off, .. }) if off.is_infinite()));
    }
}
