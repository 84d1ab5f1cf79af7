//! What a checkpoint says about its packed weights. Source: `spec/checkpoints.md` §1.3; the format itself is MLX's.

use super::{Config, LoadError, config::read_json};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt, path::Path};

type Result<T> = std::result::Result<T, LoadError>;

/// How packed integers or floats become weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `scale · q + bias`, scale and bias per group in the model's dtype.
    Affine,
    /// E2M1 with an E8M0 scale per 32.
    Mxfp4,
    /// E2M1 with an E4M3 scale per 16.
    Nvfp4,
    /// E4M3 with an E8M0 scale per 32.
    Mxfp8,
}

impl Mode {
    /// By its name in `config.json`.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Affine, Self::Mxfp4, Self::Nvfp4, Self::Mxfp8]
            .into_iter()
            .find(|mode| mode.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Affine => "affine",
            Self::Mxfp4 => "mxfp4",
            Self::Nvfp4 => "nvfp4",
            Self::Mxfp8 => "mxfp8",
        }
    }
}

/// Packing of one weight matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    pub bits: i32,
    /// Elements along the input axis that share a scale.
    pub group: i32,
    pub mode: Mode,
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mode {
            Mode::Affine => write!(f, "{}-bit g{}", self.bits, self.group),
            mode => f.write_str(mode.name()),
        }
    }
}

impl Packing {
    /// What a mode packs to where nothing is said, as MLX has it.
    pub fn usual(mode: Mode) -> Self {
        let (bits, group) = match mode {
            Mode::Affine => (4, 64),
            Mode::Mxfp4 => (4, 32),
            Mode::Nvfp4 => (4, 16),
            Mode::Mxfp8 => (8, 32),
        };
        Self { bits, group, mode }
    }

    /// Of a mode by its name.
    ///
    /// # Errors
    /// Where MLX has no such packing, with the number that does not fit.
    pub fn new(bits: i64, group: i64, mode: &str) -> Result<Self> {
        let mode = Mode::named(mode).ok_or_else(|| LoadError::Quantization(format!("the mode `{mode}` is not supported")))?;
        let packing = Self {
            bits: bits as i32,
            group: group as i32,
            mode,
        };
        let fits = match mode {
            Mode::Affine => [2, 3, 4, 5, 6, 8].contains(&bits) && [32, 64, 128].contains(&group),
            Mode::Mxfp4 => (bits, group) == (4, 32),
            Mode::Nvfp4 => (bits, group) == (4, 16),
            Mode::Mxfp8 => (bits, group) == (8, 32),
        };
        if fits {
            return Ok(packing);
        }
        let hint = match bits {
            1 => ": take the 2-bit ternary build (prism-ml/Ternary-Bonsai-27B-mlx-2bit) of such a model",
            _ => ": supported are 2, 3, 4, 5, 6 and 8 bits in groups of 32, 64 or 128, mxfp4, nvfp4 and mxfp8",
        };
        Err(LoadError::Quantization(format!(
            "{bits} bits in groups of {group} ({}) are not supported{hint}",
            mode.name()
        )))
    }

    /// From the shapes alone, for a path that the metadata does not name.
    ///
    /// `inputs` is the unpacked width; `packed` and `scales` are the stored columns.
    pub fn infer(path: &str, inputs: usize, packed: usize, scales: usize, byte_scales: bool) -> Result<Self> {
        let whole = |n: usize, by: usize| (by > 0 && n.is_multiple_of(by)).then(|| (n / by) as i64);
        let (Some(group), Some(bits)) = (whole(inputs, scales), whole(packed * 32, inputs)) else {
            return Err(LoadError::Quantization(format!(
                "`{path}` has {packed} packed words and {scales} scales a row, which fit no packing of {inputs} inputs"
            )));
        };
        let mode = match (byte_scales, bits, group) {
            (false, ..) => "affine",
            (true, 4, 16) => "nvfp4",
            (true, 4, 32) => "mxfp4",
            (true, 8, 32) => "mxfp8",
            _ => {
                return Err(LoadError::Quantization(format!(
                    "`{path}` has byte scales with {bits} bits in groups of {group}, an unknown packing"
                )));
            }
        };
        Self::new(bits, group, mode)
    }
}

/// The metadata: a default and exceptions by module path.
#[derive(Debug, Clone, Default)]
pub struct Quantization {
    pub default: Option<Packing>,
    /// `None` leaves the module unquantized.
    paths: BTreeMap<String, Option<Packing>>,
}

impl Quantization {
    /// From config.json (top level, then `text_config`), then `hf_quant_config.json`.
    pub fn read(config: &Config, dir: &Path) -> Result<Self> {
        let object = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
        if let Some(native) = object(config.top("quantization")).or_else(|| object(config.text("quantization"))) {
            return Self::native(&native);
        }
        let foreign = object(config.top("quantization_config")).or_else(|| object(config.text("quantization_config")));
        let foreign = match foreign {
            Some(found) => Some(found),
            None => object(read_json(&dir.join("hf_quant_config.json"))?.as_ref()),
        };
        foreign.map_or_else(|| Ok(Self::default()), |found| Self::foreign(&found))
    }

    /// MLX's own entry.
    fn native(entry: &Map<String, Value>) -> Result<Self> {
        let number = |entry: &Map<String, Value>, key: &str, default: Option<i32>| {
            let found = entry.get(key).and_then(Value::as_i64).or(default.map(i64::from));
            found.ok_or_else(|| LoadError::Quantization(format!("`{key}` is missing or not a whole number")))
        };
        let mode =
            |entry: &Map<String, Value>, default: Mode| entry.get("mode").and_then(Value::as_str).unwrap_or(default.name()).to_owned();
        let default = Packing::new(
            number(entry, "bits", None)?,
            number(entry, "group_size", None)?,
            &mode(entry, Mode::Affine),
        )?;
        let mut paths = BTreeMap::new();
        for (path, value) in entry {
            let packing = match value {
                Value::Object(own) => {
                    // As MLX reads it: an exception without a mode is affine, whatever the rest is, and what it leaves out
                    // is the mode's usual.
                    let mode = mode(own, Mode::Affine);
                    let usual = Mode::named(&mode).map_or(default, Packing::usual);
                    let usual = if usual.mode == default.mode { default } else { usual };
                    Some(Packing::new(
                        number(own, "bits", Some(usual.bits))?,
                        number(own, "group_size", Some(usual.group))?,
                        &mode,
                    )?)
                }
                Value::Bool(true) => Some(default),
                Value::Bool(false) => None,
                // bits, group_size, mode and notes of converters
                _ => continue,
            };
            paths.insert(path.clone(), packing);
        }
        Ok(Self {
            default: Some(default),
            paths,
        })
    }

    /// Entries of other toolchains, where their tensors are MLX's.
    fn foreign(entry: &Map<String, Value>) -> Result<Self> {
        let word = |key: &str| entry.get(key).and_then(Value::as_str);
        let refuse = |what: String| LoadError::Quantization(format!("{what} is not supported: use an MLX build of the model"));
        // MLX writes a copy of its own entry under this name too.
        if word("quant_method").is_none() && entry.contains_key("bits") {
            return Self::native(entry);
        }
        // ModelOpt nests its own.
        let inner = entry.get("quantization").and_then(Value::as_object).unwrap_or(entry);
        let packing = match word("quant_method").or_else(|| inner.get("quant_algo").map(|_| "modelopt")) {
            Some("mxfp4") => Packing::new(4, 32, "mxfp4"),
            Some("mxfp8") => Packing::new(8, 32, "mxfp8"),
            Some("fp8") => {
                let block: Vec<_> = entry
                    .get("weight_block_size")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .collect();
                let square = block.len() == 2 && block.iter().all(|n| n.as_i64() == Some(32));
                match word("scale_fmt") {
                    Some("ue8m0") if square => Packing::new(8, 32, "mxfp8"),
                    _ => return Err(refuse("fp8 other than 32 × 32 blocks with ue8m0 scales".into())),
                }
            }
            Some("compressed-tensors") => match word("format") {
                Some("nvfp4-pack-quantized") => Packing::new(4, 16, "nvfp4"),
                Some("mxfp4-pack-quantized") => Packing::new(4, 32, "mxfp4"),
                Some("pack-quantized") => Packing::new(4, 32, "affine"),
                other => return Err(refuse(format!("the compressed-tensors format `{}`", other.unwrap_or("none")))),
            },
            Some("modelopt") => match inner.get("quant_algo").and_then(Value::as_str) {
                Some("NVFP4") => Packing::new(4, inner.get("group_size").and_then(Value::as_i64).unwrap_or(16), "nvfp4"),
                other => return Err(refuse(format!("the modelopt algorithm `{}`", other.unwrap_or("none")))),
            },
            other => return Err(refuse(format!("the method `{}`", other.unwrap_or("none")))),
        };
        Ok(Self {
            default: Some(packing?),
            paths: BTreeMap::new(),
        })
    }

    /// Whether some module is packed otherwise than most.
    pub fn is_mixed(&self) -> bool {
        self.paths.values().any(|packing| *packing != self.default)
    }

    /// The entry that names this module path.
    pub fn named(&self, path: &str) -> Option<Option<Packing>> {
        self.paths.get(path).copied()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(config: Value) -> Result<Quantization> {
        let Value::Object(top) = config else { panic!("not an object") };
        Quantization::read(&Config::new(top), Path::new("nowhere"))
    }

    #[test]
    fn overrides_inherit_from_the_default() {
        let found =
            read(json!({"quantization": {"group_size": 64, "bits": 4, "a.b": {"bits": 8}, "c": false, "d": true, "quant_method": "x"}}))
                .unwrap();
        let packing = |bits| Packing {
            bits,
            group: 64,
            mode: Mode::Affine,
        };
        assert_eq!(found.named("a.b"), Some(Some(packing(8))));
        assert_eq!(found.named("c"), Some(None));
        assert_eq!(found.named("d"), Some(Some(packing(4))));
        assert_eq!(found.named("e"), None);
    }

    /// What mlx-lm writes for the router of a mixture of experts in mxfp4.
    #[test]
    fn an_override_without_a_mode_is_affine() {
        let found = read(
            json!({"quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4", "gate": {"group_size": 64, "bits": 8},
            "head": {"bits": 6}, "other": {"mode": "nvfp4"}}}),
        );
        let found = found.unwrap();
        let told = |path| found.named(path).unwrap().unwrap().to_string();
        assert_eq!([told("gate"), told("head"), told("other")], ["8-bit g64", "6-bit g64", "nvfp4"]);
    }

    #[test]
    fn the_native_entry_wins_over_a_foreign_one() {
        let found = read(json!({"quantization": {"group_size": 32, "bits": 8}, "quantization_config": {"quant_method": "gptq"}}));
        assert_eq!(found.unwrap().default.unwrap().to_string(), "8-bit g32");
    }

    #[test]
    fn foreign_entries() {
        let name = |entry: Value| read(json!({"quantization_config": entry})).map(|found| found.default.unwrap().to_string());
        assert_eq!(name(json!({"quant_method": "mxfp4"})).unwrap(), "mxfp4");
        assert_eq!(
            name(json!({"quant_method": "fp8", "scale_fmt": "ue8m0", "weight_block_size": [32, 32]})).unwrap(),
            "mxfp8"
        );
        assert_eq!(
            name(json!({"quant_method": "compressed-tensors", "format": "pack-quantized"})).unwrap(),
            "4-bit g32"
        );
        assert_eq!(name(json!({"quant_method": "modelopt", "quant_algo": "NVFP4"})).unwrap(), "nvfp4");
        assert_eq!(
            name(json!({"quantization": {"quant_algo": "NVFP4", "group_size": 16}})).unwrap(),
            "nvfp4"
        );
        for (entry, named) in [
            (json!({"quant_method": "gptq", "bits": 4}), "gptq"),
            (json!({"quant_method": "fp8", "weight_block_size": [128, 128]}), "fp8"),
            (
                json!({"quant_method": "compressed-tensors", "format": "float-quantized"}),
                "float-quantized",
            ),
            (json!({"quant_method": "modelopt", "quant_algo": "FP8"}), "FP8"),
        ] {
            assert!(name(entry).unwrap_err().to_string().contains(named));
        }
    }

    #[test]
    fn unsupported_bits_are_refused_with_the_number() {
        let message = |bits: i32| {
            read(json!({"quantization": {"group_size": 64, "bits": bits}}))
                .unwrap_err()
                .to_string()
        };
        assert!(message(7).contains("7 bits"));
        assert!(message(1).contains("1 bits") && message(1).contains("Ternary-Bonsai-27B-mlx-2bit"));
        let own = read(json!({"quantization": {"group_size": 64, "bits": 4, "x": {"bits": 16}}}));
        assert!(own.unwrap_err().to_string().contains("16 bits"));
    }

    #[test]
    fn packings_follow_from_shapes() {
        let infer = |packed, scales, bytes| Packing::infer("p", 128, packed, scales, bytes).map(|packing| packing.to_string());
        assert_eq!(infer(16, 4, false).unwrap(), "4-bit g32");
        assert_eq!(infer(12, 2, false).unwrap(), "3-bit g64");
        assert_eq!(infer(16, 8, true).unwrap(), "nvfp4");
        assert_eq!(infer(32, 4, true).unwrap(), "mxfp8");
        for (packed, scales, bytes) in [(16, 0, false), (16, 5, false), (28, 2, false), (12, 4, true)] {
            assert!(infer(packed, scales, bytes).is_err());
        }
    }
}
