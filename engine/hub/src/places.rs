use std::path::{Path, PathBuf};

/// The variables that move the caches.
pub(crate) const OUR_CACHE: &str = "MLX_DSPARK_CACHE";
pub(crate) const HUB_CACHE: &str = "HF_HUB_CACHE";

/// Every folder models are looked for in. Nothing here touches the disk but [`Places::from_vars`], which reads LM
/// Studio's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Our own cache: `models/`, `drafters/`, `downloads/`.
    pub cache: PathBuf,
    /// The Hugging Face cache, shared with other programs.
    pub hub_cache: PathBuf,
    /// LM Studio's model folders.
    pub lm_studio: Vec<PathBuf>,
    /// `MLX_DSPARK_MODEL_DIRS`, then the folders of the app's settings.
    pub model_dirs: Vec<PathBuf>,
    pub(crate) home: PathBuf,
}

impl Places {
    /// The places that the environment names; `var` looks a variable up (empty counts as unset).
    pub fn from_vars(home: &Path, var: &dyn Fn(&str) -> Option<String>) -> Self {
        let set = |key: &str| var(key).filter(|value| !value.is_empty());
        let path = |key: &str| set(key).map(|value| expand(&value, home));
        let cache_home = path("XDG_CACHE_HOME").unwrap_or_else(|| home.join(".cache"));
        let hf_home = path("HF_HOME").unwrap_or_else(|| cache_home.join("huggingface"));
        let mut places = Self {
            cache: path(OUR_CACHE).unwrap_or_else(|| home.join(".cache/mlx_dspark")),
            hub_cache: path(HUB_CACHE).unwrap_or_else(|| hf_home.join("hub")),
            lm_studio: lm_studio(home),
            model_dirs: Vec::new(),
            home: home.to_owned(),
        };
        let listed = set("MLX_DSPARK_MODEL_DIRS").unwrap_or_default();
        places.add_model_dirs(
            listed
                .split(':')
                .map(str::trim)
                .filter(|dir| !dir.is_empty())
                .map(|dir| expand(dir, home)),
        );
        places
    }

    /// Appends folders of the app's settings, order kept, duplicates dropped.
    pub fn add_model_dirs(&mut self, dirs: impl IntoIterator<Item = PathBuf>) {
        for dir in dirs {
            if !self.model_dirs.contains(&dir) {
                self.model_dirs.push(dir);
            }
        }
    }

    pub fn models(&self) -> PathBuf {
        self.cache.join("models")
    }

    pub fn drafters(&self) -> PathBuf {
        self.cache.join("drafters")
    }

    pub(crate) fn downloads(&self) -> PathBuf {
        self.cache.join("downloads")
    }
}

/// `~` and `~/…` are the home folder.
pub(crate) fn expand(text: &str, home: &Path) -> PathBuf {
    match text.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => PathBuf::from(text),
    }
}

/// LM Studio moved its home once and lets people move the models; all of those are looked at.
fn lm_studio(home: &Path) -> Vec<PathBuf> {
    let pointer = std::fs::read_to_string(home.join(".lmstudio-home-pointer"))
        .ok()
        .map(|text| expand(text.trim(), home))
        .filter(|path| path.is_absolute());
    let roots = [Some(home.join(".lmstudio")), pointer, Some(home.join(".cache/lm-studio"))];
    let mut folders: Vec<PathBuf> = Vec::new();
    for root in roots.into_iter().flatten() {
        let chosen = crate::disk::read_json(&root.join("settings.json"))
            .and_then(|settings| Some(expand(settings["downloadsFolder"].as_str()?, home)))
            .filter(|path| path.is_absolute());
        for folder in [Some(root.join("models")), chosen].into_iter().flatten() {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(home: &Path, vars: &[(&str, &str)]) -> Places {
        Places::from_vars(home, &|key| vars.iter().find(|(k, _)| *k == key).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn the_hub_cache_follows_the_published_precedence() {
        let home = Path::new("/h");
        let hub = |vars: &[(&str, &str)]| places(home, vars).hub_cache;
        assert_eq!(hub(&[]), Path::new("/h/.cache/huggingface/hub"));
        assert_eq!(hub(&[("XDG_CACHE_HOME", "/x")]), Path::new("/x/huggingface/hub"));
        assert_eq!(hub(&[("XDG_CACHE_HOME", "/x"), ("HF_HOME", "~/hf")]), Path::new("/h/hf/hub"));
        assert_eq!(hub(&[("HF_HOME", "/hf"), ("HF_HUB_CACHE", "/c")]), Path::new("/c"));
        assert_eq!(hub(&[("HF_HUB_CACHE", "")]), Path::new("/h/.cache/huggingface/hub"));
    }

    #[test]
    fn model_dirs_keep_order_and_drop_blanks_and_duplicates() {
        let places = places(Path::new("/h"), &[("MLX_DSPARK_MODEL_DIRS", "~/b: :/a:~/b:")]);
        assert_eq!(places.model_dirs, [Path::new("/h/b"), Path::new("/a")]);
    }

    #[test]
    fn lm_studio_settings_name_another_folder() {
        let home = tempfile::tempdir().unwrap();
        let moved = home.path().join("elsewhere");
        std::fs::create_dir_all(&moved).unwrap();
        std::fs::write(home.path().join(".lmstudio-home-pointer"), moved.display().to_string()).unwrap();
        std::fs::write(moved.join("settings.json"), r#"{"downloadsFolder": "/big/disk"}"#).unwrap();
        let found = places(home.path(), &[]).lm_studio;
        assert!(found.contains(&PathBuf::from("/big/disk")), "{found:?}");
        assert!(found.contains(&home.path().join(".lmstudio/models")));
    }
}
