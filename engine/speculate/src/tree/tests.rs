use super::*;
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
};

type Row = Vec<(u32, f32)>;

/// A drafter's continuations of any path, made up from a seed.
fn continuations(seed: u64, path: &[u32], width: usize) -> Row {
    let hash = |x: u64| {
        let z = (x ^ (x >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (z ^ (z >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33
    };
    let base = path.iter().fold(hash(seed), |h, &token| hash(h ^ u64::from(token + 1)));
    // Few values, so that ties are common.
    (0..width as u32)
        .map(|token| (token, -((hash(base ^ (u64::from(token) << 8)) % 8) as f32) / 4.0))
        .collect()
}

fn grow(budget: usize, depth: usize, row: impl Fn(&[u32]) -> Row) -> DraftTree {
    best_first(budget, depth, &row(&[]), |path| Ok::<_, Infallible>(row(path))).unwrap()
}

/// Every path of the whole tree with its score, best first by the same order.
fn all_paths(depth: usize, row: &impl Fn(&[u32]) -> Row) -> Vec<(Vec<u32>, f64)> {
    let mut paths = Vec::new();
    let mut level = vec![(Vec::new(), 0.0)];
    for _ in 0..depth {
        let mut next = Vec::new();
        for (path, score) in level {
            for (token, logp) in row(&path) {
                let mut path: Vec<u32> = path.clone();
                path.push(token);
                next.push((path, score + f64::from(logp)));
            }
        }
        paths.extend(next.iter().cloned());
        level = next;
    }
    paths
}

fn paths_of(tree: &DraftTree) -> BTreeSet<Vec<u32>> {
    (0..tree.len()).map(|node| tree.path_tokens(node)).collect()
}

proptest! {
    #[test]
    fn the_chosen_nodes_are_the_likeliest_there_are(seed: u64, budget in 0..20_usize, depth in 0..4_usize, width in 1..4_usize) {
        let row = |path: &[u32]| continuations(seed, path, width);
        let tree = grow(budget, depth, row);
        let mut all = all_paths(depth, &row);
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        prop_assert_eq!(tree.len(), budget.min(all.len()));
        let scores: BTreeMap<Vec<u32>, f64> = all.iter().cloned().collect();
        let mut ours: Vec<f64> = paths_of(&tree).iter().map(|path| scores[path]).collect();
        ours.sort_by(|a, b| b.total_cmp(a));
        // Ties at the cut may fall either way; the scores may not.
        let best: Vec<f64> = all.iter().take(tree.len()).map(|path| path.1).collect();
        prop_assert_eq!(ours, best);
        prop_assert!(tree.max_depth() <= depth);
    }

    #[test]
    fn a_tree_is_well_formed_and_its_spine_comes_first(seed: u64, budget in 1..24_usize, depth in 1..6_usize, width in 1..5_usize) {
        let tree = grow(budget, depth, |path| continuations(seed, path, width));
        prop_assert_eq!(paths_of(&tree).len(), tree.len(), "no sibling twice");
        for node in 0..tree.len() {
            prop_assert!(tree.parents[node] < node as i32);
            prop_assert_eq!(tree.child(tree.parent(node), tree.tokens[node]), Some(node));
        }
        let spine = tree.spine();
        prop_assert_eq!(&spine, &(0..spine.len()).collect::<Vec<_>>());
        prop_assert!(is_prefix(&kept_rows(&spine)));
        let rows = tree.row_parents();
        prop_assert_eq!(rows.len(), tree.row_tokens(9).len());
        prop_assert!(rows.iter().enumerate().all(|(row, &parent)| parent < row as i32));
    }

    #[test]
    fn a_larger_budget_keeps_what_a_smaller_one_chose(seed: u64, budget in 1..20_usize) {
        let row = |path: &[u32]| continuations(seed, path, 3);
        prop_assert!(paths_of(&grow(budget, 4, row)).is_subset(&paths_of(&grow(budget + 1, 4, row))));
    }

    #[test]
    fn the_order_of_continuations_does_not_matter(seed: u64, budget in 1..16_usize) {
        let row = |path: &[u32]| continuations(seed, path, 4);
        let reversed = |path: &[u32]| row(path).into_iter().rev().collect();
        prop_assert_eq!(grow(budget, 4, row), grow(budget, 4, reversed));
    }
}

#[test]
fn all_the_mass_on_one_path_is_a_chain() {
    let tree = grow(5, 5, |path| vec![(path.len() as u32 + 10, 0.0), (3, f32::NEG_INFINITY)]);
    assert_eq!(tree, DraftTree::chain(vec![10, 11, 12, 13, 14]));
    assert!(tree.is_chain());
    // Nearly all the mass: still the chain, as deep as it may go, then the side branches.
    let tree = grow(5, 3, |path| vec![(path.len() as u32 + 10, -0.01), (3, -4.0)]);
    assert_eq!(tree.tokens[..3], [10, 11, 12]);
    assert_eq!(tree.spine(), [0, 1, 2]);
    assert_eq!(tree.len(), 5);
}

#[test]
fn ties_go_to_the_shallower_then_to_the_lower_id() {
    let tree = grow(3, 3, |_| vec![(7, 0.0), (2, 0.0)]);
    assert_eq!(paths_of(&tree), BTreeSet::from([vec![2], vec![7], vec![2, 2]]));
}

#[test]
fn a_token_named_twice_is_one_child_and_nonsense_is_none() {
    let row = |path: &[u32]| match path {
        [] => vec![(1, -2.0), (4, f32::NAN), (1, -0.5), (2, -1.0), (5, f32::NEG_INFINITY)],
        _ => vec![],
    };
    let tree = grow(8, 3, row);
    assert_eq!((&tree.tokens[..], &tree.parents[..]), (&[1, 2][..], &[-1, -1][..]));
}

#[test]
fn a_path_is_asked_for_once_and_only_while_it_matters() {
    let mut asked = Vec::new();
    let row = |path: &[u32]| continuations(5, path, 3);
    let tree = best_first(6, 2, &row(&[]), |path| {
        asked.push(path.to_vec());
        Ok::<_, Infallible>(row(path))
    });
    assert_eq!(tree.unwrap().len(), 6);
    let distinct: BTreeSet<_> = asked.iter().collect();
    assert_eq!(distinct.len(), asked.len());
    assert!(
        asked.iter().all(|path| path.len() == 1),
        "nothing behind the deepest level: {asked:?}"
    );
    assert_eq!(best_first(6, 2, &row(&[]), |_| Err("the rows are gone")), Err("the rows are gone"));
    assert!(best_first(0, 2, &row(&[]), |_| Err("never asked")).unwrap().is_empty());
}

#[test]
fn rows_and_paths_of_a_small_tree() {
    // 8 ─ 1 ┬ 2 ─ 3
    //       └ 4
    //   └ 5
    let tree = DraftTree {
        tokens: vec![1, 2, 3, 4, 5],
        parents: vec![-1, 0, 1, 0, -1],
    };
    assert_eq!(tree.row_tokens(8), [8, 1, 2, 3, 4, 5]);
    assert_eq!(tree.row_parents(), [-1, 0, 1, 2, 1, 0]);
    assert_eq!(tree.path(3), [0, 3]);
    assert_eq!(tree.path_tokens(2), [1, 2, 3]);
    assert_eq!((tree.depth(2), tree.max_depth()), (3, 3));
    assert_eq!(tree.spine(), [0, 1, 2]);
    assert!(!tree.is_chain());
    assert_eq!(kept_rows(&[0, 3]), [0, 1, 4]);
    assert!(!is_prefix(&kept_rows(&[0, 3])) && is_prefix(&kept_rows(&[0, 1])));
    assert_eq!(DraftTree::chain(vec![]).max_depth(), 0);
}
