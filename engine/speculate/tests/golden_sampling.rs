//! Truncation, acceptance and confidence against numbers computed in float64 (`tests/oracle/sampling`).
#![allow(clippy::unwrap_used)]

use dspark_speculate::{
    accept::{self, Outcome, Proposal},
    confidence,
    sample::{
        rng::Lane,
        shape::{Distribution, Shape},
    },
};
use serde_json::Value;
use std::convert::Infallible;

fn golden() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracle/sampling/golden.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn shape(case: &Value) -> Shape {
    Shape {
        temperature: case.get("temperature").map_or(1.0, |t| t.as_f64().unwrap() as f32),
        top_p: case["top_p"].as_f64().unwrap() as f32,
        top_k: case["top_k"].as_u64().unwrap() as u32,
        min_p: case.get("min_p").map_or(0.0, |p| p.as_f64().unwrap() as f32),
    }
}

/// As given, not normalised again: ratios are compared to the last bit.
fn sparse(dense: &Value) -> Distribution {
    let dense = numbers(dense);
    let ids: Vec<u32> = (0..dense.len() as u32).filter(|&id| dense[id as usize] > 0.0).collect();
    let p = ids.iter().map(|&id| dense[id as usize]).collect();
    Distribution { ids, p }
}

fn close(ours: &Distribution, dense: &[f64], tolerance: f64) -> bool {
    (dense.iter().enumerate()).all(|(id, &p)| (ours.of(id as u32) - p).abs() <= tolerance)
}

#[test]
fn truncation_keeps_what_the_reference_keeps() {
    let golden = golden();
    let cases = golden["truncation"].as_array().unwrap();
    for case in cases {
        let row = numbers(&golden["truncation_rows"][case["row"].as_str().unwrap()]);
        let weights: Vec<f32> = row.iter().map(|&p| p as f32).collect();
        let ours = Distribution::of_weights(&weights, &shape(case));
        let kept: Vec<u64> = case["kept"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
        if ours.ids.iter().map(|&id| u64::from(id)).ne(kept.iter().copied()) {
            // 0.4 + 0.3 + 0.2 is below 0.9 in float64 and above it in float32: the cut falls on rounding.
            let (Some(&cut), share) = (ours.ids.last(), &row) else {
                panic!("{case}")
            };
            let before: f64 = share.iter().filter(|&&p| p >= share[cut as usize]).sum();
            assert!((before - case["top_p"].as_f64().unwrap()).abs() < 1e-7, "{case} {ours:?}");
            continue;
        }
        assert!(close(&ours, &numbers(&case["p"]), 1e-6), "{case} {ours:?}");
    }
    assert_eq!(cases.len(), 91);
}

#[test]
fn chains_are_accepted_as_the_reference_does() {
    let golden = golden();
    let cases = golden["acceptance"].as_array().unwrap();
    for case in cases {
        let label = case["case"].as_str().unwrap();
        if let Some(rows) = case.get("target_logits") {
            for (logits, p) in rows.as_array().unwrap().iter().zip(case["p"].as_array().unwrap()) {
                let logits: Vec<f32> = numbers(logits).iter().map(|&x| x as f32).collect();
                let ours = Distribution::of_logits(&logits, &shape(case)).unwrap();
                assert!(close(&ours, &numbers(p), 1e-6), "{label}");
            }
        }
        let rows = |key: &str| case[key].as_array().unwrap().iter().map(sparse).collect::<Vec<_>>();
        let (p, q, mut u) = (rows("p"), rows("q"), numbers(&case["u"]));
        let drafts: Vec<u32> = numbers(&case["draft"]).iter().map(|&id| id as u32).collect();
        for (i, prob) in numbers(&case["accept_prob"]).into_iter().enumerate() {
            // Reading JSON rounds; what was at the ratio, or just below, must stay there.
            let ratio = p[i].of(drafts[i]) / q[i].of(drafts[i]);
            if (u[i] - prob).abs() < 1e-14 && prob < 1.0 {
                u[i] = if u[i] == prob { ratio } else { ratio.next_down() };
            }
        }
        let draw = case.get("draw_u").map_or(0.5, |u| u.as_f64().unwrap());
        let mut asked = 0;
        let outcome = accept::chain(
            &drafts,
            |i| Proposal::Drawn(&q[i]),
            |i| {
                assert_eq!(i, asked, "rows are asked for once, in order");
                asked += 1;
                Ok::<_, Infallible>(p[i].clone())
            },
            |i, lane| if lane == Lane::Accept { u[i] } else { draw },
        )
        .unwrap();
        let accepted = case["accepted"].as_u64().unwrap() as usize;
        assert_eq!(asked, accepted + 1, "{label}: no row beyond the first rejection");
        let next = sparse(&case["next_dist"]);
        let token = case
            .get("next_token_inverse_cdf")
            .map_or_else(|| next.draw(draw), |id| id.as_u64().unwrap() as u32);
        assert_eq!(outcome, Outcome { accepted, token }, "{label} {case}");
        let ours = match case["next_from"].as_str().unwrap() {
            "residual" => accept::residual(&p[accepted], &q[accepted]).unwrap(),
            "residual_empty_use_p" => {
                assert_eq!(accept::residual(&p[accepted], &q[accepted]), None);
                p[accepted].clone()
            }
            _ => p[accepted].clone(),
        };
        assert!(close(&ours, &numbers(&case["next_dist"]), 1e-12), "{label}");
    }
    assert_eq!(cases.len(), 37);
}

#[test]
fn a_point_is_a_one_hot_proposal() {
    let golden = golden();
    for case in golden["acceptance"].as_array().unwrap() {
        let p = sparse(&case["p"][0]);
        let draft = case["draft"][0].as_u64().unwrap() as u32;
        // Over a grid of uniforms: the share accepted is p(draft), and the rest is p without it.
        let n = 4000;
        let mut counts = [0_u32; 24];
        let mut accepted = 0;
        for step in 0..n {
            let u = (f64::from(step) + 0.5) / f64::from(n);
            let row = |_| Ok::<_, Infallible>(p.clone());
            let outcome = accept::chain(&[draft], |_| Proposal::Point, row, |_, _| u).unwrap();
            accepted += u32::from(outcome.accepted == 1);
            if outcome.accepted == 0 {
                counts[outcome.token as usize] += 1;
            }
        }
        assert!((f64::from(accepted) / f64::from(n) - p.of(draft)).abs() < 1e-3);
        assert_eq!(counts[draft as usize], 0);
        for (id, &count) in counts.iter().enumerate().filter(|(id, _)| *id != draft as usize) {
            assert!((f64::from(count) / f64::from(n) - p.of(id as u32)).abs() < 1e-3);
        }
    }
}

#[test]
fn acceptance_and_residual_add_up_to_the_target() {
    let golden = golden();
    let mut cases = golden["exactness"].as_array().unwrap().clone();
    // sp-010
    cases.push(serde_json::json!({
        "p": [0.5, 0.3, 0.2], "q": [0.2, 0.5, 0.3], "accept_rate": 0.7, "residual": [1.0, 0.0, 0.0],
        "accepted_mass": [0.2, 0.3, 0.2],
    }));
    for case in &cases {
        let (p, q) = (sparse(&case["p"]), sparse(&case["q"]));
        let taken = numbers(&case["accepted_mass"]);
        let rate = case["accept_rate"].as_f64().unwrap();
        let ours = accept::residual(&p, &q).unwrap();
        assert!(close(&ours, &numbers(&case["residual"]), 1e-12), "{ours:?}");
        for (id, taken) in taken.iter().enumerate() {
            let id = id as u32;
            let ratio = (p.of(id) / q.of(id)).min(1.0);
            assert!((q.of(id) * ratio - taken).abs() < 1e-12);
            // Just below the ratio the draft is taken, at it no longer.
            for (u, accepted) in [(ratio - 1e-9, 1), (ratio, 0)] {
                if ratio < 1.0 {
                    let row = |_| Ok::<_, Infallible>(p.clone());
                    let outcome = accept::chain(&[id], |_| Proposal::Drawn(&q), row, |_, _| u).unwrap();
                    assert_eq!(outcome.accepted, accepted, "{id} {u}");
                }
            }
            assert!((taken + (1.0 - rate) * ours.of(id) - p.of(id)).abs() < 1e-9);
        }
    }
}

#[test]
fn confidence_keeps_what_the_reference_keeps() {
    for case in golden()["confidence"].as_array().unwrap() {
        let kappa: Vec<f32> = numbers(&case["kappa"]).iter().map(|&k| k as f32).collect();
        let threshold = case["threshold"].as_f64().unwrap() as f32;
        assert_eq!(
            confidence::keep(&kappa, threshold),
            case["keep"].as_u64().unwrap() as usize,
            "{case}"
        );
    }
}
