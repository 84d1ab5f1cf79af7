//! The models known to run well and the drafters that belong to them (`assets/registry.toml`), matched by name.

use dspark_protocol::Mode;
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
    /// A repository, or the name of a drafter that is shipped with the program.
    pub dspark: Option<String>,
    pub dflash: Option<String>,
    /// Which drafter `auto` takes first; the DSpark one where nothing is said.
    pub mode: Option<DrafterKind>,
    #[serde(default = "yes")]
    pub lookup: bool,
    pub ram_gb: f64,
    pub tier_gb: Option<f64>,
    pub parameters: f64,
    /// Of a mixture of experts: billions of parameters that one token uses.
    pub active: Option<f64>,
    pub bits: u32,
    pub kv_bytes: Option<u64>,
    /// What others measured, best known first.
    #[serde(default)]
    pub measured: Vec<Measured>,
    pub note: Option<String>,
}

/// A drafter that runs for the models named by `of`, without being what `auto` takes.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// An id as a row's.
    pub of: String,
    pub drafter: String,
    pub kind: DrafterKind,
    #[serde(default = "yes")]
    pub lookup: bool,
    #[serde(default)]
    pub measured: Vec<Measured>,
    pub note: Option<String>,
}

/// A speed-up with its provenance.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Times plain decoding.
    pub times: f64,
    /// Quantization of the target, and the content.
    pub what: String,
    /// The machine.
    pub on: String,
    pub by: String,
    /// `2026-09`
    pub when: Option<String>,
    /// Drafts of a round.
    pub cap: Option<usize>,
    /// With side branches.
    #[serde(default)]
    pub tree: bool,
}

/// The two kinds of drafters that a mode can ask for. DFlash stands for all block drafters without a Markov head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DrafterKind {
    Dspark,
    Dflash,
}

impl DrafterKind {
    /// `DSpark`, `DFlash`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Dspark => "DSpark",
            Self::Dflash => "DFlash",
        }
    }

    /// What a mode asks for by name; `None` for those that ask for none.
    pub fn of_mode(mode: Mode) -> Option<Self> {
        match mode {
            Mode::Dspark => Some(Self::Dspark),
            Mode::Dflash => Some(Self::Dflash),
            Mode::Auto | Mode::Baseline | Mode::Lookup => None,
        }
    }
}

fn yes() -> bool {
    true
}

impl Row {
    /// Its drafters in the order in which `mode` wants them: `auto` prefers the stamped kind and takes the other where only
    /// that is installed; a mode that names a kind takes no other.
    pub fn drafters(&self, mode: Mode) -> Vec<(DrafterKind, &str)> {
        let first = self.mode.unwrap_or(DrafterKind::Dspark);
        let order = match (mode, first) {
            (Mode::Baseline | Mode::Lookup, _) => &[][..],
            (Mode::Dspark, _) => &[DrafterKind::Dspark],
            (Mode::Dflash, _) => &[DrafterKind::Dflash],
            (Mode::Auto, DrafterKind::Dspark) => &[DrafterKind::Dspark, DrafterKind::Dflash],
            (Mode::Auto, DrafterKind::Dflash) => &[DrafterKind::Dflash, DrafterKind::Dspark],
        };
        let name = |kind: &DrafterKind| {
            let name = match kind {
                DrafterKind::Dspark => self.dspark.as_deref(),
                DrafterKind::Dflash => self.dflash.as_deref(),
            };
            name.map(|name| (*kind, name))
        };
        order.iter().filter_map(name).collect()
    }

    /// The best that is on record, as `2.7x`.
    pub fn speedup(&self) -> Option<String> {
        let best = self.measured.iter().map(|measured| measured.times).max_by(f64::total_cmp)?;
        Some(format!("{best:.1}x"))
    }

    /// Bytes of weights, from parameters and width: an estimate until the hub has been asked.
    pub fn estimated_bytes(&self) -> u64 {
        (self.parameters * 1e9 * crate::fit::effective_bits(self.bits, 64, "affine") / 8.0) as u64
    }

    /// The coarse rule of the registry: the stated need is at most 80 % of the memory.
    pub fn fits(&self, ram_bytes: u64) -> bool {
        self.ram_gb <= 0.8 * ram_bytes as f64 / f64::from(1 << 30)
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    model: Vec<Row>,
    candidate: Vec<Candidate>,
}

fn file() -> &'static File {
    // A test parses the file, so the empty lists are never seen.
    static FILE: LazyLock<File> = LazyLock::new(|| toml::from_str(TEXT).unwrap_or_default());
    &FILE
}

/// All rows, in the order of the file.
pub fn rows() -> &'static [Row] {
    &file().model
}

/// The row of a model's name: its id is part of the base name, with or without dashes; the longest id wins.
pub fn find(name: &str) -> Option<&'static Row> {
    if let Some(row) = rows().iter().find(|row| row.target == name) {
        return Some(row);
    }
    let base = base(name)?;
    rows().iter().filter(|row| is_part(&row.id, &base)).max_by_key(|row| row.id.len())
}

/// More drafters that run for a model's name.
pub fn candidates(name: &str) -> Vec<&'static Candidate> {
    let Some(base) = base(name) else { return Vec::new() };
    file().candidate.iter().filter(|candidate| is_part(&candidate.of, &base)).collect()
}

fn base(name: &str) -> Option<String> {
    Some(name.trim_end_matches('/').rsplit('/').next()?.to_ascii_lowercase())
}

fn is_part(id: &str, base: &str) -> bool {
    base.contains(id) || base.replace('-', "").contains(&id.replace('-', ""))
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
        let shipped: Vec<String> = crate::assets::drafters().into_iter().map(|drafter| drafter.name).collect();
        let is_drafter = |name: &str| name.parse::<crate::RepoId>().is_ok() || shipped.iter().any(|shipped| shipped == name);
        for row in super::rows() {
            assert!(
                row.target.parse::<crate::RepoId>().is_ok() || row.target == crate::starter::NAME,
                "{}",
                row.target
            );
            assert_eq!(find(&row.target).unwrap().id, row.id);
            assert_eq!(row.id, row.id.to_lowercase());
            assert!(row.dspark.is_some() || row.dflash.is_some(), "{}", row.id);
            assert!(row.dspark.iter().chain(&row.dflash).all(|name| is_drafter(name)), "{}", row.id);
            assert!(row.mode != Some(DrafterKind::Dflash) || row.dflash.is_some(), "{}", row.id);
            for measured in &row.measured {
                assert!((0.5..10.0).contains(&measured.times) && !measured.by.is_empty() && !measured.on.is_empty());
                assert!(measured.cap.is_none_or(|cap| (1..=15).contains(&cap)), "{}", row.id);
            }
        }
        for candidate in &file().candidate {
            assert!(is_drafter(&candidate.drafter), "{}", candidate.drafter);
            assert_eq!(candidate.of, candidate.of.to_lowercase());
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
        assert_eq!(id("qwen3_8b"), None);
        assert_eq!(id("QWEN3.8-27B-8BIT"), Some("qwen3.8-27b-8bit"));
        // Without dashes on either side.
        assert_eq!(id("Gemma4-12B-it-4bit"), Some("gemma-4-12b"));
        assert_eq!(id("/models/Qwen3-4B-8bit/"), Some("qwen3-4b"));
        assert_eq!(id("starter"), Some("smollm2-135m-instruct"));
        assert_eq!(id("mlx-community/SmolLM2-135M-Instruct-8bit"), Some("smollm2-135m-instruct"));
        assert_eq!(id("mlx-community/SmolLM2-135M-8bit"), None);
    }

    /// `spec/drafters.md` §8
    #[test]
    fn the_modes_choose_among_a_rows_drafters() {
        let names = |name, mode| -> Vec<String> {
            let drafters = find(name).unwrap().drafters(mode).into_iter();
            drafters
                .map(|(_, drafter)| drafter.rsplit('/').next().unwrap().to_owned())
                .collect()
        };
        assert_eq!(
            names("Qwen3-4B-4bit", Mode::Auto),
            ["dspark_qwen3_4b_block7", "Qwen3-4B-DFlash-b16"]
        );
        assert_eq!(names("Qwen3-4B-4bit", Mode::Dflash), ["Qwen3-4B-DFlash-b16"]);
        let qwen38 = ["Qwen3.8-27B-DFlash2", "Qwen3.8-27B-speculator.dspark"];
        assert_eq!(names("Qwen3.8-27B-6bit", Mode::Auto), qwen38);
        assert_eq!(names("Qwen3.8-27B-6bit", Mode::Dspark), qwen38[1..]);
        assert!(names("Qwen3-14B-8bit", Mode::Dflash).is_empty());
        for mode in [Mode::Baseline, Mode::Lookup] {
            assert!(names("Qwen3-4B-4bit", mode).is_empty());
        }
        let off: Vec<_> = rows().iter().filter(|row| !row.lookup).map(|row| row.id.as_str()).collect();
        assert_eq!(
            off,
            [
                "qwen3.6-35b-a3b",
                "qwen3.8-27b",
                "qwen3.8-27b-8bit",
                "nemotron-3.5-lightning-30b-a3b",
                "muse-glimmer-30b",
                "lfm2.5-8b-a1b"
            ]
        );
        assert_eq!(find("Qwen3.8-27B-4bit").unwrap().speedup().as_deref(), Some("2.9x"));
        let more: Vec<_> = candidates("Qwen3.8-27B-4bit").iter().map(|more| more.drafter.as_str()).collect();
        assert_eq!(more.len(), 3, "{more:?}");
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
