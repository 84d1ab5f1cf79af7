use super::*;
use serde_json::json;

fn gib(n: f64) -> u64 {
    (n * GIB as f64) as u64
}

#[test]
fn a_slider_has_few_stops_and_ends_at_the_models_maximum() {
    let stops = |most| {
        let model = Model {
            max_context: Some(most),
            ..Model::default()
        };
        model.stops()
    };
    assert_eq!(stops(8192), (1..=8).map(|at| at * 1024).collect::<Vec<_>>());
    let long = stops(262_144);
    assert_eq!((long.len(), long[0], long[63]), (64, 4096, 262_144));
    assert_eq!(stops(40_960).last(), Some(&40_960));
    assert_eq!(stops(5000), [1024, 2048, 3072, 4096, 5000]);
    assert!(stops(10_000_000).len() <= 65 && Model::default().stops().is_empty());
}

#[test]
fn the_parts_of_a_hybrid_with_its_drafter() {
    // `spec/fit-and-roofline.md` §2: 65 536 and 20 480 bytes a token.
    let model = Model {
        weight_bytes: 15_300_000_000,
        drafter_bytes: 1_900_000_000,
        kv_per_token: Some(65_536),
        drafter_kv_per_token: 20_480,
        recurrent: 150_000_000,
        max_context: Some(262_144),
        ..Model::default()
    };
    let machine = Machine {
        ram: 48 * GIB,
        working_set: Some(38_700_000_000),
        available: None,
    };
    let fit = judge(&model, &machine, 131_072);
    let part = |part| fit.items.iter().find(|item| item.part == part).map_or(0, |item| item.bytes);
    assert_eq!((part(Part::Context), part(Part::DrafterContext)), (8_589_934_592, 2_684_354_560));
    assert_eq!(part(Part::Recurrent), 150_000_000);
    assert_eq!(part(Part::Kept), 8192 * 86_016 + 150_000_000);
    assert_eq!(fit.items.iter().map(|item| item.bytes).sum::<u64>(), fit.peak);
    assert!(fit.max_context >= 131_072 && fit.max_context < 262_144, "{}", fit.max_context);
}

#[test]
fn bits_per_weight() {
    let cases = [
        (4, 64, "affine", 4.5),
        (8, 64, "affine", 8.5),
        (2, 64, "affine", 2.5),
        (4, 32, "affine", 5.0),
    ];
    let more = [
        (8, 128, "affine", 8.25),
        (4, 32, "mxfp4", 4.25),
        (4, 16, "nvfp4", 4.5),
        (16, 64, "affine", 16.0),
    ];
    for (bits, group, mode, want) in cases.into_iter().chain(more) {
        assert_eq!(effective_bits(bits, group, mode), want);
    }
    let bytes = |bits| (4096.0 * 4096.0 * effective_bits(bits, 64, "affine") / 8.0) as u64;
    assert_eq!((bytes(4), bytes(8), bytes(16)), (9_437_184, 17_825_792, 33_554_432));
}

#[test]
fn kv_of_known_models() {
    let dense =
        |layers, kv, head| json!({"num_hidden_layers": layers, "num_attention_heads": 32, "num_key_value_heads": kv, "head_dim": head});
    let hybrid = |layers, kv, head| json!({"text_config": {"num_hidden_layers": layers, "num_attention_heads": 24, "num_key_value_heads": kv, "head_dim": head, "full_attention_interval": 4}});
    for (config, want) in [
        (dense(36, 8, 128), [147_456, 78_336, 41_472]),
        (dense(40, 8, 128), [163_840, 87_040, 46_080]),
        (hybrid(64, 4, 256), [65_536, 34_816, 18_432]),
        (dense(42, 2, 128), [43_008, 22_848, 12_096]),
        (hybrid(40, 2, 256), [20_480, 10_880, 5_760]),
    ] {
        for (bits, want) in [16, 8, 4].into_iter().zip(want) {
            assert_eq!(kv_per_token(&config, bits), Some(want));
        }
    }
    assert_eq!(kv_per_token(&json!({"model_type": "x"}), 16), None);
    assert_eq!(kv_per_token(&Value::Null, 16), None);
    let listed = json!({"num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 64, "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"], "sliding_window": 512});
    assert_eq!(kv_per_token(&listed, 16), Some(2 * 4 * 16 * 2 * 2));
    let model = Model::from_config(&listed, 0, 16);
    assert_eq!(model.kv(10_000), 10_000 * 512 + 512 * 2 * 4 * 16 * 4);
    let lightning = json!({"num_hidden_layers": 8, "num_attention_heads": 4, "head_dim": 16, "hybrid_override_pattern": "M*E-M*ME"});
    assert_eq!(kv_per_token(&lightning, 16), Some(2 * 4 * 16 * 4));
}

#[test]
fn unusual_layers() {
    let gemma = json!({"num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32, "global_head_dim": 64, "num_global_key_value_heads": 1, "num_kv_shared_layers": 2, "sliding_window": 100,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"]});
    let model = Model::from_config(&gemma, 0, 16);
    assert_eq!((model.kv_per_token, model.window), (Some(64 * 2 * 2), Some((3 * 4 * 32 * 4, 100))));
    let looped = json!({"num_hidden_layers": 22, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "num_loops": 2});
    assert_eq!(kv_per_token(&looped, 16), Some(2 * 22 * 2 * 64 * 4));
    let latent =
        json!({"num_hidden_layers": 10, "num_attention_heads": 8, "hidden_size": 512, "kv_lora_rank": 512, "qk_rope_head_dim": 64});
    assert_eq!(kv_per_token(&latent, 16), Some(10 * 576 * 2));
    let hybrid = json!({"num_hidden_layers": 8, "num_attention_heads": 4, "head_dim": 16, "full_attention_interval": 4, "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 32, "linear_value_head_dim": 32, "linear_conv_kernel_dim": 4});
    assert_eq!(
        Model::from_config(&hybrid, 0, 16).recurrent,
        6 * (4 * 32 * 32 * 4 + 3 * (2 * 2 * 32 + 4 * 32) * 2)
    );
    // Numbers that no model has saturate instead of overflowing.
    let absurd = json!({"num_hidden_layers": u64::MAX, "num_attention_heads": 1, "head_dim": u64::MAX, "intermediate_size": u64::MAX, "sliding_window": u64::MAX});
    let machine = Machine {
        ram: 16 * GIB,
        working_set: None,
        available: None,
    };
    assert_eq!(
        judge(&Model::from_config(&absurd, u64::MAX, 16), &machine, u64::MAX).verdict,
        Verdict::TooBig
    );
}

/// 131 072 tokens at the measured growth of a 27B hybrid with its drafter are about 11 GB.
#[test]
fn long_contexts_add_up() {
    let model = Model {
        kv_per_token: Some(65_536),
        drafter_kv_per_token: 20_480,
        ..Model::default()
    };
    assert_eq!(model.kv(131_072) / 10_000_000, 1127);
    assert_eq!(model.kv(262_144) / 10_000_000, 2254);
}

/// mf-004
#[test]
fn weights_below_the_memory_are_not_enough() {
    let model = Model {
        weight_bytes: gib(34.17),
        kv_per_token: Some(gib(1.0) / 8192),
        ..Model::default()
    };
    let machine = Machine {
        ram: gib(48.0),
        working_set: Some(gib(36.0)),
        available: None,
    };
    assert_eq!(judge(&model, &machine, 8192).verdict, Verdict::TooBig);
}

#[test]
fn verdicts_follow_the_ratio() {
    let machine = Machine {
        ram: gib(48.0),
        working_set: Some(gib(36.0)),
        available: Some(gib(10.0)),
    };
    let model = |weights: f64| Model {
        weight_bytes: gib(weights),
        kv_per_token: Some(65_536),
        max_context: Some(262_144),
        ..Model::default()
    };
    let verdict = |weights, context| judge(&model(weights), &machine, context).verdict;
    assert_eq!(verdict(15.0, 32_768), Verdict::FitsWell);
    assert_eq!(verdict(28.0, 32_768), Verdict::Fits);
    assert_eq!(verdict(31.0, 32_768), Verdict::Tight);
    assert!(matches!(verdict(29.0, 262_144), Verdict::ShorterContext { max } if max.is_multiple_of(8192) && max > 0));
    assert_eq!(verdict(40.0, 8192), Verdict::TooBig);
    let fit = judge(&model(15.0), &machine, 32_768);
    assert_eq!(fit.items.iter().map(|item| item.bytes).sum::<u64>(), fit.peak);
    assert_eq!(fit.fits_now, Some(false));
    // What is said to fit does fit.
    assert_ne!(judge(&model(15.0), &machine, fit.max_context).verdict, Verdict::TooBig);
}

#[test]
fn warnings_after_a_load() {
    let warn = |kv, window, resident: f64, budget: f64| context_warning(kv, window, gib(resident), gib(budget));
    let first = warn(65_536, 262_144, 29.0, 48.0).unwrap();
    assert_eq!((first.need, first.suggest), (48_318_382_080, Some(229_376)));
    assert_eq!(warn(65_536, 262_144, 18.0, 36.0).unwrap().suggest, Some(229_376));
    assert_eq!(warn(65_536, 32_768, 18.0, 36.0), None);
    assert_eq!(warn(147_456, 40_960, 8.7, 10.67).unwrap().suggest, None);
    assert_eq!(warn(65_536, 262_144, 40.0, 36.0).unwrap().suggest, None);
    assert_eq!(warn(0, 262_144, 40.0, 36.0), None);
}
