//! The semantic functions against each other: a draft tree that is a chain is causal attention, steps equal one pass.
#![allow(clippy::unwrap_used)]
use mlx_cpu::{Attention, KvCache, Mask, Positions, Rope, Weight, attend, embed, linear};
use mlx_rs::{Array, Dtype, ops, ops::indexing::IndexOp, random};

fn normal(shape: &[i32], key: u64) -> Array {
    random::normal::<f32>(shape, None, None, &random::key(key).unwrap()).unwrap()
}

fn far(a: &Array, b: &Array) -> f32 {
    assert_eq!(a.shape(), b.shape());
    (a - b).abs().unwrap().max(None).unwrap().item_exact::<f32>()
}

fn layer() -> Attention {
    let norm = |key| Some((normal(&[64], key), 1e-6));
    Attention {
        heads: 6,
        kv_heads: 2,
        dim: 64,
        scale: None,
        q_norm: norm(8),
        k_norm: norm(9),
        rope: Some(Rope::with_base(1e4, 64, false)),
        sinks: None,
    }
}

#[test]
fn steps_equal_one_pass() {
    let (layer, qkv) = (layer(), normal(&[2, 9, 640], 1));
    let mut once = KvCache::new(Dtype::Float32, 4);
    let want = layer.step(&qkv, &mut once, Positions::From(0), Mask::Causal).unwrap();
    let mut steps = KvCache::new(Dtype::Float32, 4);
    let mut got = vec![];
    for (from, to) in [(0, 4), (4, 5), (5, 9)] {
        got.push(
            layer
                .step(&qkv.index((.., from..to, ..)), &mut steps, Positions::From(from), Mask::Causal)
                .unwrap(),
        );
    }
    assert!(far(&ops::concatenate(&got, 1).unwrap(), &want) < 2e-5);
    assert_eq!(steps.len(), 9);
}

#[test]
fn a_tree_branch_equals_its_chain() {
    let (layer, qkv) = (layer(), normal(&[1, 8, 640], 2));
    let mut cache = KvCache::new(Dtype::Float32, 16);
    layer
        .step(&qkv.index((.., 0..4, ..)), &mut cache, Positions::From(0), Mask::Causal)
        .unwrap();
    let context = cache.clone();
    // Nodes 0 and 1 under the context, 2 under 0, 3 under 2: the branch 0, 2, 3.
    let parents = [-1, -1, 0, 2];
    for window in [None, Some(3)] {
        let mut tree = context.clone();
        let rows = qkv.index((.., 4..8, ..));
        let got = layer
            .step(
                &rows,
                &mut tree,
                Positions::Each(&[4, 4, 5, 6]),
                Mask::Tree { parents: &parents, window },
            )
            .unwrap();
        let branch = rows.take_axis(Array::from_slice(&[0, 2, 3], &[3]), 1).unwrap();
        let mut chain = context.clone();
        let mask = window.map_or(Mask::Causal, Mask::Sliding);
        let want = layer.step(&branch, &mut chain, Positions::From(4), mask).unwrap();
        assert!(far(&got.take_axis(Array::from_slice(&[0, 2, 3], &[3]), 1).unwrap(), &want) < 2e-5);
        // Committed, the caches are the same.
        tree.compact(4, &[0, 2, 3]).unwrap();
        let ((a, b), (c, d)) = (tree.state().unwrap().unwrap(), chain.state().unwrap().unwrap());
        assert!(far(&a, &c) < 1e-6 && far(&b, &d) < 1e-6);
        let next = normal(&[1, 1, 640], 3);
        let of = |cache: &mut KvCache| layer.step(&next, cache, Positions::From(7), mask).unwrap();
        assert!(far(&of(&mut tree), &of(&mut chain)) < 2e-5);
    }
}

#[test]
fn embeds_and_joins() {
    let parts: Vec<Weight> = (0..3)
        .map(|i| normal(&[8 + i, 64], i as u64))
        .map(|w| ops::quantize(&w, 32, 4).unwrap())
        .map(|(w, s, b)| Weight::affine(w, s, b, 32, 4))
        .collect();
    let joined = Weight::join(&parts.iter().collect::<Vec<_>>()).unwrap().unwrap();
    assert_eq!((joined.outputs(), joined.inputs()), (27, 64));
    let x = normal(&[2, 3, 64], 7);
    let want = ops::concatenate(&parts.iter().map(|w| linear(&x, w).unwrap()).collect::<Vec<_>>(), -1).unwrap();
    assert!(far(&linear(&x, &joined).unwrap(), &want) < 1e-5);
    let Weight::Affine { w, scales, biases, .. } = &joined else {
        panic!()
    };
    let full = ops::dequantize(w, scales, biases, 32, 4).unwrap();
    let ids = Array::from_slice(&[26, 0, 3, 3], &[2, 2]);
    assert!(far(&embed(&ids, &joined, Dtype::Float32).unwrap(), &full.take_axis(&ids, 0).unwrap()) == 0.0);
}

#[test]
fn misfits_are_errors() {
    let mut cache = KvCache::new(Dtype::Float32, 4);
    let q = normal(&[1, 2, 3, 8], 1);
    assert!(attend(&q, &cache, Mask::Causal, None, None).is_err());
    cache.append(&q, &q).unwrap();
    assert!(cache.append(&normal(&[1, 2, 3, 16], 1), &q).is_err());
    assert!(attend(&normal(&[1, 3, 3, 8], 1), &cache, Mask::Causal, None, None).is_err());
    assert!(
        attend(
            &q,
            &cache,
            Mask::Tree {
                parents: &[0, 0, 0],
                window: None
            },
            None,
            None
        )
        .is_err()
    );
    assert!(cache.compact(0, &[1, 1]).is_err());
    assert!(cache.compact(1, &[2]).is_err());
}

#[test]
fn settled_weights_hold_the_same() {
    // More than two huge pages, so that at least one lies inside, whatever the alignment.
    let w = normal(&[1600, 1024], 5);
    let before = w.as_slice::<f32>().to_vec();
    let bytes = mlx_cpu::settle([&w]).unwrap();
    assert!(bytes <= w.nbytes());
    assert_eq!(w.as_slice::<f32>(), &before[..]);
}

#[test]
fn errors_name_no_place_of_the_build() {
    let text = ops::matmul(normal(&[2, 3], 1), normal(&[2, 3], 2)).unwrap_err();
    let text = text.what();
    assert!(text.contains("mlx/c/ops.cpp") && !text.contains("at /"), "{text}");
}
