use crate::{
    HubError, Job, Result,
    net::{Found, Limit, Network, Patience, RepoId, RepoInfo},
    places::Places,
};
use std::path::{Path, PathBuf};

/// Everything this crate knows about the outside: folders, the model hub, the Python to ask for packages.
///
/// Cheap to clone; make one from the environment where it is needed, so that changed variables are seen.
#[derive(Debug, Clone)]
pub struct Hub {
    pub places: Places,
    pub(crate) net: Network,
    pub(crate) python: PathBuf,
    /// The Python package index that `PIP_INDEX_URL` names, asked where there is no pip; which one is pip's own default only
    /// pip knows.
    pub(crate) index: Option<String>,
}

impl Hub {
    /// Reads `HF_HOME`, `HF_HUB_CACHE`, `HF_ENDPOINT`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_OFFLINE`,
    /// `XDG_CACHE_HOME`, `MLX_DSPARK_CACHE`, `MLX_DSPARK_MODEL_DIRS`, `MLX_DSPARK_PYTHON` and `PIP_INDEX_URL`.
    pub fn from_env() -> Self {
        let home = std::env::home_dir().unwrap_or_else(|| PathBuf::from("."));
        Self::from_vars(&home, &|key| std::env::var(key).ok())
    }

    /// As [`Hub::from_env`], from any source of variables.
    pub fn from_vars(home: &Path, var: &dyn Fn(&str) -> Option<String>) -> Self {
        let places = Places::from_vars(home, var);
        let set = |key: &str| var(key).filter(|value| !value.is_empty());
        let hf_home = set("HF_HOME").map_or_else(
            || {
                set("XDG_CACHE_HOME")
                    .map_or_else(|| home.join(".cache"), |path| crate::places::expand(&path, home))
                    .join("huggingface")
            },
            |path| crate::places::expand(&path, home),
        );
        Self {
            net: Network::from_vars(&hf_home, home, var),
            python: set("MLX_DSPARK_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from),
            index: set("PIP_INDEX_URL"),
            places,
        }
    }

    /// Adds the model folders of the app's settings, after those of the environment.
    #[must_use]
    pub fn with_model_dirs(mut self, dirs: impl IntoIterator<Item = PathBuf>) -> Self {
        self.places.add_model_dirs(dirs);
        self
    }

    #[must_use]
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.net.patience = patience;
        self
    }

    /// Downloads no faster than this, together with whatever else has the same cap.
    #[must_use]
    pub fn with_limit(mut self, limit: Limit) -> Self {
        self.net.limit = limit;
        self
    }

    /// What a repository holds, without downloading it: for sizes and the fit verdict.
    ///
    /// # Errors
    /// Offline, unreachable, absent or private, gated: each its own [`HubError`].
    pub async fn info(&self, repo: &str, revision: Option<&str>, job: &Job) -> Result<RepoInfo> {
        let id: RepoId = repo.parse()?;
        self.net.info(&id, revision.unwrap_or("main"), job).await
    }

    /// A repository's listing and its config.json (a few kB): enough for the fit verdict before anything is downloaded.
    ///
    /// # Errors
    /// As [`Hub::info`].
    pub async fn preview(&self, repo: &str, revision: Option<&str>, job: &Job) -> Result<Preview> {
        let info = self.info(repo, revision, job).await?;
        let config = self.net.json(&info, "config.json", job).await?;
        Ok(Preview { info, config })
    }

    /// Repositories whose name has `words` in it, most downloaded first: builds for MLX before the others. One page.
    ///
    /// # Errors
    /// Offline, unreachable, asked to wait: each its own [`HubError`].
    pub async fn search(&self, words: &str, job: &Job) -> Result<Vec<Found>> {
        self.net.search(words.trim(), job).await
    }

    /// The page of a repository, where its licence can be read and accepted.
    pub fn page(&self, repo: &str) -> String {
        format!("{}/{repo}", self.net.endpoint)
    }

    /// The repository that `text` names: `owner/name`, or the address of its page or of a file in it, on any mirror.
    pub fn repo_in(text: &str) -> Option<RepoId> {
        let text = text.trim();
        let path = match text.split_once("://") {
            Some(("http" | "https", rest)) => rest.split_once('/')?.1,
            Some(_) => return None,
            None => text
                .strip_prefix("huggingface.co/")
                .or_else(|| text.strip_prefix("hf.co/"))
                .unwrap_or(text),
        };
        let path = path.split(['?', '#']).next()?.trim_end_matches('/');
        let mut parts = path.splitn(3, '/');
        let (owner, name, rest) = (parts.next()?, parts.next()?, parts.next());
        let page = rest
            .is_none_or(|rest| ["tree", "blob", "resolve", "commit", "discussions"].contains(&rest.split('/').next().unwrap_or_default()));
        if !page || (owner == "datasets" || owner == "spaces") {
            return None;
        }
        format!("{owner}/{name}").parse().ok()
    }

    /// The host that models come from: `huggingface.co`, or the mirror of `HF_ENDPOINT`.
    pub fn host(&self) -> String {
        self.net.host()
    }
}

/// What a repository would bring.
#[derive(Debug, Clone)]
pub struct Preview {
    pub info: RepoInfo,
    pub config: serde_json::Value,
}

impl Preview {
    /// What the model would need here, with the KV cache at `kv_bits` (16, 8 or 4).
    pub fn model(&self, kv_bits: u32) -> crate::fit::Model {
        crate::fit::Model::from_config(&self.config, self.info.weight_bytes(), kv_bits)
    }

    /// # Errors
    /// [`HubError::NothingToLoad`] where the repository holds GGUF files, pickles or no weights.
    pub fn check_loadable(&self) -> Result<()> {
        self.info.check_loadable()
    }
}

/// Runs a future to its end from a thread that has no runtime (the command line). Works inside a runtime too: it
/// computes on a thread of its own.
pub fn block_on<F>(future: F) -> Result<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .map(|runtime| runtime.block_on(future))
        });
        match thread.join() {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(e)) => Err(HubError::Internal(e.to_string())),
            Err(_) => Err(HubError::Internal("the network thread panicked".into())),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_by_name_or_address() {
        let found = |text| Hub::repo_in(text).map(|id| id.to_string());
        for text in [
            "mlx-community/Qwen3-4B-8bit",
            " https://huggingface.co/mlx-community/Qwen3-4B-8bit ",
            "https://huggingface.co/mlx-community/Qwen3-4B-8bit/tree/main",
            "https://mirror.example:8080/mlx-community/Qwen3-4B-8bit/blob/main/config.json?x=1#L2",
            "huggingface.co/mlx-community/Qwen3-4B-8bit/",
            "hf.co/mlx-community/Qwen3-4B-8bit",
        ] {
            assert_eq!(found(text).as_deref(), Some("mlx-community/Qwen3-4B-8bit"), "{text}");
        }
        for text in [
            "qwen3 4b",
            "qwen3",
            "/models/a",
            "~/models/a",
            "a/b/c",
            "https://huggingface.co/datasets/a/b",
            "file:///a/b",
            "https://huggingface.co/a",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
