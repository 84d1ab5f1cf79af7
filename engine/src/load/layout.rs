//! From the tensors of the files to those of the model: other names, halves of joined ones, experts stacked.

use super::{LoadError, Shard, TensorInfo};
use std::collections::BTreeMap;

/// What a family makes of a stored tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Not part of this model: vision towers, multi-token prediction, a tied head.
    Drop,
    At(String),
    /// Two tensors joined along the second last axis.
    Halves(String, String),
    /// One of several that are stacked along a new first axis.
    Expert {
        of: String,
        index: usize,
    },
}

/// Where a tensor of the model is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Whole(String),
    Half { of: String, second: bool },
    Stack(Vec<String>),
}

/// A tensor of the model.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) info: TensorInfo,
    pub(crate) source: Source,
}

/// By the family's names.
pub(crate) type Tensors = BTreeMap<String, Placed>;

/// Puts every tensor of the shards where `place` says.
pub(crate) fn arrange(shards: &[Shard], place: &dyn Fn(&str) -> Place) -> Result<Tensors, LoadError> {
    let mut tensors = Tensors::new();
    let mut stacks: BTreeMap<String, BTreeMap<usize, (&String, &TensorInfo)>> = BTreeMap::new();
    for (name, info) in shards.iter().flat_map(|shard| &shard.tensors) {
        match place(name) {
            Place::Drop => {}
            Place::At(at) => {
                let source = Source::Whole(name.clone());
                tensors.insert(
                    at,
                    Placed {
                        info: info.clone(),
                        source,
                    },
                );
            }
            Place::Halves(first, second) => {
                let half = half(name, info)?;
                for (at, second) in [(first, false), (second, true)] {
                    let source = Source::Half { of: name.clone(), second };
                    tensors.insert(
                        at,
                        Placed {
                            info: half.clone(),
                            source,
                        },
                    );
                }
            }
            Place::Expert { of, index } => {
                stacks.entry(of).or_default().insert(index, (name, info));
            }
        }
    }
    for (of, parts) in stacks {
        let placed = stack(&of, &parts)?;
        tensors.insert(of, placed);
    }
    Ok(tensors)
}

fn half(name: &str, info: &TensorInfo) -> Result<TensorInfo, LoadError> {
    let mut shape = info.shape.clone();
    let axis = shape.len().checked_sub(2).filter(|axis| shape[*axis].is_multiple_of(2));
    let axis = axis.ok_or_else(|| LoadError::tensor(name, format!("of shape {shape:?} does not hold two of the same size")))?;
    shape[axis] /= 2;
    Ok(TensorInfo {
        dtype: info.dtype.clone(),
        shape,
        bytes: info.bytes / 2,
    })
}

fn stack(of: &str, parts: &BTreeMap<usize, (&String, &TensorInfo)>) -> Result<Placed, LoadError> {
    let missing = (0..parts.len()).find(|index| !parts.contains_key(index));
    if let Some(missing) = missing {
        return Err(LoadError::tensor(of, format!("lacks expert {missing}")));
    }
    let (_, first) = parts[&0];
    if let Some((name, _)) = parts
        .values()
        .find(|(_, info)| (&info.dtype, &info.shape) != (&first.dtype, &first.shape))
    {
        return Err(LoadError::tensor(name, "differs from the same tensor of expert 0"));
    }
    let shape = [parts.len() as u64].into_iter().chain(first.shape.iter().copied()).collect();
    Ok(Placed {
        info: TensorInfo {
            dtype: first.dtype.clone(),
            shape,
            bytes: first.bytes * parts.len() as u64,
        },
        source: Source::Stack(parts.values().map(|(name, _)| (*name).clone()).collect()),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn shard(tensors: &[(&str, &[u64])]) -> Vec<Shard> {
        let info = |shape: &[u64]| TensorInfo {
            dtype: "BF16".into(),
            shape: shape.to_vec(),
            bytes: 2 * shape.iter().product::<u64>(),
        };
        vec![Shard {
            path: PathBuf::new(),
            tensors: tensors.iter().map(|(name, shape)| ((*name).to_owned(), info(shape))).collect(),
        }]
    }

    fn place(name: &str) -> Place {
        match name.split_once('.') {
            Some(("expert", index)) => Place::Expert {
                of: "experts".into(),
                index: index.parse().unwrap(),
            },
            Some(("joined", _)) => Place::Halves("gate".into(), "up".into()),
            Some(("vision", _)) => Place::Drop,
            _ => Place::At(name.to_owned()),
        }
    }

    #[test]
    fn halves_stacks_and_strangers() {
        // Twelve, so that the order of names is not that of experts.
        let experts: Vec<String> = (0..12).map(|index| format!("expert.{index}")).collect();
        let mut all: Vec<(&str, &[u64])> = experts.iter().map(|name| (name.as_str(), &[4, 8][..])).collect();
        all.extend([("joined.x", &[3, 10, 8][..]), ("vision.tower", &[1]), ("plain", &[5])]);
        let found = arrange(&shard(&all), &place).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["experts", "gate", "plain", "up"]);
        assert_eq!(
            (found["experts"].info.shape.clone(), found["experts"].info.bytes),
            (vec![12, 4, 8], 768)
        );
        assert_eq!(found["experts"].source, Source::Stack(experts.clone()));
        assert_eq!((found["up"].info.shape.clone(), found["up"].info.bytes), (vec![3, 5, 8], 240));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let refused = |tensors: &[(&str, &[u64])]| arrange(&shard(tensors), &place).unwrap_err().to_string();
        assert!(refused(&[("expert.0", &[4, 8]), ("expert.2", &[4, 8])]).contains("`experts`: lacks expert 1"));
        assert!(refused(&[("expert.0", &[4, 8]), ("expert.1", &[4, 9])]).contains("`expert.1`: differs"));
        assert!(refused(&[("joined.x", &[3, 5, 8])]).contains("does not hold two"));
    }
}
