//! The models known to run well (`assets/registry.toml`), matched by name.

use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

const TEXT: &str = include_str!("../../../assets/registry.toml");

/// One row. See the head of the file for units.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub id: String,
    /// `model_type` of the target: whether the engine has that family decides whether the row can be offered.
    pub family: String,
    pub target: String,
    pub dspark: Option<String>,
    pub dflash: Option<String>,
    /// Which drafter `auto` takes; the DSpark one where nothing is said.
    pub mode: Option<String>,
    #[serde(default = "yes")]
    pub lookup: bool,
    pub ram_gb: f64,
    pub tier_gb: Option<f64>,
    pub parameters: f64,
    pub bits: u32,
    pub kv_bytes: Option<u64>,
    pub speedup: Option<String>,
}

fn yes() -> bool {
    true
}

impl Row {
    /// Bytes of weights, from parameters and width: an estimate until the hub has been asked.
    pub fn estimated_bytes(&self) -> u64 {
        (self.parameters * 1e9 * crate::fit::effective_bits(self.bits, 64, "affine") / 8.0) as u64
    }

    /// The coarse rule of the registry: the stated need is at most 80 % of the memory.
    pub fn fits(&self, ram_bytes: u64) -> bool {
        self.ram_gb <= 0.8 * ram_bytes as f64 / f64::from(1 << 30)
    }
}

/// All rows, in the order of the file.
pub fn rows() -> &'static [Row] {
    #[derive(Deserialize)]
    struct Registry {
        model: Vec<Row>,
    }
    // A test parses the file, so the empty list is never seen.
    static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| toml::from_str::<Registry>(TEXT).map(|file| file.model).unwrap_or_default());
    &ROWS
}

/// The row of a model's name: its id is part of the base name, with or without dashes; the longest id wins.
pub fn find(name: &str) -> Option<&'static Row> {
    let base = name.trim_end_matches('/').rsplit('/').next()?.to_ascii_lowercase();
    let dashless = base.replace('-', "");
    rows()
        .iter()
        .filter(|row| base.contains(&row.id) || dashless.contains(&row.id.replace('-', "")))
        .max_by_key(|row| row.id.len())
}

/// Rows to offer on a machine with this much memory, best first: those of its tier that fit and whose family the engine
/// has. `families` are the `model_type`s that can be loaded.
pub fn recommended(ram_bytes: u64, families: &[&str]) -> Vec<&'static Row> {
    let gib = ram_bytes as f64 / f64::from(1 << 30);
    // Machines report a little less than their nominal size.
    let nominal = gib * 1.07;
    let mut offered: Vec<&Row> = rows()
        .iter()
        .filter(|row| families.contains(&row.family.as_str()) && row.fits(ram_bytes))
        .filter(|row| row.tier_gb.is_some_and(|tier| tier <= nominal))
        .collect();
    offered.sort_by(|a, b| {
        (b.tier_gb, b.ram_gb)
            .partial_cmp(&(a.tier_gb, a.ram_gb))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    offered
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_file_parses_and_ids_are_unique() {
        let rows = toml::from_str::<toml::Table>(TEXT).unwrap()["model"].as_array().unwrap().len();
        assert_eq!(super::rows().len(), rows);
        let mut ids: Vec<_> = super::rows().iter().map(|row| &row.id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), rows);
        for row in super::rows() {
            assert!(row.target.parse::<crate::RepoId>().is_ok(), "{}", row.target);
            assert_eq!(find(&row.target).unwrap().id, row.id);
        }
    }

    /// `spec/cli.md` §1
    #[test]
    fn the_longest_id_wins_whatever_the_quantization() {
        let id = |name| find(name).map(|row| row.id.as_str());
        assert_eq!(id("Qwen3.8-27B-8bit"), Some("qwen3.8-27b-8bit"));
        assert_eq!(id("Qwen3.8-27B-6bit"), Some("qwen3.8-27b"));
        assert_eq!(id("Qwen3-14B-4bit"), Some("qwen3-14b"));
        assert_eq!(id("foo/Qwen3-8B-MLX-8bit"), Some("qwen3-8b"));
        assert_eq!(id("somebody/unknown-7b"), None);
    }

    /// `spec/fit-and-roofline.md` §4.1
    #[test]
    fn four_fifths_of_the_memory() {
        let fits = |ram_gb, ram: u64| {
            Row {
                ram_gb,
                ..rows()[0].clone()
            }
            .fits(ram * GIB)
        };
        assert!(fits(38.4, 48) && !fits(38.5, 48) && fits(29.0, 48) && !fits(40.0, 48));
        assert!(fits(12.0, 16) && fits(12.8, 16) && !fits(13.0, 16));
        assert!(fits(18.0, 24) && !fits(20.0, 24));
    }

    #[test]
    fn recommendations_by_memory() {
        let ids =
            |gib: u64, families: &[&str]| -> Vec<String> { recommended(gib * GIB, families).iter().map(|row| row.id.clone()).collect() };
        assert_eq!(ids(8, &["llama", "qwen3"]), ["minicpm5-2b"]);
        assert_eq!(ids(16, &["llama", "qwen3"]), ["qwen3-8b", "qwen3-4b", "minicpm5-2b"]);
        assert_eq!(ids(48, &["qwen3_5"])[..2], ["qwen3.8-27b-8bit", "qwen3.8-27b"]);
        assert!(ids(48, &[]).is_empty());
    }
}
