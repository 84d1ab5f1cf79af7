//! From a folder's `config.json` and tensor headers to a [`DrafterSpec`]. Pure: no arrays, no files.
//!
//! Trainers copy the *target's* config into the drafter's, so a field counts only with evidence that it describes the
//! drafter (`spec/drafters.md` §2.1), and where weights can tell they decide.

use super::{
    DrafterError, Result,
    fields::Fields,
    files::Tensors,
    spec::{BlockMask, Class, ConvSpec, DrafterSpec, Family, InjectionSpec, MarkovKind, MarkovSpec, Packaging, RopeSpec, SelectorSpec},
    speculators,
};
use crate::decoder::rope::Rope;
use serde_json::{Map, Value};

const BACKBONE: [&str; 5] = [
    "hidden_size",
    "vocab_size",
    "num_hidden_layers",
    "intermediate_size",
    "num_attention_heads",
];
const BLOCK: [&str; 3] = ["block_size", "mask_token_id", "target_layer_ids"];

/// More layers than any drafter has: a config that says so is not a drafter's.
const MAX_LAYERS: usize = 128;

/// What the folder holds. `hf_quant`: `hf_quant_config.json`.
///
/// # Errors
/// [`DrafterError`], naming the reason.
pub fn detect(config: &Map<String, Value>, hf_quant: Option<&Value>, tensors: &Tensors) -> Result<DrafterSpec> {
    let top = Fields(config);
    let nvfp4 = nvfp4(top, hf_quant)?;
    let flash = top.object("dflash_config");
    let named = |word: &str| top.words("architectures").iter().any(|name| name.contains(word));
    let mut spec = if top.has("speculators_config") || top.has("speculators_model_type") {
        let config = speculators::translate(top)?;
        dspark(Fields(&config), Packaging::Speculators, tensors)
    } else if is_dspine(config) {
        dflash(top, Class::DSpine, tensors)
    } else if named("DFlash2DraftModel") || flash.is_some_and(|flash| flash.has("selector_rank")) {
        dflash(top, Class::DFlash2, tensors)
    } else if flash.and_then(|flash| flash.text("projector_type")) == Some("dspark") {
        dspark(Fields(&hoisted(top)), Packaging::SpecForge, tensors)
    } else if named("DSpark") && !top.has("target_layer_ids") && flash.is_some_and(|flash| flash.has("target_layer_ids")) {
        dspark(Fields(&hoisted(top)), Packaging::Lfm2, tensors)
    } else if !top.has("block_size") && config.keys().any(|key| key.starts_with("dspark_")) {
        Err(DrafterError::Unsupported(
            "it is a whole model with a drafter embedded in it (its `dspark_*` fields), not a drafter of its own".into(),
        ))
    } else if named("DFlash") || (flash.is_some() && !named("DSpark")) {
        dflash(top, Class::DFlash, tensors)
    } else if named("DSpark") || is_dspark(top, tensors) {
        let packaging = if top.has("converted_from_gguf") {
            Packaging::Gguf
        } else {
            Packaging::DeepSpec
        };
        dspark(top, packaging, tensors)
    } else {
        let missing: Vec<_> = [top.missing(&BACKBONE), top.missing(&BLOCK)].concat();
        let what = top
            .text("model_type")
            .map_or("without a model type".to_owned(), |name| format!("of type `{name}`"));
        Err(DrafterError::Unsupported(if missing.is_empty() {
            format!("nothing in this checkpoint {what} marks it as a DSpark or DFlash drafter")
        } else {
            format!("a checkpoint {what} is no drafter: it lacks {}", missing.join(", "))
        }))
    }?;
    spec.nvfp4 = nvfp4;
    Ok(spec)
}

pub(super) fn is_dspine(config: &Map<String, Value>) -> bool {
    let top = Fields(config);
    top.has("dspine_config") || top.words("architectures").iter().any(|name| name.contains("DSpineDraftModel"))
}

/// Whether matrices are ModelOpt NVFP4. Another quantization by ModelOpt is refused.
fn nvfp4(top: Fields<'_>, hf_quant: Option<&Value>) -> Result<bool> {
    let algorithm = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_uppercase);
    let outer = hf_quant.and_then(|json| json.get("quantization").unwrap_or(json).get("quant_algo"));
    let inner = top.object("quantization_config");
    let modelopt = inner.and_then(|inner| inner.text("quant_method")) == Some("modelopt");
    let found = algorithm(outer).or_else(|| algorithm(inner.and_then(|inner| inner.get("quant_algo").or_else(|| inner.get("algo")))));
    match found {
        Some(name) if name.contains("NVFP4") => Ok(true),
        Some(name) if modelopt || outer.is_some() => Err(DrafterError::Unsupported(format!(
            "it is quantized by ModelOpt as `{name}`; only NVFP4 is decoded. Use the bf16 checkpoint"
        ))),
        None if modelopt => Ok(true),
        _ => Ok(false),
    }
}

fn is_dspark(top: Fields<'_>, tensors: &Tensors) -> bool {
    let fields = [
        "markov_rank",
        "markov_head_type",
        "enable_confidence_head",
        "confidence_head_with_markov",
    ];
    fields.iter().any(|key| top.has(key)) || tensors.names().any(|name| name.starts_with("markov_head."))
}

/// The config with what `dflash_config` nests at top level.
fn hoisted(top: Fields<'_>) -> Map<String, Value> {
    let mut out = top.0.clone();
    if let Some(flash) = top.object("dflash_config") {
        for key in ["target_layer_ids", "mask_token_id", "num_target_layers", "block_size", "is_causal"] {
            if let Some(value) = flash.get(key) {
                out.insert(key.into(), value.clone());
            }
        }
    }
    out
}

fn family(top: Fields<'_>) -> Result<Family> {
    match top.text("model_type") {
        Some(name) if name.contains("qwen3") => Ok(Family::Qwen3),
        Some(name) if name.contains("gemma4") => Ok(Family::Gemma4),
        Some(name) if name.contains("llama") => Ok(Family::Llama),
        Some(name) => Err(DrafterError::Unsupported(format!(
            "its backbone is of type `{name}`; supported are qwen3, gemma4 and llama"
        ))),
        None => Err(DrafterError::Config("`model_type` is missing, so the backbone is unknown".into())),
    }
}

fn dspark(top: Fields<'_>, packaging: Packaging, tensors: &Tensors) -> Result<DrafterSpec> {
    let missing = [top.missing(&BACKBONE), top.missing(&BLOCK)].concat();
    if !missing.is_empty() {
        return Err(DrafterError::Missing {
            packaging: packaging.name(),
            fields: missing,
        });
    }
    let family = family(top)?;
    let mut spec = backbone(top, packaging, Class::DSpark, family)?;
    let flash = top.object("dflash_config");
    let flag = |key: &str| top.is_true(key) || flash.is_some_and(|flash| flash.is_true(key));
    spec.sinks = tensors.names().any(|name| name.ends_with(".attention_sink_bias"));
    spec.gated_q = top.is_true("enable_qwen35_gated_q_proj");
    spec.offset_norms = top.text("model_type") == Some("qwen3_5");
    spec.rope = match family {
        Family::Gemma4 => proportional(top, spec.head_dim)?,
        Family::Qwen3 | Family::Llama => {
            let partial = spec.gated_q || spec.offset_norms;
            rope(top, spec.head_dim, partial, packaging == Packaging::SpecForge)?
        }
    };
    let causal = causal(top)?.unwrap_or(false) || flag("causal") || top.is_true("dflash_query_causal");
    let mask = match window(top, flash, causal || spec.sinks)? {
        Some(window) if causal => BlockMask::Sliding(window),
        Some(window) => BlockMask::BothWays(window),
        None if causal => BlockMask::Causal,
        None => BlockMask::Full,
    };
    spec.masks.fill(mask);
    spec.first_slot = match packaging {
        Packaging::SpecForge | Packaging::Lfm2 => 0,
        Packaging::Speculators => top.whole("first_slot")?.unwrap_or(1),
        _ => usize::from(top.bool("sample_from_anchor")? == Some(false)),
    };
    if spec.first_slot >= spec.block_size {
        return Err(DrafterError::Config(format!(
            "a block of {} leaves nothing to draft",
            spec.block_size
        )));
    }
    spec.draft_vocab = reduced(top, spec.vocab, tensors)?;
    spec.markov = markov(top, tensors)?;
    let rank = spec.markov.map_or(0, |markov| markov.rank);
    spec.confidence = confidence(tensors, spec.hidden, rank)?;
    let softcap = top.number("final_logit_softcapping")?.map(|cap| cap as f32);
    spec.softcap = match family {
        Family::Gemma4 => softcap.or(Some(30.0)),
        Family::Qwen3 | Family::Llama => softcap,
    };
    if family == Family::Gemma4 {
        spec.scale = 1.0;
        spec.embed_scale = (spec.hidden as f32).sqrt();
    }
    spec.own_embed = tensors.has("embed_tokens.weight");
    spec.own_head = tensors.has("lm_head.weight");
    if top.is_true("log_snr_conditioning") {
        let bound = |key: &str| top.number(key);
        let (Some(min), Some(max)) = (bound("min_log_snr")?, bound("max_log_snr")?) else {
            return Err(DrafterError::Config(
                "`log_snr_conditioning` needs `min_log_snr` and `max_log_snr`".into(),
            ));
        };
        if min >= max {
            return Err(DrafterError::Config(format!(
                "`min_log_snr` {min} is not below `max_log_snr` {max}"
            )));
        }
        spec.log_snr = Some((min as f32, max as f32));
    }
    Ok(spec)
}

/// The fields that every backbone has. Masks are full, the rope is not set.
fn backbone(top: Fields<'_>, packaging: Packaging, class: Class, family: Family) -> Result<DrafterSpec> {
    let hidden = top.need("hidden_size")?;
    let heads = top.need("num_attention_heads")?;
    let gemma = family == Family::Gemma4;
    let mut kv_heads = top.size("num_key_value_heads")?;
    let mut head_dim = top.size("head_dim")?;
    if gemma {
        if !top.is_true("attention_k_eq_v") {
            return Err(DrafterError::Unsupported(
                "it is a gemma4 head without `attention_k_eq_v`, which is not implemented".into(),
            ));
        }
        for key in ["enable_moe_block", "hidden_size_per_layer_input"] {
            if top
                .get(key)
                .is_some_and(|value| value != &Value::Bool(false) && value.as_u64() != Some(0))
            {
                return Err(DrafterError::Unsupported(format!(
                    "gemma4 heads with `{key}` (experts, per-layer inputs) are not implemented"
                )));
            }
        }
        head_dim = top.size("global_head_dim")?.or(Some(512));
        kv_heads = top.size("num_global_key_value_heads")?.or(Some(1));
    }
    let kv_heads = kv_heads.unwrap_or(if packaging == Packaging::DeepSpec { 8 } else { heads });
    let head_dim = head_dim.unwrap_or(hidden / heads);
    let layers = top.need("num_hidden_layers")?;
    if !heads.is_multiple_of(kv_heads) || head_dim == 0 || !head_dim.is_multiple_of(2) || layers > MAX_LAYERS {
        return Err(DrafterError::Config(format!(
            "{layers} layers of {heads} heads over {kv_heads} KV heads of {head_dim} are impossible"
        )));
    }
    let vocab = top.need("vocab_size")?;
    let mask_token = top
        .whole("mask_token_id")?
        .filter(|id| *id < vocab)
        .ok_or_else(|| DrafterError::Config(format!("`mask_token_id` must be a token id of the {vocab} there are")))?;
    Ok(DrafterSpec {
        packaging,
        class,
        family,
        nvfp4: false,
        hidden,
        vocab,
        draft_vocab: None,
        inner: top.need("intermediate_size")?,
        heads,
        kv_heads,
        head_dim,
        eps: top.number("rms_norm_eps")?.unwrap_or(1e-6) as f32,
        scale: (head_dim as f32).powf(-0.5),
        rope: RopeSpec {
            frequencies: Vec::new(),
            interleaved: false,
            scale: 1.0,
        },
        masks: vec![BlockMask::Full; layers],
        sinks: false,
        gated_q: false,
        offset_norms: false,
        block_size: sane_block(top.need("block_size")?)?,
        first_slot: 0,
        mask_token: mask_token as u32,
        taps: top.ids("target_layer_ids")?.unwrap_or_default(),
        markov: None,
        confidence: None,
        softcap: None,
        embed_scale: 1.0,
        own_embed: false,
        own_head: false,
        log_snr: None,
        selector: None,
        conv: None,
        injection: None,
    })
}

/// `is_causal`; a value that is no boolean is refused, because either guess fails silently.
fn causal(top: Fields<'_>) -> Result<Option<bool>> {
    top.bool("is_causal")
}

/// The window, with evidence that it is the drafter's.
fn window(top: Fields<'_>, flash: Option<Fields<'_>>, marked: bool) -> Result<Option<usize>> {
    if let Some(flash) = flash.filter(|flash| flash.is_true("use_swa")) {
        return match flash.size("swa_window_size")? {
            Some(window) => Ok(Some(window)),
            None => top.size("sliding_window"),
        };
    }
    let denied = top.get("use_sliding_window") == Some(&Value::Bool(false));
    if (marked || flash.is_some()) && !denied {
        top.size("sliding_window")
    } else {
        Ok(None)
    }
}

fn theta(top: Fields<'_>) -> Result<f64> {
    let nested = top.object("rope_parameters").map_or(Ok(None), |rope| rope.number("rope_theta"))?;
    Ok(match nested {
        Some(theta) => theta,
        None => top.number("rope_theta")?.unwrap_or(1e6),
    })
}

/// `scaled`: the yarn entry is the drafter's own. `partial`: so is the rotated share.
fn rope(top: Fields<'_>, head_dim: usize, partial: bool, scaled: bool) -> Result<RopeSpec> {
    let parameters = top.object("rope_parameters");
    let mut scaling = Map::new();
    if scaled {
        let own = [parameters, top.object("rope_scaling")].into_iter().flatten();
        let yarn = |fields: &Fields<'_>| fields.text("rope_type").or_else(|| fields.text("type")) == Some("yarn");
        if let Some(yarn) = own.into_iter().find(yarn) {
            scaling.clone_from(yarn.0);
            scaling.remove("partial_rotary_factor");
        }
    }
    if partial {
        let share = parameters.and_then(|fields| fields.get("partial_rotary_factor"));
        if let Some(share) = share.or_else(|| top.get("partial_rotary_factor")) {
            scaling.insert("partial_rotary_factor".into(), share.clone());
        }
    }
    let positions = top.size("max_position_embeddings")?.unwrap_or(0);
    let rope = Rope::new(head_dim, theta(top)?, false, Some(&scaling), positions)?;
    Ok(RopeSpec {
        frequencies: rope.frequencies(0).into_iter().map(|f| f as f32).collect(),
        interleaved: top.bool("rope_is_neox_style")? == Some(false),
        scale: rope.scale,
    })
}

/// Gemma 4: of the pairs of the whole head only the first share turns, with frequencies spread over the whole head.
fn proportional(top: Fields<'_>, head_dim: usize) -> Result<RopeSpec> {
    let full = top.object("rope_parameters").and_then(|rope| rope.object("full_attention"));
    let number = |key: &str| full.map_or(Ok(None), |full| full.number(key));
    let theta = number("rope_theta")?.unwrap_or(1e6);
    let share = number("partial_rotary_factor")?.unwrap_or(0.25);
    let turning = (head_dim as f64 * share) as usize / 2;
    let frequency = |pair: usize| match pair {
        pair if pair < turning => theta.powf(-2.0 * pair as f64 / head_dim as f64) as f32,
        _ => 0.0,
    };
    Ok(RopeSpec {
        frequencies: (0..head_dim / 2).map(frequency).collect(),
        interleaved: false,
        scale: 1.0,
    })
}

/// The reduced vocabulary: declared and carried, or neither.
fn reduced(top: Fields<'_>, vocab: usize, tensors: &Tensors) -> Result<Option<usize>> {
    let declared = top.size("draft_vocab_size")?.filter(|draft| *draft != vocab);
    match (declared, tensors.has("d2t")) {
        (Some(draft), true) if draft < vocab => Ok(Some(draft)),
        (Some(draft), true) => Err(DrafterError::Config(format!(
            "`draft_vocab_size` {draft} is above the vocabulary of {vocab}"
        ))),
        (Some(draft), false) => Err(DrafterError::Config(format!(
            "`draft_vocab_size` is {draft} of {vocab}, and there is no `d2t` tensor to map its ids with"
        ))),
        (None, true) => Err(DrafterError::Config(
            "there is a `d2t` tensor, and `draft_vocab_size` declares no reduced vocabulary".into(),
        )),
        (None, false) => Ok(None),
    }
}

fn markov(top: Fields<'_>, tensors: &Tensors) -> Result<Option<MarkovSpec>> {
    let declared = match top.text("markov_head_type") {
        None | Some("vanilla") => MarkovKind::Vanilla,
        Some("gated") => MarkovKind::Gated,
        Some("rnn") => MarkovKind::Rnn,
        Some(other) => {
            return Err(DrafterError::Unsupported(format!(
                "its `markov_head_type` is `{other}`; supported are vanilla, gated and rnn"
            )));
        }
    };
    let stored = tensors.columns("markov_head.markov_w1");
    let rank = match (top.whole("markov_rank")?, stored) {
        (Some(0) | None, None) => return Ok(None),
        (Some(rank), None) | (_, Some(rank)) => rank,
    };
    let kind = if tensors.has("markov_head.gate_proj.weight") {
        MarkovKind::Gated
    } else if tensors.has("markov_head.joint_proj.weight") {
        MarkovKind::Rnn
    } else {
        declared
    };
    Ok(Some(MarkovSpec { rank, kind }))
}

/// Whether there is a confidence head, and whether its input holds the Markov embedding: as its width tells.
fn confidence(tensors: &Tensors, hidden: usize, rank: usize) -> Result<Option<bool>> {
    match tensors.columns("confidence_head.proj") {
        None => Ok(None),
        Some(width) if width == hidden => Ok(Some(false)),
        Some(width) if rank > 0 && width == hidden + rank => Ok(Some(true)),
        Some(width) => Err(DrafterError::tensor(
            "confidence_head.proj.weight",
            format!("has {width} inputs, neither {hidden} nor {hidden} and the Markov rank {rank}"),
        )),
    }
}

fn dflash(top: Fields<'_>, class: Class, tensors: &Tensors) -> Result<DrafterSpec> {
    let packaging = match class {
        Class::DSpine => Packaging::DSpine,
        Class::DFlash2 => Packaging::DFlash2,
        Class::DFlash | Class::DSpark => Packaging::DFlash,
    };
    let empty = Map::new();
    let flash = top.object("dflash_config").unwrap_or(Fields(&empty));
    let merged = merged(top, flash);
    let config = Fields(&merged);
    let has_markov =
        config.whole("markov_rank")?.is_some_and(|rank| rank > 0) || tensors.names().any(|name| name.starts_with("markov_head."));
    if has_markov {
        return Err(DrafterError::Unsupported(
            "it is a DFlash head with a Markov head, a hybrid that is not implemented".into(),
        ));
    }
    let missing = [config.missing(&BACKBONE), config.missing(&BLOCK)].concat();
    if !missing.is_empty() {
        return Err(DrafterError::Missing {
            packaging: packaging.name(),
            fields: missing,
        });
    }
    let mut spec = backbone(config, packaging, class, Family::Qwen3)?;
    spec.rope = rope(config, spec.head_dim, false, true)?;
    if spec.block_size < 2 {
        return Err(DrafterError::Config("a DFlash block needs a slot after the anchor".into()));
    }
    spec.first_slot = 1;
    let causal = causal(config)?;
    if class == Class::DSpine && causal == Some(false) {
        return Err(DrafterError::Unsupported(
            "it is a DSpine head with a bidirectional block (`is_causal: false`); its injections need a causal one".into(),
        ));
    }
    // A DSpine block is causal, whether it says so or not.
    spec.masks = masks(config, spec.layers(), causal.or((class == Class::DSpine).then_some(true)))?;
    spec.softcap = config.number("final_logit_softcapping")?.map(|cap| cap as f32);
    if class == Class::DSpine {
        spec.injection = Some(injection(top, &spec, tensors)?);
    }
    if class == Class::DFlash2 {
        let need = |key: &str| {
            flash.size(key)?.ok_or_else(|| {
                DrafterError::Unsupported(format!(
                    "it is a DFlash 2 head without `dflash_config.{key}`: its candidate selector is not described"
                ))
            })
        };
        let (rank, top_k) = (need("selector_rank")?, need("selector_top_k")?);
        if top_k > spec.vocab {
            return Err(DrafterError::Config(format!("`selector_top_k` {top_k} is above the vocabulary")));
        }
        spec.selector = Some(SelectorSpec {
            rank,
            top_k,
            multiplier: flash.number("output_multiplier")?.unwrap_or(1.0) as f32,
        });
        let group = flash.size("conv_group_size")?.unwrap_or(16);
        if !spec.hidden.is_multiple_of(group) {
            return Err(DrafterError::Config(format!(
                "`conv_group_size` {group} does not divide the hidden size {}",
                spec.hidden
            )));
        }
        spec.conv = flash.size("conv_kernel_size")?.map(|taps| ConvSpec { taps, group });
    }
    Ok(spec)
}

/// Sizes of DSpine's injections: the weights' own, else as SpecForge or vLLM spell them.
fn injection(top: Fields<'_>, spec: &DrafterSpec, tensors: &Tensors) -> Result<InjectionSpec> {
    if !tensors.has("transfer_codes") {
        return Err(DrafterError::Unsupported(
            "it is a DSpine head without its token codes (`transfer_codes`): get the file that holds them".into(),
        ));
    }
    let empty = Map::new();
    let config = top.object("dspine_config").unwrap_or(Fields(&empty));
    let size = |stored: Option<usize>, keys: [&str; 2], default: usize| -> Result<usize> {
        let said = match config.size(keys[0])? {
            Some(size) => Some(size),
            None => config.size(keys[1])?,
        };
        Ok(stored.or(said).unwrap_or(default))
    };
    let found = InjectionSpec {
        rank: size(tensors.columns("injection.message"), ["transfer_rank", "transfer_dim"], 1024)?,
        message: size(tensors.columns("injection.writes.0"), ["message_size", "message_dim"], 512)?,
        top_k: config.size("top_k")?.unwrap_or(16),
    };
    let most = spec.hidden.min(spec.vocab.saturating_sub(1));
    if found.rank > most {
        return Err(DrafterError::Config(format!(
            "a transfer rank of {} is above {most}, which hidden size and vocabulary allow",
            found.rank
        )));
    }
    if found.top_k > spec.vocab {
        return Err(DrafterError::Config(format!("`top_k` {} is above the vocabulary", found.top_k)));
    }
    Ok(found)
}

/// `dflash_config` over the top level.
fn merged(top: Fields<'_>, flash: Fields<'_>) -> Map<String, Value> {
    let mut out = top.0.clone();
    for (key, value) in flash.0 {
        if !value.is_null() {
            out.insert(key.clone(), value.clone());
        }
    }
    out
}

/// Without `is_causal` sliding layers are causal inside the block and full ones are not; with it all are as it says.
fn masks(config: Fields<'_>, layers: usize, causal: Option<bool>) -> Result<Vec<BlockMask>> {
    let types = config.words("layer_types");
    if !types.is_empty() && types.len() != layers {
        return Err(DrafterError::Config(format!(
            "`layer_types` names {} of {layers} layers",
            types.len()
        )));
    }
    let mask = |layer: usize| match types.get(layer).copied().unwrap_or("full_attention") {
        "full_attention" => Ok(if causal == Some(true) { BlockMask::Causal } else { BlockMask::Full }),
        "sliding_attention" => {
            let window = config.need("sliding_window")?;
            Ok(if causal == Some(false) {
                BlockMask::BothWays(window)
            } else {
                BlockMask::Sliding(window)
            })
        }
        other => Err(DrafterError::Config(format!("the layer type `{other}` is unknown"))),
    };
    (0..layers).map(mask).collect()
}

/// Slots of a block that any published drafter stays far under; more is a broken file, and would be computed.
const BLOCK_MOST: usize = 512;

fn sane_block(block: usize) -> Result<usize> {
    if block > BLOCK_MOST {
        return Err(DrafterError::Config(format!(
            "`block_size` is {block}, and no drafter has more than {BLOCK_MOST} slots: check the file"
        )));
    }
    Ok(block)
}

#[cfg(test)]
mod tests;
