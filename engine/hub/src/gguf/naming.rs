//! Names: GGUF tensor → Hugging Face parameter, for the architectures whose forward the engine shares with GGUF.

/// An architecture that can be converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Architecture {
    Llama,
    Qwen3,
}

impl Architecture {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "llama" => Some(Self::Llama),
            "qwen3" => Some(Self::Qwen3),
            _ => None,
        }
    }

    /// `model_type` of config.json, and the prefix of the GGUF keys.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen3 => "qwen3",
        }
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Llama => "LlamaForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
        }
    }

    /// llama.cpp stores the q and k rows of this architecture with the two rotary halves interleaved.
    pub(super) fn interleaves_rope(self) -> bool {
        self == Self::Llama
    }
}

/// Where a tensor goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A parameter, and which heads its rows belong to where rows are reordered.
    Parameter { module: String, kind: &'static str, heads: Heads },
    /// Rotary frequency factors: they become a config entry.
    RopeFactors,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heads {
    None,
    Query,
    Key,
}

/// The Hugging Face module and parameter of a GGUF tensor name; none where this architecture has no such tensor.
pub(super) fn target(architecture: Architecture, name: &str, layers: u64) -> Option<Target> {
    let parameter = |module: String, kind, heads| Some(Target::Parameter { module, kind, heads });
    match name {
        "token_embd.weight" => return parameter("model.embed_tokens".into(), "weight", Heads::None),
        "output_norm.weight" => return parameter("model.norm".into(), "weight", Heads::None),
        "output.weight" => return parameter("lm_head".into(), "weight", Heads::None),
        "rope_freqs.weight" => return Some(Target::RopeFactors),
        _ => {}
    }
    let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    // Plain digits only, so that `blk.+1` and `blk.01` do not name the same layer twice.
    let index: u64 = layer.parse().ok().filter(|n: &u64| *n < layers && n.to_string() == layer)?;
    let (part, kind) = rest.rsplit_once('.')?;
    let kind = match kind {
        "weight" => "weight",
        "bias" => "bias",
        _ => return None,
    };
    let (module, heads) = match part {
        "attn_norm" => ("input_layernorm", Heads::None),
        "ffn_norm" => ("post_attention_layernorm", Heads::None),
        "attn_q" => ("self_attn.q_proj", Heads::Query),
        "attn_k" => ("self_attn.k_proj", Heads::Key),
        "attn_v" => ("self_attn.v_proj", Heads::None),
        "attn_output" => ("self_attn.o_proj", Heads::None),
        "ffn_gate" => ("mlp.gate_proj", Heads::None),
        "ffn_up" => ("mlp.up_proj", Heads::None),
        "ffn_down" => ("mlp.down_proj", Heads::None),
        "attn_q_norm" if architecture == Architecture::Qwen3 => ("self_attn.q_norm", Heads::None),
        "attn_k_norm" if architecture == Architecture::Qwen3 => ("self_attn.k_norm", Heads::None),
        _ => return None,
    };
    let heads = if architecture.interleaves_rope() { heads } else { Heads::None };
    parameter(format!("model.layers.{index}.{module}"), kind, heads)
}

/// Row `row` of the converted tensor is this row of the file's: undoes llama.cpp's interleaving of the rotary halves.
pub(super) fn source_row(row: u64, head_dim: u64) -> u64 {
    let half = head_dim / 2;
    let (head, within) = (row / head_dim, row % head_dim);
    head * head_dim + (within % half) * 2 + within / half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_head_go_back_to_two_halves() {
        // Head of 6: the file holds 0 3 1 4 2 5 (pairs), the model wants 0 1 2 3 4 5.
        let order: Vec<u64> = (0..12).map(|row| source_row(row, 6)).collect();
        assert_eq!(order, [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]);
    }

    #[test]
    fn names() {
        let llama = |name| target(Architecture::Llama, name, 30);
        assert_eq!(
            llama("blk.29.attn_q.weight"),
            Some(Target::Parameter {
                module: "model.layers.29.self_attn.q_proj".into(),
                kind: "weight",
                heads: Heads::Query
            })
        );
        assert_eq!(llama("blk.30.attn_q.weight"), None);
        assert_eq!(llama("blk.01.attn_q.weight"), None);
        assert_eq!(llama("blk.0.attn_q_norm.weight"), None);
        assert_eq!(llama("blk.0.ffn_gate_inp.weight"), None);
        assert!(matches!(
            target(Architecture::Qwen3, "blk.0.attn_k.weight", 1),
            Some(Target::Parameter { heads: Heads::None, .. })
        ));
    }
}
