//! Where models are found: every place, the order between them, what is passed over, what may be deleted.

#![allow(clippy::unwrap_used)]

use dspark_hub::{FolderState, Hub, HubError, Kind, Lookup, Remedy, RepoId, Source};
use std::{
    fs,
    path::{Path, PathBuf},
};

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, rest: &str) -> PathBuf {
        self.0.path().join(rest)
    }

    fn hub(&self) -> Hub {
        let dirs = format!("{}:{}", self.path("extra1").display(), self.path("extra2").display());
        Hub::from_vars(self.0.path(), &|key| (key == "MLX_DSPARK_MODEL_DIRS").then(|| dirs.clone()))
    }

    fn model(&self, rest: &str) -> PathBuf {
        let path = self.path(rest);
        model(&path, 1000);
        path
    }

    /// A snapshot of the Hugging Face cache with links to blobs.
    fn snapshot(&self, repo: &str, commit: &str) -> PathBuf {
        let root = self
            .path(".cache/huggingface/hub")
            .join(format!("models--{}", repo.replace('/', "--")));
        let snapshot = root.join("snapshots").join(commit);
        fs::create_dir_all(root.join("blobs")).unwrap();
        fs::create_dir_all(root.join("refs")).unwrap();
        fs::create_dir_all(&snapshot).unwrap();
        model(&root.join("made"), 500);
        for file in ["config.json", "model.safetensors"] {
            let blob = format!("{file}-{commit}").replace('.', "");
            fs::rename(root.join("made").join(file), root.join("blobs").join(&blob)).unwrap();
            std::os::unix::fs::symlink(format!("../../blobs/{blob}"), snapshot.join(file)).unwrap();
        }
        fs::remove_dir_all(root.join("made")).unwrap();
        fs::write(root.join("refs/main"), commit).unwrap();
        snapshot
    }
}

fn model(path: &Path, bytes: usize) {
    fs::create_dir_all(path).unwrap();
    fs::write(
        path.join("config.json"),
        r#"{"model_type": "qwen3", "quantization": {"bits": 8, "group_size": 64}}"#,
    )
    .unwrap();
    let header = format!(r#"{{"w": {{"dtype": "U8", "shape": [{bytes}], "data_offsets": [0, {bytes}]}}}}"#);
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + bytes, 0);
    fs::write(path.join("model.safetensors"), file).unwrap();
}

fn commit(n: u8) -> String {
    format!("{n:02x}").repeat(20)
}

#[test]
fn every_place_is_found_and_the_earlier_one_wins() {
    let home = Home::new();
    let name = "owner/Model-4bit";
    let find = || match home.hub().lookup(name) {
        Lookup::Installed(found) => Some((found.path, found.source)),
        Lookup::Missing { remedy, .. } => {
            assert_eq!(remedy, Remedy::Download(name.parse().unwrap()));
            None
        }
    };
    assert_eq!(find(), None);
    // From the last place to the first: each newcomer takes over.
    let snapshot = home.snapshot(name, &commit(1));
    assert_eq!(find(), Some((snapshot, Source::HubCache)));
    for (rest, source) in [
        ("extra2/Model-4bit", Source::ModelDirs),
        ("extra1/owner_Model-4bit", Source::ModelDirs),
        ("extra1/owner/Model-4bit", Source::ModelDirs),
        (".cache/lm-studio/models/owner/Model-4bit", Source::LmStudio),
        (".lmstudio/models/owner/Model-4bit", Source::LmStudio),
        (".cache/mlx_dspark/models/owner_Model-4bit", Source::Cache),
        (".cache/mlx_dspark/models/Model-4bit", Source::Cache),
    ] {
        let path = home.model(rest);
        assert_eq!(find(), Some((path, source)), "{rest}");
    }
    let typed = home.model("somewhere/mine");
    let by_path = home.hub().resolve(typed.to_str().unwrap()).unwrap();
    assert_eq!((by_path.path, by_path.source), (typed, Source::Path));
    assert_eq!(home.hub().resolve("~/somewhere/mine").unwrap().source, Source::Path);
}

#[test]
fn bare_names_are_looked_up_where_bare_names_live() {
    let home = Home::new();
    home.model(".cache/mlx_dspark/models/Mine");
    home.model("extra2/Other");
    home.model(".lmstudio/models/owner/Studio");
    assert_eq!(home.hub().resolve("Mine").unwrap().source, Source::Cache);
    assert_eq!(home.hub().resolve("Other").unwrap().source, Source::ModelDirs);
    let error = home.hub().resolve("studio").unwrap_err().to_string();
    assert!(error.contains("did you mean `owner/Studio`"), "{error}");
}

/// dl-004, dl-006
#[test]
fn lm_studio_and_underscore_names_need_no_network() {
    let home = Home::new();
    let studio = home.model(".lmstudio/models/lmstudio-community/Qwen3-8B-MLX-8bit");
    let found = home.hub().resolve("lmstudio-community/Qwen3-8B-MLX-8bit").unwrap();
    assert_eq!((found.path, found.source), (studio, Source::LmStudio));
    home.model(".cache/mlx_dspark/models/DimInfer_Qwen3.8-27B-Dspark-v1");
    assert!(home.hub().resolve("DimInfer/Qwen3.8-27B-Dspark-v1").is_ok());
}

/// dl-005
#[test]
fn gguf_folders_are_passed_over_and_said_so() {
    let home = Home::new();
    let path = home.path(".lmstudio/models/x/Y-GGUF");
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("y-Q4_K_M.gguf"), "GGUF").unwrap();
    let hub = home.hub();
    let Lookup::Missing { unusable, remedy } = hub.lookup("x/Y-GGUF") else {
        panic!()
    };
    assert_eq!(unusable, [(path.clone(), FolderState::Gguf)]);
    assert_eq!(remedy, Remedy::Download("x/Y-GGUF".parse().unwrap()));
    let rows = hub.installed();
    assert_eq!(rows.len(), 1);
    assert!(!rows[0].is_usable() && rows[0].folder.state.problem().unwrap().contains("MLX build"));
    // The same name, complete, further down the list is taken.
    let extra = home.model("extra1/x/Y-GGUF");
    assert_eq!(hub.resolve("x/Y-GGUF").unwrap().path, extra);
}

/// dl-007, first half: the link of an unfinished file leads nowhere.
#[test]
fn a_dangling_snapshot_is_incomplete_and_offered_again() {
    let home = Home::new();
    let snapshot = home.snapshot("a/b", &commit(2));
    let blob = fs::canonicalize(snapshot.join("model.safetensors")).unwrap();
    fs::rename(&blob, blob.with_extension("incomplete")).unwrap();
    let Lookup::Missing { unusable, remedy } = home.hub().lookup("a/b") else {
        panic!()
    };
    assert_eq!(
        unusable[0].1,
        FolderState::Incomplete {
            missing: vec!["model.safetensors".into()]
        }
    );
    assert_eq!(
        remedy,
        Remedy::Download(RepoId {
            owner: "a".into(),
            name: "b".into()
        })
    );
    let error = home.hub().resolve("a/b").unwrap_err().to_string();
    assert!(error.contains("models pull a/b"), "{error}");
}

#[test]
fn names_that_are_none_are_told() {
    let home = Home::new();
    for (name, part) in [
        ("starter", "mlx-dspark starter"),
        ("/no/where", "no such folder"),
        ("what", "owner/name"),
        ("../x", "no such folder"),
    ] {
        let error = home.hub().resolve(name).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let empty = home.path("empty");
    fs::create_dir_all(&empty).unwrap();
    let error = home.hub().resolve(empty.to_str().unwrap()).unwrap_err();
    assert!(matches!(error, HubError::NotAModel { .. }), "{error}");
}

#[test]
fn the_list_names_every_model_once_by_the_name_to_ask_for() {
    let home = Home::new();
    home.model(".cache/mlx_dspark/models/mine");
    home.model(".lmstudio/models/o/studio");
    home.model("extra1/p/extra");
    home.model("extra1/flat");
    home.snapshot("h/hubbed", &commit(3));
    let drafter = home.model("extra2/d/head");
    fs::write(drafter.join("config.json"), r#"{"architectures": ["DFlashDraftModel"]}"#).unwrap();
    fs::create_dir_all(home.path("extra1/q/source-code")).unwrap();
    let rows = home.hub().with_model_dirs([home.path("extra1")]).installed();
    let mut names: Vec<_> = rows.iter().map(|row| row.repo.as_str()).collect();
    assert_eq!(rows.last().unwrap().repo, "d/head", "drafters come last");
    names.sort_unstable();
    assert_eq!(names, ["d/head", "flat", "h/hubbed", "mine", "o/studio", "p/extra"]);
    for row in &rows {
        assert!(row.is_usable());
        assert_eq!(home.hub().resolve(&row.repo).unwrap().path, row.folder.path);
    }
    let models = rows
        .iter()
        .filter(|row| row.folder.kind == Kind::Model)
        .map(|row| row.folder.size_bytes);
    assert!(models.is_sorted_by(|a, b| a >= b));
}

#[test]
fn only_what_this_program_brought_is_deleted() {
    let home = Home::new();
    let hub = home.hub();
    let mine = home.model(".cache/mlx_dspark/models/mine");
    let removed = hub.remove("mine", false).unwrap();
    assert!(removed.bytes > 1000 && !mine.exists());
    assert!(hub.installed().is_empty());

    for (rest, name) in [
        (".lmstudio/models/o/studio", "o/studio"),
        ("extra1/flat", "flat"),
        ("typed", "~/typed"),
    ] {
        let path = home.model(rest);
        assert!(matches!(hub.remove(name, true), Err(HubError::NotOurs { .. })), "{name}");
        assert!(path.join("model.safetensors").exists());
    }
    // A download of another program needs a second word.
    let shared = home.snapshot("h/shared", &commit(4));
    assert!(matches!(hub.remove("h/shared", false), Err(HubError::NotOurs { .. })));
    hub.remove("h/shared", true).unwrap();
    assert!(!shared.exists());
    assert!(matches!(hub.remove("h/shared", true), Err(HubError::NotInstalled { .. })));
}
