//! Truncation, penalties and draws against the sampling goldens (`oracle/sampling/golden.json`, made by a float64
//! program without any ML library), and the device's rule against the plain one.
#![allow(clippy::unwrap_used)]

use dspark_engine::{
    protocol::{EngineError, Sampling},
    sample::{
        Place, Sampler, device, logprobs,
        penalties::Penalties,
        rng,
        shape::{Distribution, Shape, draw},
    },
};
use mlx_rs::{Array, ops, transforms};
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("oracle/sampling/golden.json")).unwrap()
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn singles(value: &Value) -> Vec<f32> {
    floats(value).into_iter().map(|v| v as f32).collect()
}

fn shape_of(case: &Value) -> Shape {
    let number = |key: &str| case[key].as_f64().unwrap_or(0.0) as f32;
    Shape {
        temperature: case["temperature"].as_f64().unwrap_or(1.0) as f32,
        top_p: number("top_p"),
        top_k: case["top_k"].as_u64().unwrap() as u32,
        min_p: number("min_p"),
    }
}

fn dense(distribution: &Distribution, vocab: usize) -> Vec<f64> {
    let mut p = vec![0.0; vocab];
    for (&id, &value) in distribution.ids.iter().zip(&distribution.p) {
        p[id as usize] = value;
    }
    p
}

fn assert_close(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (a, b)) in got.iter().zip(want).enumerate() {
        assert!((a - b).abs() <= tolerance, "{what}: entry {i} is {a}, expected {b}");
    }
}

fn device_probabilities(logits: &[f32], shape: &Shape) -> Vec<f64> {
    let row = Array::from_slice(logits, &[1, 1, logits.len() as i32]);
    let p = device::probabilities(&row, shape).unwrap();
    p.as_slice::<f32>().iter().map(|&v| f64::from(v)).collect()
}

#[test]
fn truncation_matches_the_goldens() {
    let golden = golden();
    let (mut seen, mut exact) = (0, 0);
    for case in golden["truncation"].as_array().unwrap() {
        let row = singles(&golden["truncation_rows"][case["row"].as_str().unwrap()]);
        let shape = shape_of(case);
        let what = format!("{} {shape:?}", case["row"]);
        let got = Distribution::of_weights(&row, &shape);
        let kept: Vec<u32> = case["kept"]
            .as_array()
            .unwrap()
            .iter()
            .map(|v| v.as_u64().unwrap() as u32)
            .collect();
        seen += 1;
        if got.ids != kept {
            // The mass before the last value equals top_p but for rounding: f32 and f64 may disagree there only.
            let extra: Vec<u32> = kept.iter().filter(|id| !got.ids.contains(id)).copied().collect();
            assert_eq!(got.ids.len() + extra.len(), kept.len(), "{what}");
            let before: f64 = got.ids.iter().map(|&id| f64::from(row[id as usize])).sum();
            assert!(
                (before - f64::from(shape.top_p)).abs() < 1e-6,
                "{what}: {:?} against {kept:?}",
                got.ids
            );
            continue;
        }
        exact += 1;
        assert_close(&dense(&got, row.len()), &floats(&case["p"]), 1e-6, &what);
    }
    assert_eq!(seen, 91);
    assert!(exact >= 89, "{exact}");
}

#[test]
fn distributions_of_logits_match_the_goldens_here_and_on_the_device() {
    let golden = golden();
    let mut rows = 0;
    for case in golden["acceptance"].as_array().unwrap() {
        let Some(logits) = case["target_logits"].as_array() else { continue };
        let shape = shape_of(case);
        for (logits, want) in logits.iter().zip(case["p"].as_array().unwrap()) {
            let (logits, want) = (singles(logits), floats(want));
            let what = format!("{} {shape:?}", case["case"]);
            let got = Distribution::of_logits(&logits, &shape).unwrap();
            assert_close(&dense(&got, logits.len()), &want, 1e-6, &what);
            assert_close(&device_probabilities(&logits, &shape), &want, 2e-6, &format!("device {what}"));
            rows += 1;
        }
    }
    assert!(rows >= 180, "{rows}");
}

#[test]
fn draws_invert_the_cumulative_distribution() {
    for case in golden()["acceptance"].as_array().unwrap() {
        let p = floats(&case["next_dist"]);
        let (ids, p) = p.iter().enumerate().filter(|(_, p)| **p > 0.0).map(|(i, p)| (i as u32, *p)).unzip();
        let Some(want) = case["next_token_inverse_cdf"].as_u64() else {
            continue;
        };
        assert_eq!(
            u64::from(Distribution { ids, p }.draw(case["draw_u"].as_f64().unwrap())),
            want,
            "{}",
            case["case"]
        );
    }
}

#[test]
fn penalties_match_the_goldens_and_the_device() {
    for case in golden()["penalties"].as_array().unwrap() {
        let sampling = Sampling {
            presence_penalty: case["presence"].as_f64().unwrap() as f32,
            frequency_penalty: case["frequency"].as_f64().unwrap() as f32,
            ..Sampling::default()
        };
        let mut penalties = Penalties::of(&sampling, &[1, 2, 3], 24).unwrap().unwrap();
        for id in case["generated"].as_array().unwrap() {
            penalties.observe(id.as_u64().unwrap() as u32);
        }
        let drafts = case["draft"].as_array().unwrap();
        for (i, (row, want)) in case["logits"]
            .as_array()
            .unwrap()
            .iter()
            .zip(case["penalised"].as_array().unwrap())
            .enumerate()
        {
            // Row i of a verify knows the drafts before it.
            let mut penalties = penalties.clone();
            drafts[..i].iter().for_each(|id| penalties.observe(id.as_u64().unwrap() as u32));
            check_penalties(&penalties, &singles(row), &floats(want));
        }
    }
}

fn check_penalties(penalties: &Penalties, row: &[f32], want: &[f64]) {
    let mut plain = row.to_vec();
    penalties.apply(&mut plain);
    assert_close(&plain.iter().map(|&v| f64::from(v)).collect::<Vec<_>>(), want, 1e-6, "plain");
    let device = penalties.apply_device(&Array::from_slice(row, &[1, 1, row.len() as i32])).unwrap();
    assert_eq!(device.shape(), [1, 1, row.len() as i32]);
    assert_close(
        &device.as_slice::<f32>().iter().map(|&v| f64::from(v)).collect::<Vec<_>>(),
        want,
        1e-6,
        "device",
    );
}

#[test]
fn repetition_divides_positive_and_multiplies_negative_logits_of_prompt_and_output_and_bias_comes_last() {
    let sampling = Sampling {
        repetition_penalty: 2.0,
        presence_penalty: 0.25,
        frequency_penalty: 0.5,
        logit_bias: [(0, 10.0), (3, -1.0)].into(),
        ..Sampling::default()
    };
    let mut penalties = Penalties::of(&sampling, &[0, 1], 6).unwrap().unwrap();
    penalties.observe(2);
    penalties.observe(2);
    // Ids 0 and 1 are in the prompt, 2 twice in the output, 3 only biased, 4 and 5 untouched.
    let want = [4.0 / 2.0 + 10.0, -4.0 * 2.0, 3.0 / 2.0 - 0.25 - 2.0 * 0.5, 1.0 - 1.0, 5.0, -5.0];
    check_penalties(&penalties, &[4.0, -4.0, 3.0, 1.0, 5.0, -5.0], &want);
}

#[test]
fn requests_that_change_nothing_have_no_penalties() {
    assert!(Penalties::of(&Sampling::default(), &[1, 2], 4).unwrap().is_none());
}

/// Case sa-002: top-k before top-p. Case sa-003: min-p, also past 32,768 entries.
#[test]
fn reported_cases_of_order_and_min_p() {
    let shape = Shape {
        temperature: 1.0,
        top_p: 0.7,
        top_k: 3,
        min_p: 0.0,
    };
    assert_eq!(Distribution::of_weights(&[0.4, 0.3, 0.2, 0.1], &shape).ids, [0, 1]);
    let shape = Shape {
        temperature: 1.0,
        top_p: 1.0,
        top_k: 0,
        min_p: 0.4,
    };
    for vocab in [4, 40_000] {
        let mut p = vec![0.0_f32; vocab];
        p[..4].copy_from_slice(&[0.5, 0.3, 0.15, 0.05]);
        let got = Distribution::of_weights(&p, &shape);
        assert_eq!(got.ids, [0, 1]);
        assert_close(&got.p, &[0.625, 0.375], 1e-6, "min-p");
        let logits: Vec<f32> = p.iter().map(|p| p.ln().max(-60.0)).collect();
        assert_close(
            &device_probabilities(&logits, &shape)[..4],
            &[0.625, 0.375, 0.0, 0.0],
            1e-6,
            "device min-p",
        );
    }
}

/// Case sa-005: greedy takes the lowest id of an exact tie, whatever the other knobs say.
#[test]
fn greedy_takes_the_lowest_id_of_a_tie() {
    let sampling = Sampling {
        temperature: 0.0,
        top_p: 0.1,
        seed: Some(123),
        ..Sampling::default()
    };
    for place in [Place::Host, Place::Device] {
        let sampler = Sampler::new(&sampling, &[], 4, place).unwrap();
        let row = Array::from_slice(&[1.0_f32, 3.0, 3.0, 2.0], &[1, 1, 4]);
        assert_eq!(sampler.draw(&row, 0).unwrap().try_item_exact::<u32>().unwrap(), 1);
    }
}

/// Case sa-006 as far as one row goes: top-k 1 is greedy at any temperature.
#[test]
fn top_k_of_one_is_greedy_at_any_temperature() {
    let sampling = Sampling {
        temperature: 5.0,
        top_k: 1,
        ..Sampling::default()
    };
    for place in [Place::Host, Place::Device] {
        let sampler = Sampler::new(&sampling, &[], 5, place).unwrap();
        let row = Array::from_slice(&[0.1_f32, 0.2, 0.3, 0.25, 0.0], &[1, 1, 5]);
        assert!((0..50).all(|at| sampler.draw(&row, at).unwrap().try_item_exact::<u32>().unwrap() == 2));
    }
}

/// Grouped top-k must equal the plain sort on rows that are long enough for it, ties and all.
#[test]
fn device_truncation_equals_the_plain_rule_on_long_rows() {
    for vocab in [8_193_usize, 49_152] {
        // Few distinct values, so that ties fall on every cut.
        let logits: Vec<f32> = (0..vocab)
            .map(|i| (rng::uniform(5, i as u64, rng::Lane::Token) * 200.0).floor() as f32 / 16.0)
            .collect();
        for (top_p, top_k, min_p) in [
            (1.0, 1, 0.0),
            (1.0, 20, 0.0),
            (0.9, 64, 0.0),
            (0.5, 0, 0.0),
            (0.95, 700, 0.1),
            (1.0, 0, 0.3),
            (0.0, 0, 0.0),
        ] {
            let shape = Shape {
                temperature: 0.8,
                top_p,
                top_k,
                min_p,
            };
            let want = dense(&Distribution::of_logits(&logits, &shape).unwrap(), vocab);
            let got = device_probabilities(&logits, &shape);
            let kept = |p: &[f64]| p.iter().filter(|p| **p > 0.0).count();
            assert_eq!(kept(&got), kept(&want), "{vocab} {shape:?}");
            assert_close(&got, &want, 1e-6, &format!("{vocab} {shape:?}"));
        }
    }
}

/// The draw that the CPU uses writes no distribution down; it must be the draw from the one that is.
#[test]
fn draws_from_rows_are_draws_from_their_distributions() {
    for vocab in [5_usize, 300, 49_152] {
        let logits: Vec<f32> = (0..vocab)
            .map(|i| (rng::uniform(8, i as u64, rng::Lane::Token) * 30.0) as f32)
            .collect();
        for (top_p, top_k, min_p) in [
            (1.0, 0, 0.0),
            (0.9, 0, 0.0),
            (0.95, 40, 0.02),
            (0.0, 0, 0.0),
            (1.0, 3, 0.0),
            (1.0, 0, 0.1),
        ] {
            let shape = Shape {
                temperature: 0.9,
                top_p,
                top_k,
                min_p,
            };
            let distribution = Distribution::of_logits(&logits, &shape).unwrap();
            for i in 0..60 {
                // The last is the largest double below 1.
                let u = if i == 59 { 1.0 - f64::EPSILON / 2.0 } else { f64::from(i) / 59.0 };
                assert_eq!(draw(&logits, &shape, u).unwrap(), distribution.draw(u), "{vocab} {shape:?} {u}");
            }
        }
    }
}

const DRAWS: u64 = 20_000;

/// Draws as a generation makes them, one position each; on the device a hundred rows at a time, as a verify would.
fn histogram(place: Place, sampling: &Sampling, logits: &[f32]) -> Vec<f64> {
    let vocab = logits.len() as i32;
    let row = Array::from_slice(logits, &[1, 1, vocab]);
    let draws: Vec<Array> = match place {
        Place::Host => {
            let sampler = Sampler::new(sampling, &[], logits.len(), place).unwrap();
            (0..DRAWS).map(|at| sampler.draw(&row, at).unwrap()).collect()
        }
        Place::Device => {
            let rows = ops::broadcast_to(&row, &[1, 100, vocab]).unwrap();
            let shape = Shape::of(sampling).unwrap().unwrap();
            let key = |at| rng::device_key(sampling.seed.unwrap(), at, rng::Lane::Token);
            (0..DRAWS / 100).map(|at| device::draw(&rows, &shape, key(at)).unwrap()).collect()
        }
    };
    let mut counts = vec![0.0; logits.len()];
    for chunk in draws.chunks(1000) {
        transforms::eval(chunk).unwrap();
        for id in chunk.iter().flat_map(|draw| draw.to_vec_exact::<u32>().unwrap()) {
            counts[id as usize] += 1.0;
        }
    }
    assert_eq!(counts.iter().sum::<f64>(), DRAWS as f64);
    counts
}

/// Pearson's statistic of the counts against `p`, with its degrees of freedom; infinite where p is 0 but counts are not.
fn chi_square(counts: &[f64], p: &[f64]) -> (f64, usize) {
    let mut cells = 0;
    let chi = counts
        .iter()
        .zip(p)
        .map(|(&n, &p)| {
            if p == 0.0 {
                return if n > 0.0 { f64::INFINITY } else { 0.0 };
            }
            cells += 1;
            (n - p * DRAWS as f64).powi(2) / (p * DRAWS as f64)
        })
        .sum();
    (chi, cells - 1)
}

/// Wilson-Hilferty: the value that chi-square exceeds with probability 1e-6.
fn bound(freedom: usize) -> f64 {
    let k = freedom as f64;
    let z = 4.753;
    k * (1.0 - 2.0 / (9.0 * k) + z * (2.0 / (9.0 * k)).sqrt()).powi(3)
}

#[test]
fn draws_follow_the_distribution_and_a_planted_error_is_noticed() {
    let logits: Vec<f32> = (0..24).map(|i| ((i * 7) % 24) as f32 / 6.0).collect();
    for place in [Place::Host, Place::Device] {
        let mut shapes = vec![(0.7, 0.9, 0, 0.0), (1.3, 1.0, 6, 0.1)];
        if place == Place::Host {
            shapes.extend([(1.0, 1.0, 0, 0.0), (1.0, 1.0, 0, 0.2)]);
        }
        for (temperature, top_p, top_k, min_p) in shapes {
            let sampling = Sampling {
                temperature,
                top_p,
                top_k,
                min_p,
                seed: Some(11),
                ..Sampling::default()
            };
            let shape = Shape::of(&sampling).unwrap().unwrap();
            let p = dense(&Distribution::of_logits(&logits, &shape).unwrap(), logits.len());
            let counts = histogram(place, &sampling, &logits);
            let (chi, freedom) = chi_square(&counts, &p);
            assert!(chi < bound(freedom), "{place:?} {shape:?}: chi-square {chi} at {freedom}");

            // The same draws must not pass for a distribution that is off by a third in temperature, or for one that
            // forgets to truncate: the test can fail.
            let hot = Shape {
                temperature: temperature * 1.33,
                ..shape
            };
            let (chi, freedom) = chi_square(&counts, &dense(&Distribution::of_logits(&logits, &hot).unwrap(), logits.len()));
            assert!(
                chi > bound(freedom),
                "{place:?} {shape:?}: a wrong temperature passes, chi-square {chi}"
            );
            if top_p < 1.0 || top_k > 0 || min_p > 0.0 {
                let open = Shape {
                    top_p: 1.0,
                    top_k: 0,
                    min_p: 0.0,
                    ..shape
                };
                let (chi, freedom) = chi_square(&counts, &dense(&Distribution::of_logits(&logits, &open).unwrap(), logits.len()));
                assert!(chi > bound(freedom), "{place:?} {shape:?}: untruncated passes, chi-square {chi}");
            }
        }
    }
}

#[test]
fn a_draw_depends_on_seed_and_position_alone() {
    let logits: Vec<f32> = (0..50).map(|i| (i % 5) as f32).collect();
    let row = Array::from_slice(&logits, &[1, 1, 50]);
    for place in [Place::Host, Place::Device] {
        let draw = |seed: u64, positions: &[u64]| -> Vec<u32> {
            let sampling = Sampling {
                temperature: 1.0,
                seed: Some(seed),
                ..Sampling::default()
            };
            let sampler = Sampler::new(&sampling, &[], 50, place).unwrap();
            positions
                .iter()
                .map(|&at| sampler.draw(&row, at).unwrap().try_item_exact::<u32>().unwrap())
                .collect()
        };
        let forward: Vec<u64> = (0..40).collect();
        let backward: Vec<u64> = (0..40).rev().collect();
        let first = draw(1, &forward);
        let mut again = draw(1, &backward);
        again.reverse();
        assert_eq!(first, again);
        assert_ne!(first, draw(2, &forward));
    }
}

#[test]
fn logits_that_are_not_numbers_are_an_error_and_not_a_token() {
    let sampling = Sampling {
        temperature: 1.0,
        ..Sampling::default()
    };
    let sampler = Sampler::new(&sampling, &[], 3, Place::Host).unwrap();
    for bad in [[f32::NAN, 0.0, 1.0], [f32::NEG_INFINITY; 3]] {
        let draw = sampler.draw(&Array::from_slice(&bad, &[1, 1, 3]), 0).unwrap();
        assert!(draw.try_item_exact::<u32>().is_err());
    }
    // The machine computes on after that.
    let draw = sampler.draw(&Array::from_slice(&[0.0_f32, 50.0, 0.0], &[1, 1, 3]), 0).unwrap();
    assert_eq!(draw.try_item_exact::<u32>().unwrap(), 1);
}

#[test]
fn out_of_range_values_are_refused_by_name() {
    let bad = |change: fn(&mut Sampling)| {
        let mut sampling = Sampling::default();
        change(&mut sampling);
        match Sampler::new(&sampling, &[], 10, Place::Host) {
            Err(EngineError::BadRequest(text)) => text,
            other => panic!("{other:?}"),
        }
    };
    assert!(bad(|s| s.temperature = -1.0).starts_with("temperature is -1"));
    assert!(bad(|s| s.temperature = f32::NAN).starts_with("temperature is NaN"));
    assert!(bad(|s| s.top_p = 1.5).starts_with("top_p is 1.5"));
    assert!(bad(|s| s.min_p = -0.1).starts_with("min_p"));
    assert!(bad(|s| s.repetition_penalty = 0.0).starts_with("repetition_penalty"));
    assert!(bad(|s| s.presence_penalty = f32::INFINITY).starts_with("presence_penalty"));
    assert!(bad(|s| s.logit_bias = [(10, 1.0)].into()).contains("token 10"));
}

#[test]
fn logprobs_are_of_the_raw_row() {
    let row = [2.0_f32, 1.0, 2.0, -1.0];
    let norm = row.iter().map(|l| f64::from(*l).exp()).sum::<f64>().ln();
    let got = logprobs::of_row(&row, 1, 3);
    assert!((f64::from(got.chosen) - (1.0 - norm)).abs() < 1e-6);
    assert_eq!(got.top.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 2, 1]);
    assert!((f64::from(got.top[0].1) - (2.0 - norm)).abs() < 1e-6);
    assert_eq!(logprobs::of_row(&row, 3, 0).top, []);
    assert_eq!(logprobs::of_row(&row, 3, 20).top.len(), 4);
}
