//! One file per `model_type`: configuration to [`DecoderSpec`] and a map of tensor names. A recipe, not a forward.

mod llama;
mod qwen3;

use crate::{
    decoder::spec::DecoderSpec,
    load::{Config, LoadError},
};

/// A recipe.
#[derive(Clone, Copy)]
pub struct Family {
    /// Values of `model_type` that it serves.
    pub model_types: &'static [&'static str],
    pub spec: fn(&Config) -> Result<DecoderSpec, LoadError>,
    /// A tensor's name in the spec; `None` leaves it out.
    pub rename: fn(&DecoderSpec, &str) -> Option<String>,
}

const FAMILIES: [Family; 2] = [llama::FAMILY, qwen3::FAMILY];

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
