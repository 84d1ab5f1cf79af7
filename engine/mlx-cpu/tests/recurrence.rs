//! `scan` against a plain loop in f64: kernel and stock operations, chains and trees, with and without the delta rule.
#![allow(clippy::unwrap_used)]

use mlx_cpu::{Scan, Steps, force_stock, scan};
use mlx_rs::{Array, Dtype, ops::indexing::TryIndexOp};
use std::sync::Mutex;

/// The choice of operations is the process's.
static CHOICE: Mutex<()> = Mutex::new(());

const SHAPES: [(i32, i32, i32, i32); 3] = [(2, 4, 8, 16), (4, 4, 12, 24), (1, 3, 4, 8)];

struct Rows {
    keys: Array,
    values: Array,
    log_kept: Array,
    corrected: Array,
    queries: Array,
}

fn numbers(seed: u32, shape: &[i32], low: f32, high: f32) -> Array {
    let count: i32 = shape.iter().product();
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        low + (high - low) * (state >> 8) as f32 / (1 << 24) as f32
    };
    Array::from_slice(&(0..count).map(|_| next()).collect::<Vec<_>>(), shape)
}

impl Rows {
    fn new(seed: u32, length: i32, (groups, heads, dim, width): (i32, i32, i32, i32)) -> Self {
        Self {
            keys: numbers(seed, &[1, length, groups, width], -0.4, 0.4),
            values: numbers(seed + 1, &[1, length, heads, dim], -1.0, 1.0),
            log_kept: numbers(seed + 2, &[1, length, heads], -2.0, 0.0),
            corrected: numbers(seed + 3, &[1, length, heads], 0.0, 1.0),
            queries: numbers(seed + 4, &[1, length, groups, width], -1.0, 1.0),
        }
    }

    fn part(&self, from: i32, to: i32) -> Self {
        let part = |array: &Array| array.try_index((.., from..to)).unwrap();
        Self {
            keys: part(&self.keys),
            values: part(&self.values),
            log_kept: part(&self.log_kept),
            corrected: part(&self.corrected),
            queries: part(&self.queries),
        }
    }

    fn steps(&self, delta: bool) -> Steps<'_> {
        Steps {
            keys: &self.keys,
            values: &self.values,
            log_kept: &self.log_kept,
            corrected: delta.then_some(&self.corrected),
        }
    }
}

fn list(array: &Array) -> Vec<f32> {
    array.reshape(&[-1]).unwrap().to_vec_cast::<f32>().unwrap()
}

/// Results and the state behind each row, `parents[t]` being the row that `t` continues from.
fn plain(state: &Array, rows: &Rows, delta: bool, parents: &[i32]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let &[_, heads, dim, width] = state.shape() else { panic!() };
    let groups = rows.keys.dim(2);
    let [heads, dim, width, groups] = [heads, dim, width, groups].map(|n| n as usize);
    let (keys, values, kept, share, queries) = (
        list(&rows.keys),
        list(&rows.values),
        list(&rows.log_kept),
        list(&rows.corrected),
        list(&rows.queries),
    );
    let start: Vec<f64> = list(state).into_iter().map(f64::from).collect();
    let (mut results, mut states) = (Vec::new(), Vec::<Vec<f64>>::new());
    for (t, &parent) in parents.iter().enumerate() {
        let mut s = usize::try_from(parent).map_or(&start, |parent| &states[parent]).clone();
        for h in 0..heads {
            let g = h * groups / heads;
            let at = |list: &[f32], i: usize| f64::from(list[(t * groups + g) * width + i]);
            for d in 0..dim {
                let row = &mut s[(h * dim + d) * width..][..width];
                for x in row.iter_mut() {
                    *x *= f64::from(kept[t * heads + h]).exp();
                }
                let mut taken = f64::from(values[(t * heads + h) * dim + d]);
                if delta {
                    let held: f64 = (0..width).map(|i| row[i] * at(&keys, i)).sum();
                    taken = f64::from(share[t * heads + h]) * (taken - held);
                }
                (0..width).for_each(|i| row[i] += taken * at(&keys, i));
                results.push((0..width).map(|i| row[i] * at(&queries, i)).sum());
            }
        }
        states.push(s);
    }
    (results, states)
}

fn close(found: &Array, expected: &[f64], what: &str) {
    let found = list(found);
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((f64::from(*found) - expected).abs() < 2e-5, "{what}: {found} is not {expected}");
    }
}

fn chain(length: i32) -> Vec<i32> {
    (-1..length - 1).collect()
}

/// Pending rows first, then rows in a chain, with either state asked for.
#[test]
fn chains() {
    let _choice = CHOICE.lock().unwrap();
    for stock in [false, true] {
        force_stock(stock);
        for (case, shape) in SHAPES.into_iter().enumerate() {
            for delta in [false, true] {
                for (before, length) in [(0, 1), (0, 9), (1, 1), (5, 3), (8, 130)] {
                    let what = format!("stock {stock}, shape {case}, delta {delta}, {before} pending and {length}");
                    let all = Rows::new(case as u32 * 100 + 7, before + length, shape);
                    let state = numbers(99, &[1, shape.1, shape.2, shape.3], -1.0, 1.0);
                    let (results, states) = plain(&state, &all, delta, &chain(before + length));
                    let (pending, rows) = (all.part(0, before), all.part(before, before + length));
                    for behind in [false, true] {
                        let scanned = Scan {
                            pending: (before > 0).then(|| pending.steps(delta)),
                            rows: rows.steps(delta),
                            queries: &rows.queries,
                            parents: None,
                            behind,
                        };
                        let (found, left) = scan(state.clone(), &scanned).unwrap();
                        let from = results.len() / (before + length) as usize * before as usize;
                        close(&found, &results[from..], &what);
                        let start: Vec<f64> = list(&state).into_iter().map(f64::from).collect();
                        let expected = match (behind, before) {
                            (true, _) => &states[(before + length) as usize - 1],
                            (false, 0) => &start,
                            (false, before) => &states[before as usize - 1],
                        };
                        close(&left, expected, &what);
                    }
                }
            }
        }
    }
    force_stock(false);
}

#[test]
fn trees() {
    const PARENTS: [i32; 8] = [-1, 0, 0, 1, 2, 2, -1, 6];
    let _choice = CHOICE.lock().unwrap();
    for stock in [false, true] {
        force_stock(stock);
        for (case, shape) in SHAPES.into_iter().enumerate() {
            for delta in [false, true] {
                let (pending, rows) = (Rows::new(3, 2, shape), Rows::new(40, 8, shape));
                let state = numbers(5, &[1, shape.1, shape.2, shape.3], -1.0, 1.0);
                let (_, states) = plain(&state, &pending, delta, &chain(2));
                let middle: Vec<f32> = states[1].iter().map(|x| *x as f32).collect();
                let middle = Array::from_slice(&middle, state.shape());
                let (expected, _) = plain(&middle, &rows, delta, &PARENTS);
                let scanned = Scan {
                    pending: Some(pending.steps(delta)),
                    rows: rows.steps(delta),
                    queries: &rows.queries,
                    parents: Some(&PARENTS),
                    behind: false,
                };
                let (found, left) = scan(state, &scanned).unwrap();
                let what = format!("stock {stock}, shape {case}, delta {delta}");
                close(&found, &expected, &what);
                close(&left, &states[1], &what);
            }
        }
    }
    force_stock(false);
}

/// Deferred and eager commits are the same to the bit: it does not matter which rows were pending.
#[test]
fn when_rows_are_taken_in_does_not_show() {
    let _choice = CHOICE.lock().unwrap();
    force_stock(false);
    for delta in [false, true] {
        let shape = (2, 4, 8, 16);
        let all = Rows::new(11, 7, shape);
        let state = numbers(6, &[1, 4, 8, 16], -1.0, 1.0);
        let (first, second) = (all.part(0, 4), all.part(4, 7));
        let eager = Scan {
            pending: None,
            rows: first.steps(delta),
            queries: &first.queries,
            parents: None,
            behind: true,
        };
        let (_, taken) = scan(state.clone(), &eager).unwrap();
        let rest = Scan {
            rows: second.steps(delta),
            queries: &second.queries,
            ..eager
        };
        let (eager, behind) = scan(taken, &rest).unwrap();
        let deferred = Scan {
            pending: Some(first.steps(delta)),
            ..rest
        };
        let (deferred, same) = scan(state, &deferred).unwrap();
        assert_eq!((list(&eager), list(&behind)), (list(&deferred), list(&same)));
    }
}

#[test]
fn misfits_are_refused() {
    let rows = Rows::new(1, 3, (2, 4, 8, 16));
    let scanned = |parents: Option<&'static [i32]>, behind| Scan {
        pending: None,
        rows: rows.steps(true),
        queries: &rows.queries,
        parents,
        behind,
    };
    let state = |shape: &[i32]| mlx_rs::ops::zeros_dtype(shape, Dtype::Float32).unwrap();
    assert!(scan(state(&[1, 3, 8, 16]), &scanned(None, false)).is_err());
    assert!(scan(state(&[1, 4, 8, 16]), &scanned(Some(&[-1, 0]), false)).is_err());
    assert!(scan(state(&[1, 4, 8, 16]), &scanned(Some(&[-1, 0, 0]), true)).is_err());
    let late = scan(state(&[1, 4, 8, 16]), &scanned(Some(&[-1, 2, 0]), false)).and_then(|(y, _)| y.eval().map(|()| y));
    assert!(late.is_err());
}
