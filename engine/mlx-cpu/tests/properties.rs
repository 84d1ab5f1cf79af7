//! Kernels against plain f64 arithmetic, over shapes, types, strides and masks; and a row alone against the same row in company.
//!
//! The instruction set is the machine's best; `MLX_CPU_ISA=portable` (or `avx2`) runs the same tests on another.
#![allow(clippy::unwrap_used)]
use mlx_cpu::{
    Attention, KvCache, Mask, Positions, Rope, Weight, attend, linear, linear_plus, norm_linear, rms_norm, swiglu, swiglu_linear, swiglu2,
};
use mlx_rs::{Array, Dtype, ops, ops::indexing::TryIndexOp, random};
use proptest::prelude::*;

const TYPES: [Dtype; 3] = [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16];

fn normal(shape: &[i32], key: u64) -> Array {
    let a = random::normal::<f32>(shape, None, None, &random::key(key).unwrap()).unwrap();
    a.eval().unwrap();
    a
}

fn floats(a: &Array) -> Vec<f64> {
    let a = a.as_dtype(Dtype::Float32).unwrap().contiguous().unwrap();
    a.eval().unwrap();
    a.as_slice::<f32>().iter().map(|v| f64::from(*v)).collect()
}

fn bits(a: &Array) -> Vec<u32> {
    let a = a.as_dtype(Dtype::Float32).unwrap().contiguous().unwrap();
    a.eval().unwrap();
    a.as_slice::<f32>().iter().map(|v| v.to_bits()).collect()
}

/// The largest difference, against the largest magnitude.
fn far(got: &Array, want: &[f64]) -> f64 {
    let got = floats(got);
    assert_eq!(got.len(), want.len());
    let most = want.iter().fold(1e-3, |m: f64, v| m.max(v.abs()));
    got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / most
}

/// Rows `from..to` of the second dimension.
fn rows(a: &Array, from: i32, to: i32) -> Array {
    a.try_index((.., from..to, ..)).unwrap()
}

/// How exact a result of this type can be.
fn limit(kind: Dtype) -> f64 {
    match kind {
        Dtype::Float32 => 5e-6,
        Dtype::Float16 => 1e-3,
        _ => 8e-3,
    }
}

/// The same for a product. Quantized weights meet activations rounded to steps of 1/32639 of the largest of 32 neighbours, unless f32
/// was asked for: what that may do to `x` against the weights `full`, in six standard deviations of errors evenly spread over a step,
/// as a share of the largest result `most`.
fn product_limit(kind: Dtype, bits: i32, (x, full): (&[f64], &[f64]), k: usize, most: f64) -> f64 {
    if bits == 0 || in_f32() {
        return limit(kind);
    }
    let steps = |row: &[f64]| -> Vec<f64> {
        let step = |run: &[f64]| run.iter().fold(0.0, |m: f64, v| m.max(v.abs())) / 32_639.0;
        row.chunks(32).map(step).collect()
    };
    let worst = x.chunks(k).map(steps).fold(0.0, |worst: f64, steps| {
        let of = |w: &[f64]| -> f64 {
            let runs = w.chunks(32).zip(&steps);
            runs.map(|(w, step)| step * step * w.iter().map(|w| w * w).sum::<f64>()).sum()
        };
        full.chunks(k).map(of).fold(worst, f64::max)
    });
    limit(kind) + 6.0 * (worst / 12.0).sqrt() / most
}

fn in_f32() -> bool {
    std::env::var("MLX_CPU_ACTIVATIONS").is_ok_and(|kind| kind == "f32")
}

/// The properties of products again, in a process whose quantized weights meet f32.
#[test]
fn products_in_f32() {
    if in_f32() {
        return;
    }
    let tests = ["linear_", "folded_", "large_"];
    let again = std::process::Command::new(std::env::current_exe().unwrap())
        .args(tests)
        .env("MLX_CPU_ACTIVATIONS", "f32")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && text.contains("4 passed"), "{text}");
}

/// The weights of a layer and what they stand for, `[n, k]`.
fn weight(n: i32, k: i32, format: (i32, i32), kind: Dtype, bias: bool) -> (Weight, Vec<f64>) {
    let w = normal(&[n, k], 2).as_dtype(kind).unwrap();
    let bias = bias.then(|| normal(&[n], 5));
    let (bits, group) = format;
    if bits == 0 {
        let full = floats(&w);
        return (Weight::Dense { w, bias }, full);
    }
    let (w, scales, biases) = ops::quantize(&w, group, bits).unwrap();
    let f = |a: &Array| a.as_dtype(Dtype::Float32).unwrap();
    let full = floats(&ops::dequantize(&w, f(&scales), &f(&biases), group, bits).unwrap());
    (
        Weight::Affine {
            w,
            scales,
            biases,
            group,
            bits,
            bias,
        },
        full,
    )
}

/// `x wᵀ + bias`, x in rows of k.
fn product(x: &[f64], full: &[f64], k: usize, bias: Option<&Array>) -> Vec<f64> {
    let bias = bias.map(floats);
    x.chunks(k)
        .flat_map(|x| {
            full.chunks(k)
                .enumerate()
                .map(|(n, w)| x.iter().zip(w).map(|(a, b)| a * b).sum::<f64>() + bias.as_ref().map_or(0.0, |b| b[n]))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn normed(x: &[f64], w: Option<&[f64]>, eps: f64, k: usize) -> Vec<f64> {
    let scale = |row: &[f64]| 1.0 / (row.iter().map(|v| v * v).sum::<f64>() / k as f64 + eps).sqrt();
    x.chunks(k)
        .flat_map(|row| {
            row.iter()
                .enumerate()
                .map(|(i, v)| v * scale(row) * w.map_or(1.0, |w| w[i]))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn gated(gate: f64, up: f64) -> f64 {
    gate / (1.0 + (-gate).exp()) * up
}

fn formats() -> impl Strategy<Value = (i32, i32)> {
    let quantized = (
        prop::sample::select(vec![2, 3, 4, 5, 6, 8]),
        prop::sample::select(vec![32, 64, 128]),
    );
    prop_oneof![1 => Just((0, 32)), 4 => quantized]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any format, shape and type; x with gaps between rows and between columns; bias and residual.
    #[test]
    fn linear_is_the_product(format in formats(), groups in 1..7_i32, n in 1..70_i32, m in 1..20_i32, odd in 0..40_i32,
                             x_type in 0..3_usize, w_type in 0..3_usize, bias: bool, plus: bool, turned: bool) {
        // Dense rows may have any length.
        let k = if format.0 == 0 { (groups - 1) * 32 + odd + 1 } else { groups * format.1 };
        let (weight, full) = weight(n, k, format, TYPES[w_type], bias);
        let x_type = TYPES[x_type];
        let x = if turned {
            normal(&[k, 2, m], 1).transpose_axes(&[1, 2, 0]).unwrap()
        } else {
            normal(&[2, m + 3, k], 1).try_index((.., 2..m + 2, ..)).unwrap()
        }.as_dtype(x_type).unwrap();
        let x = if turned && x_type != Dtype::Float32 { x.transpose_axes(&[2, 0, 1]).unwrap().contiguous().unwrap().transpose_axes(&[1, 2, 0]).unwrap() } else { x };
        let mut want = product(&floats(&x), &full, k as usize, weight.bias());
        let got = if plus {
            let rest = normal(&[2, m, n], 3).as_dtype(x_type).unwrap();
            want.iter_mut().zip(floats(&rest)).for_each(|(a, b)| *a += b);
            linear_plus(&x, &weight, &rest).unwrap()
        } else {
            linear(&x, &weight).unwrap()
        };
        prop_assert_eq!(got.shape(), &[2, m, n]);
        prop_assert_eq!(got.dtype(), x_type);
        // What MLX's own product makes of half types is its affair; its f32 is exact enough.
        if x_type == Dtype::Float32 || [0, 2, 4, 8].contains(&format.0) {
            let far = far(&got, &want);
            let most = want.iter().fold(1e-3, |m: f64, v| m.max(v.abs()));
            prop_assert!(far < product_limit(x_type, format.0, (&floats(&x), &full), k as usize, most), "{}", far);
        }
    }

    /// To the bit, whatever stands beside the row: few rows, many rows, blocks of rows.
    #[test]
    fn linear_rows_do_not_depend_on_each_other(format in formats(), groups in 1..5_i32, n in 1..40_i32, m in 1..40_i32, at in 0..40_i32, w_type in 0..3_usize) {
        prop_assume!([0, 2, 4, 8].contains(&format.0));
        let at = at % m;
        let (weight, _) = weight(n, groups * format.1, format, TYPES[w_type], false);
        let x = normal(&[1, m, groups * format.1], 1);
        let all = linear(&x, &weight).unwrap();
        let alone = linear(&rows(&x, at, at + 1), &weight).unwrap();
        prop_assert_eq!(bits(&rows(&all, at, at + 1)), bits(&alone));
        let (from, to) = ((at - 2).max(0), (at + 3).min(m));
        prop_assert_eq!(bits(&rows(&all, from, to)), bits(&linear(&rows(&x, from, to), &weight).unwrap()));
    }

    #[test]
    fn norm_and_gate(k in 1..300_i32, m in 1..6_i32, x_type in 0..3_usize, weighted: bool) {
        let x_type = TYPES[x_type];
        let x = normal(&[m, k, 2], 1).as_dtype(x_type).unwrap().try_index((.., .., 1)).unwrap();
        let w = weighted.then(|| normal(&[k], 2));
        let got = rms_norm(&x, w.as_ref(), 1e-5).unwrap();
        let want = normed(&floats(&x), w.as_ref().map(floats).as_deref(), 1e-5, k as usize);
        prop_assert!(far(&got, &want) < limit(x_type));
        prop_assert_eq!(bits(&rms_norm(&x.try_index((m - 1.., ..)).unwrap(), w.as_ref(), 1e-5).unwrap()), bits(&got.try_index((m - 1.., ..)).unwrap()));

        let both = normal(&[m, 2 * k], 3).as_dtype(x_type).unwrap();
        let (gate, up) = (both.try_index((.., ..k)).unwrap(), both.try_index((.., k..)).unwrap());
        let want: Vec<f64> = floats(&gate).into_iter().zip(floats(&up)).map(|(g, u)| gated(g, u)).collect();
        let got = swiglu(&both).unwrap();
        prop_assert!(far(&got, &want) < limit(x_type));
        prop_assert_eq!(bits(&got), bits(&swiglu2(&gate, &up).unwrap()));
    }

    /// What is folded into a product equals the two steps, to the bit.
    #[test]
    fn folded_steps_equal_single_ones(format in formats(), groups in 1..5_i32, n in 1..30_i32, m in 1..12_i32) {
        let k = groups * format.1;
        let (weight, _) = weight(n, k, format, Dtype::Float32, true);
        let (x, w) = (normal(&[1, m, k], 1), normal(&[k], 4));
        let two = linear(&rms_norm(&x, Some(&w), 1e-6).unwrap(), &weight).unwrap();
        prop_assert_eq!(bits(&norm_linear(&x, Some(&w), 1e-6, &weight).unwrap()), bits(&two));
        let both = normal(&[1, m, 2 * k], 6);
        let two = linear_plus(&swiglu(&both).unwrap(), &weight, &two).unwrap();
        let first = norm_linear(&x, Some(&w), 1e-6, &weight).unwrap();
        prop_assert_eq!(bits(&swiglu_linear(&both, &weight, Some(&first)).unwrap()), bits(&two));
    }
}

/// One attention problem.
#[derive(Debug, Clone)]
struct Case {
    batch: i32,
    kv_heads: i32,
    group: i32,
    dim: i32,
    context: i32,
    len: i32,
    kind: usize,
    mask: u8,
    window: i32,
    parents: Vec<i32>,
    sinks: bool,
    norms: bool,
    traditional: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let sizes = (
        1..3_i32,
        1..4_i32,
        1..6_i32,
        prop::sample::select(vec![8, 20, 32, 64, 80, 96, 128, 160, 192, 256]),
        0..70_i32,
        1..12_i32,
    );
    let kinds = (
        0..3_usize,
        0..5_u8,
        1..40_i32,
        prop::collection::vec(any::<prop::sample::Index>(), 12),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    );
    (sizes, kinds).prop_map(
        |((batch, kv_heads, group, dim, context, len), (kind, mask, window, picks, sinks, norms, traditional))| {
            let parents = (0..len).map(|i| picks[i as usize].index(i as usize + 1) as i32 - 1).collect();
            Case {
                batch,
                kv_heads,
                group,
                dim,
                context,
                len,
                kind,
                mask,
                window,
                parents,
                sinks,
                norms,
                traditional,
            }
        },
    )
}

impl Case {
    fn mask(&self) -> Mask<'_> {
        match self.mask {
            0 => Mask::Full,
            1 => Mask::Causal,
            2 => Mask::Sliding(self.window),
            3 => Mask::Tree {
                parents: &self.parents,
                window: None,
            },
            _ => Mask::Tree {
                parents: &self.parents,
                window: Some(self.window),
            },
        }
    }

    fn depth(&self, i: i32) -> i32 {
        let parent = self.parents[i as usize];
        if parent < 0 { 0 } else { self.depth(parent) + 1 }
    }

    /// By definition, pair by pair.
    fn sees(&self, i: i32, t: i32) -> bool {
        let tree = self.mask >= 3;
        let at = self.context + if tree { self.depth(i) } else { i };
        let key = if t < self.context || !tree {
            t
        } else {
            self.context + self.depth(t - self.context)
        };
        let near = ![2, 4].contains(&self.mask) || at - key < self.window;
        let allowed = match self.mask {
            0 => true,
            1 | 2 => t <= self.context + i,
            _ => {
                t < self.context || {
                    let mut node = i;
                    while node > t - self.context {
                        node = self.parents[node as usize];
                    }
                    node == t - self.context
                }
            }
        };
        near && allowed
    }

    fn positions(&self) -> Vec<i32> {
        (0..self.len)
            .map(|i| self.context + if self.mask >= 3 { self.depth(i) } else { i })
            .collect()
    }

    /// `q`: [B, H, L, D], `k` and `v`: [B, Hkv, total, D], in f64.
    fn reference(&self, q: &[f64], k: &[f64], v: &[f64], sinks: Option<&[f64]>) -> Vec<f64> {
        let (heads, d, total) = (
            (self.kv_heads * self.group) as usize,
            self.dim as usize,
            (self.context + self.len) as usize,
        );
        let mut all = vec![];
        for (row, q) in q.chunks(d).enumerate() {
            let (b, h, i) = (
                row / self.len as usize / heads,
                row / self.len as usize % heads,
                row % self.len as usize,
            );
            let at = |t: usize| ((b * self.kv_heads as usize + h / self.group as usize) * total + t) * d;
            let score = |t: usize| q.iter().zip(&k[at(t)..]).map(|(a, b)| a * b).sum::<f64>() / (d as f64).sqrt();
            let seen: Vec<(usize, f64)> = (0..total)
                .filter(|t| self.sees(i as i32, *t as i32))
                .map(|t| (t, score(t).exp()))
                .collect();
            let sum = seen.iter().map(|(_, w)| w).sum::<f64>() + sinks.map_or(0.0, |s| s[h].exp());
            all.extend((0..d).map(|j| seen.iter().map(|(t, w)| w / sum * v[at(*t) + j]).sum::<f64>()));
        }
        all
    }

    fn cache(&self) -> KvCache {
        let mut cache = KvCache::new(TYPES[self.kind], 16);
        if self.context > 0 {
            let shape = [self.batch, self.kv_heads, self.context, self.dim];
            cache.append(&normal(&shape, 11), &normal(&shape, 12)).unwrap();
        }
        cache
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn attention_is_softmax(case in cases()) {
        let heads = case.kv_heads * case.group;
        // Queries and keys as views of projections, head by head.
        let view = |heads: i32, key: u64| normal(&[case.batch, case.len, heads, case.dim], key).transpose_axes(&[0, 2, 1, 3]).unwrap();
        let (q, k, v) = (view(heads, 1), view(case.kv_heads, 2), view(case.kv_heads, 3));
        let sinks = case.sinks.then(|| normal(&[heads], 4));
        let mut cache = case.cache();
        cache.append(&k, &v).unwrap();
        let got = attend(&q, &cache, case.mask(), None, sinks.as_ref()).unwrap();
        let (keys, values) = cache.state().unwrap().unwrap();
        let want = case.reference(&floats(&q), &floats(&keys), &floats(&values), sinks.as_ref().map(floats).as_deref());
        let far = far(&got, &want);
        prop_assert!(far < 1e-5, "{}", far);
    }

    /// Norms, rope, append and attention in one, against the single functions; the cache it leaves; and each row alone.
    #[test]
    fn a_step_is_its_parts(case in cases()) {
        let (heads, d) = (case.kv_heads * case.group, case.dim);
        let qkv = normal(&[case.batch, case.len, (heads + 2 * case.kv_heads) * d], 1);
        let norm = |key| case.norms.then(|| (normal(&[d], key), 1e-6));
        let turned = d / 2 / 4 * 4;
        let layer = Attention {
            heads, kv_heads: case.kv_heads, dim: d, scale: None, q_norm: norm(7), k_norm: norm(8),
            rope: Some(Rope::with_base(1e4, turned, case.traditional)), sinks: case.sinks.then(|| normal(&[heads], 4)),
        };
        let positions = case.positions();
        let mut cache = case.cache();
        let got = layer.step(&qkv, &mut cache, Positions::Each(&positions), case.mask()).unwrap();

        let heads_of = |from: i32, count: i32| {
            let part = qkv.try_index((.., .., from * d..(from + count) * d)).unwrap();
            part.reshape(&[case.batch, case.len, count, d]).unwrap().transpose_axes(&[0, 2, 1, 3]).unwrap()
        };
        let normed = |x: Array, norm: &Option<(Array, f32)>| norm.as_ref().map_or(x.clone(), |(w, eps)| rms_norm(&x, Some(w), *eps).unwrap());
        let rope = layer.rope.as_ref().unwrap();
        let turn = |x: Array| rope.apply(&x, Positions::Each(&positions)).unwrap();
        let mut other = case.cache();
        other.append(&turn(normed(heads_of(heads, case.kv_heads), &layer.k_norm)), &heads_of(heads + case.kv_heads, case.kv_heads)).unwrap();
        let q = turn(normed(heads_of(0, heads), &layer.q_norm));
        let want = attend(&q, &other, case.mask(), None, layer.sinks.as_ref()).unwrap();
        let want = want.transpose_axes(&[0, 2, 1, 3]).unwrap().reshape(&[case.batch, case.len, heads * d]).unwrap();
        prop_assert_eq!(bits(&got), bits(&want));
        let ((a, b), (c, e)) = (cache.state().unwrap().unwrap(), other.state().unwrap().unwrap());
        prop_assert_eq!((bits(&a), bits(&b)), (bits(&c), bits(&e)));

        // One row after another is the same as all at once, to the bit.
        if [1, 2].contains(&case.mask) {
            let mut cache = case.cache();
            for i in 0..case.len {
                let row = layer.step(&rows(&qkv, i, i + 1), &mut cache, Positions::From(case.context + i), case.mask()).unwrap();
                prop_assert_eq!(bits(&row), bits(&rows(&got, i, i + 1)));
            }
        }
        // A cache that a snapshot shares is not written to.
        if case.context > 0 {
            let before = case.cache();
            let held = before.state().unwrap().unwrap();
            let old = bits(&held.0);
            let mut after = before.clone();
            let again = layer.step(&qkv, &mut after, Positions::Each(&positions), case.mask()).unwrap();
            prop_assert_eq!(bits(&again), bits(&got));
            prop_assert_eq!(old, bits(&before.state().unwrap().unwrap().0));
        }
    }

    #[test]
    fn rope_turns_pairs(heads in 1..4_i32, len in 1..6_i32, pairs in 1..40_i32, rest in 0..9_i32, x_type in 0..3_usize, traditional: bool,
                        scale in prop::sample::select(vec![1.0_f32, 0.7]), from in 0..3000_i32) {
        let d = 2 * pairs + rest;
        let x = normal(&[2, len, heads, d], 1).as_dtype(TYPES[x_type]).unwrap().transpose_axes(&[0, 2, 1, 3]).unwrap();
        let inv_freq: Vec<f32> = (0..pairs).map(|i| 0.3_f32.powf(i as f32 / 3.0)).collect();
        let positions: Vec<i32> = (0..len).map(|i| from + i * i).collect();
        let got = Rope::new(&inv_freq, traditional, scale).apply(&x, Positions::Each(&positions)).unwrap();
        let mut want = floats(&x);
        for (row, head) in want.chunks_mut(d as usize).enumerate() {
            for (i, freq) in inv_freq.iter().enumerate() {
                let (a, b) = if traditional { (2 * i, 2 * i + 1) } else { (i, i + pairs as usize) };
                // The angle is a product of f32, as everywhere.
                let (sin, cos) = f64::from(positions[row % len as usize] as f32 * freq).sin_cos();
                let (x, y) = (head[a] * f64::from(scale), head[b] * f64::from(scale));
                (head[a], head[b]) = (x * cos - y * sin, x * sin + y * cos);
            }
        }
        prop_assert!(far(&got, &want) < limit(TYPES[x_type]));
    }
}

/// Long rows and many of them, where blocks, panels and threads come in.
#[test]
fn large_shapes_are_exact_and_independent() {
    for (n, k, m, format) in [
        (515, 1536, 300, (4, 32)),
        (130, 5120, 70, (4, 64)),
        (97, 2048, 131, (8, 32)),
        (64, 704, 260, (0, 32)),
        (3072, 576, 9, (4, 32)),
    ] {
        let (weight, full) = weight(n, k, format, Dtype::Float16, false);
        let x = normal(&[1, m, k], 1);
        let all = linear(&x, &weight).unwrap();
        for at in [0, 1, m / 2, m - 1] {
            let alone = linear(&rows(&x, at, at + 1), &weight).unwrap();
            assert_eq!(bits(&rows(&all, at, at + 1)), bits(&alone));
            let x = floats(&rows(&x, at, at + 1));
            let want = product(&x, &full, k as usize, None);
            let most = want.iter().fold(1e-3, |m: f64, v| m.max(v.abs()));
            let limit = product_limit(Dtype::Float32, format.0, (&x, &full), k as usize, most).max(8e-6);
            assert!(far(&alone, &want) < limit);
        }
    }
}
