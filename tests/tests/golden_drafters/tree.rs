//! Draft trees against an enumeration from the formulas of `spec/speculation.md` §8.1, in f64.

use super::*;
use std::collections::BTreeMap;

type Children<'a> = dyn Fn(&[u32]) -> Vec<(u32, f64)> + 'a;

/// The logs of probabilities that a tree is chosen by: children of a path with their own, whatever the drafter.
struct Scores<'a> {
    depth: usize,
    children: Box<Children<'a>>,
}

/// That `tree` is the `nodes` likeliest paths: its nodes' scores are the formulas', and nothing that could still be added
/// is likelier than what is in it.
fn check(tree: &dspark_speculate::tree::DraftTree, nodes: usize, scores: &Scores<'_>, what: &str) {
    assert_eq!(tree.tokens.len(), nodes, "{what}");
    let mut of: BTreeMap<Vec<u32>, f64> = BTreeMap::new();
    let paths: Vec<Vec<u32>> = (0..nodes).map(|node| tree.path_tokens(node)).collect();
    for (node, path) in paths.iter().enumerate() {
        assert!(tree.parents[node] < node as i32, "{what}: parents come first");
        let (token, before) = path.split_last().unwrap();
        let above = if before.is_empty() { 0.0 } else { of[before] };
        let found = (scores.children)(before).into_iter().find(|(id, _)| id == token);
        let (_, logp) = found.unwrap_or_else(|| panic!("{what}: {token} is no candidate after {before:?}"));
        assert!(of.insert(path.clone(), above + logp).is_none(), "{what}: {path:?} is there twice");
    }
    let worst = of.values().copied().fold(f64::INFINITY, f64::min);
    for path in std::iter::once(&Vec::new()).chain(&paths) {
        if path.len() == scores.depth {
            continue;
        }
        let above = of.get(path).copied().unwrap_or(0.0);
        for (token, logp) in (scores.children)(path) {
            let next = [&path[..], &[token]].concat();
            let left_out = above + logp;
            assert!(
                of.contains_key(&next) || left_out <= worst + 1e-4,
                "{what}: {next:?} at {left_out} is likelier than {worst}"
            );
        }
    }
}

fn log_sum_exp(row: &[f64]) -> f64 {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    max + row.iter().map(|x| (x - max).exp()).sum::<f64>().ln()
}

fn wide(row: &[f32]) -> Vector {
    row.iter().map(|x| f64::from(*x)).collect()
}

type Vector = Vec<f64>;

#[test]
fn a_lattice_gives_its_likeliest_paths() {
    for case in DFLASH2.map(Case::open) {
        case.each_round(|case, round, context, what| {
            let anchor = anchor(round);
            let most = case.drafter.spec().max_draft();
            for nodes in [1, 2, most, 2 * most + 1, 40] {
                let depth = nodes.min(most);
                let lattice = case.drafter.lattice(&anchor, depth, context).unwrap();
                let (candidates, k) = (tokens(&lattice.candidates), lattice.candidates.dim(1) as usize);
                let scores = floats(&lattice.scores);
                let children = |path: &[u32]| {
                    let slot = path.len();
                    let index = path.last().map_or(0, |token| {
                        candidates[(slot - 1) * k..][..k].iter().position(|id| id == token).unwrap()
                    });
                    let row = wide(&scores[(slot * k + index) * k..][..k]);
                    let log = log_sum_exp(&row);
                    candidates[slot * k..][..k]
                        .iter()
                        .zip(row)
                        .map(|(id, score)| (*id, score - log))
                        .collect()
                };
                let tree = case.drafter.tree(&anchor, nodes, context).unwrap();
                let scores = Scores {
                    depth,
                    children: Box::new(children),
                };
                check(&tree, nodes, &scores, &format!("{what}, {nodes} nodes"));
            }
        });
    }
}

/// Rows of a Markov head's greedy chain are exact over the whole vocabulary; beside it, the candidates of the chain's rows
/// are scored by base logits and the Markov term, with the chain's mass beyond them.
#[test]
fn a_markov_head_gives_its_likeliest_paths() {
    let with_markov = DSPARK
        .map(Case::open)
        .into_iter()
        .filter(|case| case.drafter.tree_refusal().is_none());
    let mut branched = 0;
    for case in with_markov {
        if case.name == "prismml-gguf-logsnr" || case.name == "modelopt-nvfp4" {
            // Their Markov matrices are not stored plainly.
            continue;
        }
        let stored = Array::load_safetensors(root().join(&case.name).join("model.safetensors")).unwrap();
        let matrix = |name: &str| rows(&stored[&format!("markov_head.{name}.weight")].as_dtype(Dtype::Float32).unwrap());
        let (w1, w2) = (matrix("markov_w1"), matrix("markov_w2"));
        let table = case.drafter.target_table();
        let target = |column: usize| table.as_ref().map_or(column as u32, |table| table[column]);
        let mut context = case.drafter.new_context();
        case.drafter.commit(&case.rows(0, 21), &mut context).unwrap();
        let (first, most) = (20_u32, case.drafter.spec().max_draft());
        let chain = case.drafter.chain(&one(first), most, &mut context).unwrap();
        let base: Vec<Vector> = rows(&chain.base).iter().map(|row| wide(row)).collect();
        let corrected = |slot: usize, previous: u32| -> Vector {
            let e = wide(&w1[previous as usize]);
            base[slot].iter().zip(&w2).map(|(base, w2)| base + dot(&wide(w2), &e)).collect()
        };
        let best = |row: &[f64]| -> Vec<usize> {
            let mut columns: Vec<usize> = (0..row.len()).collect();
            columns.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
            columns.truncate(8);
            columns
        };
        // The greedy chain: its rows, their candidates, and the mass beyond.
        let mut previous = first;
        let slots: Vec<_> = (0..most)
            .map(|slot| {
                let row = corrected(slot, previous);
                let columns = best(&row);
                previous = target(columns[0]);
                let beyond: f64 = (0..row.len())
                    .filter(|column| !columns.contains(column))
                    .map(|column| row[column].exp())
                    .sum();
                (columns, beyond)
            })
            .collect();
        for nodes in [1, 3, most, 3 * most] {
            let depth = nodes.min(most);
            let children = |path: &[u32]| {
                let slot = path.len();
                let row = corrected(slot, path.last().copied().unwrap_or(first));
                let (columns, beyond) = &slots[slot];
                let log = (columns.iter().map(|column| row[*column].exp()).sum::<f64>() + beyond).ln();
                columns.iter().map(|column| (target(*column), row[*column] - log)).collect()
            };
            let tree = case.drafter.tree(&one(first), nodes, &mut context).unwrap();
            branched += usize::from(!tree.is_chain());
            let scores = Scores {
                depth,
                children: Box::new(children),
            };
            check(&tree, nodes, &scores, &format!("{}, {nodes} nodes", case.name));
        }
    }
    assert!(branched > 5, "only {branched} trees have branches");
}

/// Where the drafter is sure, a tree is the greedy chain.
#[test]
fn a_sure_drafter_gives_a_chain() {
    let dir = tempfile::tempdir().unwrap();
    let native = root().join("dspark-native-qwen3");
    let mut stored = Array::load_safetensors(native.join("model.safetensors")).unwrap();
    for name in ["lm_head.weight", "markov_head.markov_w2.weight"] {
        let louder = mlx_rs::ops::multiply(&stored[name], Array::from_slice(&[400.0_f32], &[1])).unwrap();
        stored.insert(name.into(), louder);
    }
    let named = stored.iter().map(|(name, array)| (name.as_str(), array));
    Array::save_safetensors(named, None, dir.path().join("model.safetensors")).unwrap();
    std::fs::copy(native.join("config.json"), dir.path().join("config.json")).unwrap();
    let case = Case::of("dspark-native-qwen3", dir.path(), &exact());
    let mut context = case.drafter.new_context();
    case.drafter.commit(&case.rows(0, 21), &mut context).unwrap();
    for nodes in [1, 3, 7] {
        let tree = case.drafter.tree(&one(20), nodes, &mut context).unwrap();
        let chain = tokens(&case.drafter.draft(&one(20), nodes, &mut context).unwrap());
        assert!(tree.is_chain(), "{tree:?}");
        assert_eq!(tree.tokens, chain);
    }
}

#[test]
fn independent_slots_have_no_trees() {
    for case in DFLASH.map(Case::open).into_iter().chain([Case::open("dspark-native-markov0")]) {
        let reason = case.drafter.tree_refusal().unwrap();
        let mut context = case.drafter.new_context();
        let error = case.drafter.tree(&one(1), 4, &mut context).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
