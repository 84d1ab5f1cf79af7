//! One file per `model_type`: configuration to [`DecoderSpec`] and a map of tensor names. A recipe, not a forward.

mod gemma4;
mod lfm2;
mod llama;
mod muse_glimmer;
mod nanbeige;
mod nemotron_h;
mod qwen3;
mod qwen3_5;
mod qwen3_moe;

use crate::{
    decoder::spec::DecoderSpec,
    load::{Config, LoadError, Place},
};

/// The shape of a tensor of the model, by the family's name for it.
pub type Shapes<'a> = &'a dyn Fn(&str) -> Option<Vec<u64>>;

/// A recipe.
#[derive(Clone, Copy)]
pub struct Family {
    /// Values of `model_type` that it serves.
    pub model_types: &'static [&'static str],
    pub spec: fn(&Config) -> Result<DecoderSpec, LoadError>,
    /// Where a stored tensor belongs in the spec.
    pub place: fn(&DecoderSpec, &str) -> Place,
    /// What only the stored shapes tell.
    pub adapt: Option<fn(&mut DecoderSpec, Shapes<'_>)>,
}

const FAMILIES: [Family; 9] = [
    gemma4::FAMILY,
    lfm2::FAMILY,
    llama::FAMILY,
    muse_glimmer::FAMILY,
    nanbeige::FAMILY,
    nemotron_h::FAMILY,
    qwen3::FAMILY,
    qwen3_5::FAMILY,
    qwen3_moe::FAMILY,
];

/// The recipe for a `model_type`.
pub fn find(model_type: &str) -> Option<Family> {
    FAMILIES.into_iter().find(|family| family.model_types.contains(&model_type))
}

/// Every `model_type` that loads, for messages.
pub fn names() -> String {
    FAMILIES
        .iter()
        .flat_map(|family| family.model_types)
        .copied()
        .collect::<Vec<_>>()
        .join(", ")
}

/// Families that people ask for and what is closest to them here.
const CLOSEST: [(&[&str], &str); 9] = [
    (
        &["prism_hadamard_qwen35"],
        "take prism-ml/Ternary-Bonsai-27B-mlx-2bit, the same model without rotated weights",
    ),
    (
        &["qwen3_next", "qwen3_vl", "qwen3_vl_moe", "qwen3_omni_moe"],
        "take a Qwen3.5, 3.6 or 3.8 model (`qwen3_5`), which is its successor",
    ),
    (
        &["qwen", "qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl"],
        "take the Qwen3 model of the same size",
    ),
    (
        &["gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n", "recurrent_gemma"],
        "take the Gemma-4 model of the same size",
    ),
    (
        &["nemotron", "nemotron-nas"],
        "take a Nemotron-H model (`nemotron_h`), such as Nemotron 3.5 Lightning",
    ),
    (&["muse_spark"], "take Muse-Glimmer (`muse_glimmer`)"),
    (&["lfm2_vl", "lfm2-vl"], "take the LFM2 text model of the same size"),
    (&["minicpm", "minicpm3"], "take MiniCPM5, which is of the type `llama`"),
    (
        &["llama4", "llama4_text", "mllama", "mixtral", "mistral3", "ministral3"],
        "take a Llama or Mistral text model without experts or images",
    ),
];

/// What to take instead of a model of this type.
pub fn instead_of(model_type: &str) -> String {
    let known = CLOSEST.iter().find(|(types, _)| types.contains(&model_type));
    let supported = format!("supported are {}", names());
    known.map_or_else(|| supported.clone(), |(_, closest)| format!("{closest} ({supported})"))
}

/// The number of layers; a misprint must not fill memory before the tensors are compared.
fn layers(config: &Config) -> Result<usize, LoadError> {
    let layers = config.usize("num_hidden_layers")?;
    let sensible = (layers <= 10_000).then_some(layers);
    sensible.ok_or_else(|| LoadError::Config(format!("{layers} layers are too many")))
}

fn even_heads(heads: usize, kv_heads: usize) -> Result<(), LoadError> {
    if heads.is_multiple_of(kv_heads) {
        return Ok(());
    }
    Err(LoadError::Config(format!("{heads} heads do not share {kv_heads} KV heads evenly")))
}

/// The words of `layer_types`, one for each layer.
fn layer_types(config: &Config, layers: usize) -> Result<Option<Vec<&str>>, LoadError> {
    let Some(types) = config.words("layer_types")? else {
        return Ok(None);
    };
    if types.len() == layers {
        return Ok(Some(types));
    }
    Err(LoadError::Config(format!("`layer_types` names {} of {layers} layers", types.len())))
}

fn unknown_layer(kind: &str) -> LoadError {
    LoadError::Config(format!("the layer type `{kind}` is not known to this family"))
}

/// The chosen experts of a position cannot be more than there are.
fn top_k(config: &Config, key: &str, experts: usize) -> Result<usize, LoadError> {
    let chosen = config.usize(key)?;
    if chosen <= experts {
        return Ok(chosen);
    }
    Err(LoadError::Config(format!("`{key}` chooses {chosen} of {experts} experts")))
}

/// `<prefix>.experts.<index>.<rest>` as its parts.
fn expert(name: &str) -> Option<(&str, usize, &str)> {
    let (prefix, rest) = name.split_once(".experts.")?;
    let (index, rest) = rest.split_once('.')?;
    Some((prefix, index.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_is_sent_to_the_closest_family() {
        assert!(instead_of("gemma3").starts_with("take the Gemma-4 model"));
        assert!(instead_of("prism_hadamard_qwen35").contains("Ternary-Bonsai-27B-mlx-2bit"));
        assert!(instead_of("rwkv7").starts_with("supported are gemma4, "));
        for (types, _) in CLOSEST {
            assert!(types.iter().all(|stranger| find(stranger).is_none()));
        }
    }

    #[test]
    fn names_of_experts() {
        assert_eq!(expert("a.mlp.experts.12.up_proj.weight"), Some(("a.mlp", 12, "up_proj.weight")));
        assert_eq!(expert("a.mlp.experts.gate_up_proj"), None);
        assert_eq!(expert("a.mlp.experts.x.up_proj"), None);
    }
}
