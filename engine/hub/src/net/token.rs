//! The hub's access token: where it comes from, and one that a person gave this program to keep.
//!
//! `HF_TOKEN` and the token file that all Hugging Face programs share go before the kept one, which is a file of its own that
//! only its owner can read. The token itself is in no error, no log and no `Debug`.

use crate::{Hub, HubError, Result, disk};
use std::{
    fmt,
    io::Write as _,
    path::{Path, PathBuf},
};

/// An access token. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(set)")
    }
}

impl Token {
    /// A word of visible letters, as every token is: anything else could not be sent, or would be something else.
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_one = !text.is_empty() && text.len() <= 1024 && text.bytes().all(|b| b.is_ascii_graphic());
        is_one.then(|| Self(text.to_owned()))
    }

    pub(crate) fn word(&self) -> &str {
        &self.0
    }
}

/// Where the token comes from that is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenFrom {
    /// `HF_TOKEN`.
    Variable,
    /// The file of all Hugging Face programs.
    Shared(PathBuf),
    /// The one that this program keeps.
    Kept(PathBuf),
}

/// The first of the three places that has one.
pub(crate) fn find(shared: &Path, kept: &Path, variable: Option<&str>) -> Option<(TokenFrom, Token)> {
    let file = |path: &Path| Token::read(&std::fs::read_to_string(path).ok()?);
    variable
        .and_then(Token::read)
        .map(|token| (TokenFrom::Variable, token))
        .or_else(|| Some((TokenFrom::Shared(shared.to_owned()), file(shared)?)))
        .or_else(|| Some((TokenFrom::Kept(kept.to_owned()), file(kept)?)))
}

/// Where this program keeps one: with its settings.
pub(crate) fn kept_file(home: &Path, var: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let config = if cfg!(target_os = "macos") {
        home.join("Library/Application Support")
    } else {
        let set = var("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        set.unwrap_or_else(|| home.join(".config"))
    };
    config.join("mlx-dspark/hub-token")
}

impl Hub {
    /// Where the token comes from that the hub is sent; `None`: none is.
    pub fn token_from(&self) -> Option<&TokenFrom> {
        self.net.token_from()
    }

    /// The file of the token that this program keeps, there or not.
    pub fn kept_token(&self) -> &Path {
        &self.net.kept_token
    }

    /// Keeps a token for later, readable by its owner only; `None` forgets it. A [`Hub`] made after this sends it.
    ///
    /// # Errors
    /// [`HubError::NotAToken`] for what cannot be one, and where the file cannot be written. Neither says the token.
    pub fn keep_token(&self, token: Option<&str>) -> Result<()> {
        let path = self.kept_token();
        let Some(text) = token else {
            return disk::remove_file(path);
        };
        let token = Token::read(text).ok_or(HubError::NotAToken)?;
        if let Some(folder) = path.parent() {
            disk::create_dir(folder)?;
        }
        let partial = disk::sibling(path, &format!(".{}", std::process::id()));
        // Made anew, so that it never has another file's permissions.
        disk::remove_file(&partial)?;
        let mut options = std::fs::File::options();
        options.create_new(true).write(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options
            .open(&partial)
            .and_then(|mut file| file.write_all(token.word().as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| std::fs::rename(&partial, path))
            .map_err(HubError::io("write", path))
    }
}
