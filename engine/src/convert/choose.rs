//! Which matrices are packed, and how: what was asked for, then the exceptions that a family's published conversions make.

use super::{ConvertError, ConvertOptions, Result};
use crate::{
    decoder::spec::{DecoderSpec, FfnSpec, Module},
    load::{Mode, Packing},
};
use std::collections::{BTreeMap, BTreeSet};

/// An exception for modules.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    /// A module path or its end (`lm_head`, `mlp.down_proj`), with `*` for any characters.
    pub pattern: String,
    pub rule: Rule,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// Stays as floats.
    Keep,
    Pack(Packing),
}

/// What happens to each matrix.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// By path; a matrix that is not here stays as it is.
    pub(super) packed: BTreeMap<String, Packing>,
    /// Paths that `config.json` names: those packed otherwise than most, and those kept on purpose.
    pub(super) named: BTreeMap<String, Option<Packing>>,
}

/// Routers that every published conversion keeps at eight bits, whatever the rest is packed to (mlx-lm's `quant_predicate`).
const ROUTERS: [&str; 4] = [".mlp.gate", ".shared_expert_gate", ".feed_forward.gate", ".router.proj"];
const ROUTER: Packing = Packing {
    bits: 8,
    group: 64,
    mode: Mode::Affine,
};

impl Choice {
    pub(super) fn new(spec: &DecoderSpec, model_type: &str, options: &ConvertOptions) -> Result<Self> {
        let Some(default) = options.packing else {
            return match options.overrides.first() {
                None => Ok(Self::default()),
                Some(_) => Err(ConvertError::Usage(
                    "overrides are exceptions: say `--bits` or `--mode` for the rest".into(),
                )),
            };
        };
        let plain = if model_type == "nemotron_h" {
            routers(spec)
        } else {
            BTreeSet::new()
        };
        let mut choice = Self::default();
        let mut unmatched: BTreeSet<&str> = options.overrides.iter().map(|other| other.pattern.as_str()).collect();
        for (path, columns) in matrices(spec) {
            let matching = options.overrides.iter().filter(|other| matches(&other.pattern, path));
            let own = matching.inspect(|other| _ = unmatched.remove(other.pattern.as_str())).last();
            match own.map(|other| other.rule) {
                Some(Rule::Keep) => {
                    choice.named.insert(path.to_owned(), None);
                }
                Some(Rule::Pack(packing)) => {
                    if !fits(columns, packing) {
                        return Err(ConvertError::Usage(format!(
                            "`{path}` has {columns} inputs, which groups of {} do not divide: take a smaller group, or `keep` it",
                            packing.group
                        )));
                    }
                    choice.named.insert(path.to_owned(), Some(packing));
                    choice.packed.insert(path.to_owned(), packing);
                }
                // As mlx-lm: widths that groups do not divide stay.
                None if plain.contains(path) || !fits(columns, default) => {}
                None if ROUTERS.iter().any(|end| path.ends_with(end)) => {
                    if fits(columns, ROUTER) {
                        choice.named.insert(path.to_owned(), Some(ROUTER));
                        choice.packed.insert(path.to_owned(), ROUTER);
                    }
                }
                None => {
                    choice.packed.insert(path.to_owned(), default);
                }
            }
        }
        if let Some(pattern) = unmatched.first() {
            let examples: Vec<&str> = matrices(spec).into_iter().map(|(path, _)| path).take(4).collect();
            return Err(ConvertError::Usage(format!(
                "the override `{pattern}` matches no matrix of this model, which has `{}` and others",
                examples.join("`, `")
            )));
        }
        Ok(choice)
    }
}

fn fits(columns: usize, packing: Packing) -> bool {
    columns.is_multiple_of(packing.group as usize)
}

/// Path and inputs of every matrix.
fn matrices(spec: &DecoderSpec) -> Vec<(&str, usize)> {
    let matrix = |module| match module {
        Module::Linear(linear) | Module::Experts(_, linear) => Some((linear.path.as_str(), linear.inputs)),
        Module::Table(path, _, columns) => Some((path, columns)),
        _ => None,
    };
    spec.modules().into_iter().filter_map(matrix).collect()
}

/// The routers that the family stores as plain tensors.
fn routers(spec: &DecoderSpec) -> BTreeSet<&str> {
    let router = |ffn: &'_ FfnSpec| match ffn {
        FfnSpec::Moe(moe) => Some(std::ptr::from_ref(&moe.router.gate)),
        _ => None,
    };
    let gates: Vec<_> = spec.blocks.iter().filter_map(|block| router(&block.ffn.as_ref()?.inner)).collect();
    let paths = spec.modules().into_iter().filter_map(|module| match module {
        Module::Linear(linear) if gates.contains(&std::ptr::from_ref(linear)) => Some(linear.path.as_str()),
        _ => None,
    });
    paths.collect()
}

/// Whether `pattern` is the path or what comes after one of its dots.
fn matches(pattern: &str, path: &str) -> bool {
    let starts = std::iter::once(0).chain(path.match_indices('.').map(|(at, _)| at + 1));
    starts.into_iter().any(|start| glob(pattern, &path[start..]))
}

fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text
            .strip_prefix(before)
            .is_some_and(|rest| (0..=rest.len()).any(|skip| rest.is_char_boundary(skip) && glob(after, &rest[skip..]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let path = "language_model.model.layers.12.mlp.down_proj";
        for pattern in [
            "down_proj",
            "mlp.down_proj",
            "layers.12.*",
            "layers.1*.mlp.*",
            "*",
            path,
            "*.down_proj",
        ] {
            assert!(matches(pattern, path), "{pattern}");
        }
        for pattern in ["proj", "layers.1.*", "lm_head", "mlp", "", "*.up_proj"] {
            assert!(!matches(pattern, path), "{pattern}");
        }
    }
}
