//! vLLM's "speculators" layout, translated to DeepSpec's fields. Source: `spec/drafters.md` §3.4.

use super::{DrafterError, Result, fields::Fields};
use serde_json::{Map, Value, json};

const BACKBONE: [&str; 5] = [
    "hidden_size",
    "vocab_size",
    "num_hidden_layers",
    "intermediate_size",
    "num_attention_heads",
];

/// The fields in DeepSpec's names. `first_slot` and `causal` are our own: what the layout implies.
pub(super) fn translate(config: Fields<'_>) -> Result<Map<String, Value>> {
    let speculators = config.object("speculators_config");
    let algorithm = speculators
        .and_then(|inner| inner.text("algorithm"))
        .or_else(|| config.text("speculators_model_type"));
    if algorithm != Some("dspark") {
        let named = algorithm.unwrap_or("(none named)");
        return Err(DrafterError::Unsupported(format!(
            "it is a speculators checkpoint of the algorithm `{named}`; only `dspark` is"
        )));
    }
    let mut missing = config.missing(&[
        "transformer_layer_config",
        "aux_hidden_state_layer_ids",
        "block_size",
        "mask_token_id",
    ]);
    let layer = config.object("transformer_layer_config");
    if let Some(layer) = layer {
        missing.extend(layer.missing(&BACKBONE));
    }
    let (Some(layer), true) = (layer, missing.is_empty()) else {
        return Err(DrafterError::Missing {
            packaging: "vLLM speculators",
            fields: missing,
        });
    };
    let mut out = Map::new();
    for key in BACKBONE.into_iter().chain([
        "num_key_value_heads",
        "head_dim",
        "rms_norm_eps",
        "attention_bias",
        "rope_parameters",
        "rope_theta",
        "rope_is_neox_style",
        "model_type",
    ]) {
        if let Some(value) = layer.get(key) {
            out.insert(key.into(), value.clone());
        }
    }
    out.entry("model_type").or_insert_with(|| json!("qwen3"));
    let heads = layer.need("num_attention_heads")?;
    out.entry("num_key_value_heads").or_insert_with(|| json!(heads));
    for key in [
        "block_size",
        "mask_token_id",
        "markov_rank",
        "markov_head_type",
        "final_logit_softcapping",
        "attention_sink_bias",
        "draft_vocab_size",
        "quantization",
    ] {
        if let Some(value) = config.get(key) {
            out.insert(key.into(), value.clone());
        }
    }
    if let Some(taps) = config.get("aux_hidden_state_layer_ids") {
        out.insert("target_layer_ids".into(), taps.clone());
    }
    let slides = layer.words("layer_types").contains(&"sliding_attention") && layer.is_true("use_sliding_window");
    if let (true, Some(window)) = (slides, layer.size("sliding_window")?)
        && !config.is_true("sliding_window_non_causal")
    {
        out.insert("sliding_window".into(), json!(window));
        out.insert("causal".into(), json!(true));
    }
    out.insert("first_slot".into(), json!(first_slot(config, speculators)?));
    Ok(out)
}

/// The block less the drafts that the proposal method takes; else as declared; else 1.
fn first_slot(config: Fields<'_>, speculators: Option<Fields<'_>>) -> Result<usize> {
    let block = config.need("block_size")?;
    let methods = speculators
        .and_then(|inner| inner.get("proposal_methods"))
        .and_then(Value::as_array);
    let taken = methods
        .and_then(|methods| methods.first()?.get("speculative_tokens")?.as_u64())
        .and_then(|taken| block.checked_sub(taken as usize));
    Ok(match (taken.filter(|slot| *slot < block), config.get("sample_from_anchor")) {
        (Some(slot), _) => slot,
        (None, Some(anchor)) => usize::from(anchor != &Value::Bool(true)),
        (None, None) => 1,
    })
}
