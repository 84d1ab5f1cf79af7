#![allow(clippy::unwrap_used)]

use super::*;
use crate::drafters::files::Stored;
use serde_json::json;
use std::collections::BTreeMap;

/// Headers of unpacked tensors.
fn tensors(shapes: &[(&str, &[usize])]) -> Tensors {
    let stored = |shape: &[usize]| Stored {
        dtype: "BF16".into(),
        shape: shape.to_vec(),
    };
    let all: BTreeMap<_, _> = shapes.iter().map(|(name, shape)| ((*name).to_owned(), stored(shape))).collect();
    Tensors::new(all, &Map::new())
}

const MARKOV: [(&str, &[usize]); 2] = [
    ("markov_head.markov_w1.weight", &[1000, 32]),
    ("markov_head.markov_w2.weight", &[1000, 32]),
];

fn native() -> Value {
    json!({
        "architectures": ["Qwen3DSparkModel"], "model_type": "qwen3", "hidden_size": 64, "vocab_size": 1000,
        "num_hidden_layers": 2, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 32, "rope_theta": 1e6, "block_size": 7, "mask_token_id": 250, "target_layer_ids": [1, 3, 5],
        "markov_rank": 32, "markov_head_type": "vanilla", "enable_confidence_head": true
    })
}

fn speculators() -> Value {
    json!({
        "speculators_model_type": "dspark", "block_size": 7, "mask_token_id": 250, "aux_hidden_state_layer_ids": [1, 3, 5],
        "markov_rank": 32,
        "transformer_layer_config": {"hidden_size": 64, "vocab_size": 1000, "num_hidden_layers": 2,
            "intermediate_size": 96, "num_attention_heads": 4},
        "speculators_config": {"algorithm": "dspark", "proposal_methods": [{"speculative_tokens": 7}]}
    })
}

fn dflash() -> Value {
    json!({
        "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "hidden_size": 64, "vocab_size": 1000,
        "num_hidden_layers": 3, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 32, "block_size": 8, "dflash_config": {"target_layer_ids": [1, 3, 5], "mask_token_id": 250}
    })
}

/// `base` with fields set, or taken out where they are null.
fn with(mut base: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { panic!("not an object") };
    for (key, value) in fields {
        match (value, base.get_mut(&key)) {
            (Value::Object(inner), Some(Value::Object(old))) => old.extend(inner),
            (value, _) => base[key] = value,
        }
    }
    base
}

fn spec_of(config: &Value, tensors: &Tensors) -> Result<DrafterSpec> {
    detect(config.as_object().unwrap(), None, tensors)
}

fn spec(config: &Value) -> DrafterSpec {
    spec_of(config, &tensors(&MARKOV)).unwrap()
}

fn refusal(config: &Value) -> String {
    spec_of(config, &tensors(&[])).unwrap_err().to_string()
}

#[test]
fn families() {
    assert_eq!(spec(&native()).family, Family::Qwen3);
    assert_eq!(spec(&with(native(), json!({"model_type": "llama"}))).family, Family::Llama);
    let gemma = json!({"model_type": "gemma4_text", "attention_k_eq_v": true, "global_head_dim": 64, "num_global_key_value_heads": 1});
    let gemma = spec(&with(native(), gemma));
    assert_eq!((gemma.family, gemma.head_dim, gemma.kv_heads), (Family::Gemma4, 64, 1));
    assert_eq!((gemma.scale, gemma.embed_scale, gemma.softcap), (1.0, 8.0, Some(30.0)));
    // A quarter of the head turns; the other pairs stand still.
    let turning = gemma.rope.frequencies.iter().filter(|f| **f > 0.0).count();
    assert_eq!((turning, gemma.rope.frequencies.len()), (8, 32));
    for (config, named) in [
        (json!({"model_type": "mamba2"}), "`mamba2`"),
        (json!({"model_type": null}), "`model_type` is missing"),
        (json!({"model_type": "gemma4_text"}), "`attention_k_eq_v`"),
        (
            json!({"model_type": "gemma4_text", "attention_k_eq_v": true, "enable_moe_block": true}),
            "enable_moe_block",
        ),
    ] {
        let message = refusal(&with(native(), config));
        assert!(message.contains(named), "{message}");
    }
}

#[test]
fn every_missing_field_is_named() {
    for key in BACKBONE.into_iter().chain(BLOCK) {
        for base in [native(), dflash()] {
            let nested = base["dflash_config"].get(key).is_some();
            let gone = if nested {
                json!({"dflash_config": {key: null}})
            } else {
                json!({key: null})
            };
            let message = refusal(&with(base, gone));
            assert!(message.contains(&format!("`{key}`")), "{key}: {message}");
        }
    }
    let message = refusal(&with(
        speculators(),
        json!({"aux_hidden_state_layer_ids": null, "transformer_layer_config": {"hidden_size": null}}),
    ));
    assert!(
        message.contains("`aux_hidden_state_layer_ids`") && message.contains("`hidden_size`"),
        "{message}"
    );
    let message = refusal(&json!({"model_type": "bert", "hidden_size": 8}));
    assert!(message.contains("`bert`") && message.contains("`block_size`"), "{message}");
}

/// What trainers copy from the target's config says nothing about the drafter.
#[test]
fn copied_fields_are_ignored() {
    let noise = json!({
        "rope_theta": null,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1]},
        "rope_scaling": {"rope_type": "yarn", "factor": 8.0}, "attn_output_gate": true, "linear_num_value_heads": 8,
        "sliding_window": 16, "draft_vocab_size": 1000, "partial_rotary_factor": 0.25
    });
    let found = spec(&with(native(), noise.clone()));
    assert_eq!((found.rope.frequencies.len(), found.rope.scale, found.gated_q), (16, 1.0, false));
    assert!((found.rope.frequencies[1] - 1e7_f32.powf(-2.0 / 32.0)).abs() < 1e-6);
    assert_eq!(
        (found.masks, found.draft_vocab, found.offset_norms),
        (vec![BlockMask::Full; 2], None, false)
    );
    // The same fields describe an Ornith head.
    let own = json!({"model_type": "qwen3_5", "enable_qwen35_gated_q_proj": true});
    let found = spec(&with(with(native(), noise), own));
    assert_eq!((found.rope.frequencies.len(), found.gated_q, found.offset_norms), (4, true, true));
}

#[test]
fn weights_decide() {
    let stored = [
        MARKOV[0],
        MARKOV[1],
        ("embed_tokens.weight", &[1000, 64][..]),
        ("confidence_head.proj.weight", &[1, 64]),
        ("markov_head.gate_proj.weight", &[32, 96]),
    ];
    let config = with(
        native(),
        json!({"enable_confidence_head": false, "has_lm_head": true, "confidence_head_with_markov": true}),
    );
    let found = spec_of(&config, &tensors(&stored)).unwrap();
    assert_eq!((found.own_embed, found.own_head, found.confidence), (true, false, Some(false)));
    assert_eq!(found.markov.unwrap().kind, MarkovKind::Gated);
    let wide = [MARKOV[0], ("confidence_head.proj.weight", &[1, 96][..])];
    assert_eq!(spec_of(&config, &tensors(&wide)).unwrap().confidence, Some(true));
    let odd = [MARKOV[0], ("confidence_head.proj.weight", &[1, 65][..])];
    assert!(spec_of(&config, &tensors(&odd)).unwrap_err().to_string().contains("65 inputs"));
    assert_eq!(
        spec_of(&with(native(), json!({"markov_rank": 0})), &tensors(&[])).unwrap().markov,
        None
    );
    assert!(refusal(&with(native(), json!({"markov_head_type": "lstm"}))).contains("`lstm`"));
}

#[test]
fn first_slots() {
    let of_method = |tokens: Value, anchor: Value| {
        let methods = if tokens.is_null() {
            json!([])
        } else {
            json!([{"speculative_tokens": tokens}])
        };
        let config = json!({"speculators_config": {"proposal_methods": methods}, "sample_from_anchor": anchor});
        spec(&with(speculators(), config)).first_slot
    };
    assert_eq!(of_method(json!(7), Value::Null), 0);
    assert_eq!(of_method(json!(6), Value::Null), 1);
    for nonsense in [json!(9), json!(0), Value::Null] {
        assert_eq!(of_method(nonsense.clone(), Value::Null), 1);
        assert_eq!(of_method(nonsense.clone(), json!(true)), 0);
        assert_eq!(of_method(nonsense, json!(false)), 1);
    }
    assert_eq!(spec(&native()).first_slot, 0);
    assert_eq!(spec(&with(native(), json!({"sample_from_anchor": false}))).first_slot, 1);
    let forge = json!({"target_layer_ids": null, "dflash_config": {"projector_type": "dspark", "target_layer_ids": [2, 4]}, "sample_from_anchor": false});
    let forge = spec(&with(native(), forge));
    assert_eq!(
        (forge.packaging, forge.first_slot, forge.taps),
        (Packaging::SpecForge, 0, vec![2, 4])
    );
}

#[test]
fn windows_and_causality() {
    let mask = |config: Value| spec(&with(native(), config)).masks[0];
    assert_eq!(mask(json!({"dflash_query_causal": true})), BlockMask::Causal);
    assert_eq!(
        mask(json!({"dflash_query_causal": true, "sliding_window": 12})),
        BlockMask::Sliding(12)
    );
    assert_eq!(
        mask(json!({"dflash_config": {"causal": true, "use_swa": true, "swa_window_size": 9}})),
        BlockMask::Sliding(9)
    );
    let slides =
        json!({"transformer_layer_config": {"layer_types": ["sliding_attention"], "use_sliding_window": true, "sliding_window": 2048}});
    let slides = with(speculators(), slides);
    assert_eq!(spec(&slides).masks, vec![BlockMask::Sliding(2048); 2]);
    assert_eq!(
        spec(&with(slides, json!({"sliding_window_non_causal": true}))).masks[0],
        BlockMask::Full
    );
    let unused = json!({"transformer_layer_config": {"sliding_window": 2048}});
    assert_eq!(spec(&with(speculators(), unused)).masks[0], BlockMask::Full);

    let mixed = with(
        dflash(),
        json!({"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 16}),
    );
    let masks = |config: Value| spec_of(&with(mixed.clone(), config), &tensors(&[])).unwrap().masks;
    let (sliding, both) = (BlockMask::Sliding(16), BlockMask::BothWays(16));
    assert_eq!(masks(json!({})), [sliding, BlockMask::Full, sliding]);
    assert_eq!(masks(json!({"is_causal": true})), [sliding, BlockMask::Causal, sliding]);
    assert_eq!(masks(json!({"dflash_config": {"is_causal": false}})), [both, BlockMask::Full, both]);
    for base in [mixed.clone(), native()] {
        assert!(refusal(&with(base, json!({"is_causal": "yes"}))).contains("`is_causal` must be true or false"));
    }
}

#[test]
fn dspine_is_causal_and_sized_by_its_weights() {
    let config = with(
        dflash(),
        json!({"architectures": ["DSpineDraftModel"], "dspine_config": {"transfer_dim": 24, "message_dim": 12, "top_k": 4},
            "layer_types": ["full_attention", "sliding_attention", "full_attention"], "sliding_window": 16}),
    );
    let codes = ("transfer_codes", &[1000, 32][..]);
    let found = spec_of(&config, &tensors(&[codes])).unwrap();
    assert_eq!(
        (found.class, found.packaging, found.first_slot),
        (Class::DSpine, Packaging::DSpine, 1)
    );
    assert_eq!(found.masks, [BlockMask::Causal, BlockMask::Sliding(16), BlockMask::Causal]);
    assert_eq!((found.width(3), found.max_draft()), (4, 7));
    let injection = found.injection.unwrap();
    assert_eq!((injection.rank, injection.message, injection.top_k), (24, 12, 4));
    let stored = [
        codes,
        ("injection.message.weight", &[8, 32]),
        ("injection.writes.0.weight", &[64, 8]),
    ];
    let injection = spec_of(&config, &tensors(&stored)).unwrap().injection.unwrap();
    assert_eq!((injection.rank, injection.message), (32, 8));
    let wide = with(config, json!({"dspine_config": {"transfer_dim": 65}}));
    let message = spec_of(&wide, &tensors(&[codes])).unwrap_err().to_string();
    assert!(message.contains("transfer rank of 65 is above 64"), "{message}");
}

#[test]
fn block_sizes_are_the_checkpoints() {
    for block in [7, 8, 9, 15] {
        let found = spec(&with(native(), json!({"block_size": block, "num_attention_heads": 6})));
        assert_eq!((found.block_size, found.max_draft(), found.width(3)), (block, block, block));
    }
    let nested = with(dflash(), json!({"block_size": null, "dflash_config": {"block_size": 16}}));
    let found = spec_of(&nested, &tensors(&[])).unwrap();
    assert_eq!((found.packaging, found.max_draft(), found.first_slot), (Packaging::DFlash, 15, 1));
}

#[test]
fn a_reduced_vocabulary_is_declared_and_carried() {
    let declared = with(speculators(), json!({"draft_vocab_size": 96}));
    let carried = tensors(&[MARKOV[0], ("d2t", &[96])]);
    assert_eq!(spec_of(&declared, &carried).unwrap().draft_vocab, Some(96));
    let message = spec_of(&declared, &tensors(&MARKOV)).unwrap_err().to_string();
    assert!(message.contains("no `d2t`"), "{message}");
    let message = spec_of(&speculators(), &carried).unwrap_err().to_string();
    assert!(message.contains("declares no reduced vocabulary"), "{message}");
    assert_eq!(spec(&with(speculators(), json!({"draft_vocab_size": 1000}))).draft_vocab, None);
}

#[test]
fn refusals_name_their_reason() {
    for (config, named) in [
        (json!({"speculators_config": {"algorithm": "eagle3"}}), "`eagle3`"),
        (
            with(dflash(), json!({"architectures": ["DSpineDraftModel"]})),
            "without its token codes",
        ),
        (
            with(dflash(), json!({"dspine_config": {"top_k": 4}, "is_causal": false})),
            "bidirectional block",
        ),
        (
            json!({"architectures": ["DeepseekV4"], "dspark_block": 3}),
            "drafter embedded in it",
        ),
        (
            with(dflash(), json!({"architectures": ["DFlash2DraftModel"]})),
            "`dflash_config.selector_rank`",
        ),
        (with(dflash(), json!({"markov_rank": 8})), "hybrid"),
        (with(dflash(), json!({"block_size": null})), "`block_size`"),
        (with(native(), json!({"log_snr_conditioning": true})), "`min_log_snr`"),
        (
            with(
                native(),
                json!({"log_snr_conditioning": true, "min_log_snr": 2.0, "max_log_snr": -2.0}),
            ),
            "not below",
        ),
        (with(native(), json!({"mask_token_id": 1000})), "`mask_token_id`"),
        (with(native(), json!({"target_layer_ids": [3, 1]})), "ascending"),
        (
            with(
                native(),
                json!({"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"}}),
            ),
            "`FP8`",
        ),
    ] {
        let message = refusal(&config);
        assert!(message.contains(named), "{named}: {message}");
    }
    let quant = json!({"quantization": {"quant_algo": "W4A16_NVFP4"}});
    assert!(
        detect(native().as_object().unwrap(), Some(&quant), &tensors(&MARKOV))
            .unwrap()
            .nvfp4
    );
    // A target's own quantization, copied.
    let copied = with(
        native(),
        json!({"quantization_config": {"quant_method": "fp8", "quant_algo": "FP8"}}),
    );
    assert!(!spec(&copied).nvfp4);
}
