//! What a person chose, as a TOML file they can read and edit.

use dspark_protocol::{Cap, Mode, SpeculationOptions, TreeSetting};
use dspark_strings::{Language, t};
use serde::{Deserialize, Serialize};
use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    pub general: General,
    pub appearance: Appearance,
    pub server: Server,
    pub models: Models,
    pub decoding: Decoding,
    pub chat: Chat,
    /// Named sets of how replies are drawn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub presets: Vec<Preset>,
    /// Keys of other versions, kept when the file is written again.
    #[serde(flatten)]
    pub rest: toml::Table,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct General {
    /// Closing the window hides it; the tray brings it back.
    pub keep_running: bool,
    pub load_last_model: bool,
    /// The machine does not fall asleep while it writes, downloads or loads.
    pub stay_awake: bool,
    /// A word when long work ends unseen.
    pub notify: bool,
    /// The first run has been seen; later starts do not begin with the machine.
    pub welcomed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThemeChoice {
    #[default]
    Auto,
    Light,
    Dark,
}

/// The language of the window and the tray.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "toml::Value", into = "toml::Value")]
pub enum LanguageChoice {
    /// The one the system asks for.
    #[default]
    System,
    Is(Language),
    /// Of another version, kept when the file is written again; until it is known, the system's.
    Other(toml::Value),
}

impl LanguageChoice {
    /// Every choice that can be made.
    pub const ALL: [Self; 5] = [
        Self::System,
        Self::Is(Language::English),
        Self::Is(Language::Chinese),
        Self::Is(Language::Japanese),
        Self::Is(Language::German),
    ];

    /// The language this comes to where the system asks for `system`.
    pub fn language(&self, system: Language) -> Language {
        match self {
            Self::Is(language) => *language,
            Self::System | Self::Other(_) => system,
        }
    }
}

impl From<toml::Value> for LanguageChoice {
    fn from(value: toml::Value) -> Self {
        match value.as_str() {
            Some(SYSTEM) => Self::System,
            Some(tag) => Language::from_tag(tag).map_or(Self::Other(value), Self::Is),
            None => Self::Other(value),
        }
    }
}

impl From<LanguageChoice> for toml::Value {
    fn from(choice: LanguageChoice) -> Self {
        match choice {
            LanguageChoice::System => SYSTEM.into(),
            LanguageChoice::Is(language) => language.tag().into(),
            LanguageChoice::Other(value) => value,
        }
    }
}

const SYSTEM: &str = "system";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Appearance {
    pub theme: ThemeChoice,
    pub language: LanguageChoice,
    /// Percent, 80 to 200.
    pub text_scale: u32,
    pub reduce_motion: bool,
    pub increase_contrast: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    pub enabled: bool,
    pub port: u16,
    /// Empty asks for none.
    pub api_key: String,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Models {
    /// Searched after the known places, in this order.
    pub folders: Vec<PathBuf>,
    /// MB (10^6 bytes) a second of all downloads together; 0 for no limit.
    pub download_limit: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<LastModel>,
}

impl Models {
    /// The cap on downloads; 0 for none.
    pub fn bytes_per_second(&self) -> u64 {
        u64::from(self.download_limit) * 1_000_000
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastModel {
    pub name: String,
    pub path: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chat {
    pub system_prompt: String,
    pub temperature: f32,
    pub top_p: f32,
    pub top_k: u32,
    pub min_p: f32,
    pub repetition_penalty: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Most tokens of one reply.
    pub max_tokens: usize,
    /// For models that can think before they answer.
    pub thinking: bool,
    /// Tint replies by where their words came from.
    pub show_sources: bool,
}

/// How replies are drawn, under a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preset {
    pub name: String,
    #[serde(default)]
    pub chat: Chat,
}

impl Preset {
    /// Those that are always there.
    pub fn known() -> [Self; 3] {
        let preset = |name: &str, temperature, top_p, min_p| Self {
            name: name.into(),
            chat: Chat {
                temperature,
                top_p,
                min_p,
                ..Chat::default()
            },
        };
        [
            preset(t!(preset_exact), 0.0, 1.0, 0.0),
            preset(t!(preset_balanced), 0.7, 0.95, 0.0),
            preset(t!(preset_inventive), 1.0, 0.98, 0.03),
        ]
    }
}

/// Which drafter a model is loaded with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DrafterChoice {
    /// The one that is known for the model, if it is on this machine.
    #[default]
    Auto,
    Off,
    Path(PathBuf),
}

/// How models decode. Takes effect when a model is loaded.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Decoding {
    pub mode: Mode,
    pub cap: Cap,
    pub tree: TreeSetting,
    /// Cut drafts whose estimated survival falls below this; 0 never cuts.
    pub confidence: f32,
    /// `None` leaves it to the pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookup: Option<bool>,
    /// Tokens; `None` takes the model's own maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<usize>,
    pub drafter: DrafterChoice,
}

impl Decoding {
    pub fn options(&self) -> SpeculationOptions {
        SpeculationOptions {
            cap: self.cap,
            tree: self.tree,
            confidence: self.confidence,
            lookup: self.lookup,
        }
    }
}

impl Default for General {
    fn default() -> Self {
        Self {
            keep_running: true,
            load_last_model: true,
            stay_awake: true,
            notify: true,
            welcomed: false,
        }
    }
}

impl Default for Appearance {
    fn default() -> Self {
        Self {
            theme: ThemeChoice::Auto,
            language: LanguageChoice::System,
            text_scale: 100,
            reduce_motion: false,
            increase_contrast: false,
        }
    }
}

impl Default for Server {
    fn default() -> Self {
        Self {
            enabled: true,
            port: 8080,
            api_key: String::new(),
        }
    }
}

impl Default for Chat {
    fn default() -> Self {
        Self {
            system_prompt: String::new(),
            temperature: 0.7,
            top_p: 0.95,
            top_k: 0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            seed: None,
            max_tokens: 2048,
            thinking: true,
            show_sources: false,
        }
    }
}

impl Settings {
    /// Reads the file. One that is missing gives the defaults; one that does not parse is put aside, and the second
    /// value says where and why.
    pub fn load(path: &Path) -> (Self, Option<String>) {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return (Self::default(), None),
            Err(error) => {
                let note = t!(settings_unreadable, path = path.display(), error = error.to_string());
                return (Self::default(), Some(note));
            }
        };
        match toml::from_str::<Self>(&text) {
            Ok(settings) => (settings.within_limits(), None),
            Err(error) => {
                let aside = path.with_extension("toml.broken");
                let kept = match std::fs::rename(path, &aside) {
                    Ok(()) => t!(kept_as, path = aside.display()),
                    Err(error) => t!(not_put_aside, error = error.to_string()),
                };
                let note = t!(settings_mistake, message = error.message(), kept = kept);
                (Self::default(), Some(note))
            }
        }
    }

    /// Writes the file in one step: a crash leaves the old one or the new one. Only its owner may read it, because
    /// the API key is in it.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub fn save(&self, path: &Path) -> std::io::Result<()> {
        let text = toml::to_string_pretty(self).map_err(std::io::Error::other)?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let part = path.with_extension("toml.part");
        let mut options = std::fs::File::options();
        options.create(true).write(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(part, path)
    }

    /// A hand-edited file may say anything.
    fn within_limits(mut self) -> Self {
        self.appearance.text_scale = self.appearance.text_scale.clamp(80, 200);
        let chat = &mut self.chat;
        let or = |value: f32, low: f32, high: f32, default: f32| if value.is_finite() { value.clamp(low, high) } else { default };
        chat.temperature = or(chat.temperature, 0.0, 2.0, 0.7);
        chat.top_p = or(chat.top_p, 0.01, 1.0, 1.0);
        chat.min_p = or(chat.min_p, 0.0, 1.0, 0.0);
        chat.repetition_penalty = or(chat.repetition_penalty, 0.5, 2.0, 1.0);
        chat.max_tokens = chat.max_tokens.max(1);
        let decoding = &mut self.decoding;
        decoding.confidence = or(decoding.confidence, 0.0, 1.0, 0.0);
        if let Cap::Fixed(cap) = &mut decoding.cap {
            *cap = (*cap).clamp(1, 64);
        }
        if let TreeSetting::Nodes(nodes) = &mut decoding.tree {
            *nodes = (*nodes).clamp(2, 256);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn kept_across_a_restart_with_what_others_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/settings.toml");
        assert_eq!(Settings::load(&path), (Settings::default(), None));
        let mut settings = Settings::default();
        settings.server.port = 9000;
        settings.server.api_key = "secret".into();
        settings.appearance.theme = ThemeChoice::Dark;
        settings.models.folders.push("/models".into());
        settings.save(&path).unwrap();
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("\n[future]\nkey = 1\n");
        std::fs::write(&path, text).unwrap();
        let (read, note) = Settings::load(&path);
        assert_eq!(note, None);
        assert_eq!(read.server, settings.server);
        read.save(&path).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("[future]"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_language_of_another_version_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.toml");
        for (line, choice) in [
            ("language = \"ja\"", LanguageChoice::Is(Language::Japanese)),
            ("language = \"system\"", LanguageChoice::System),
            ("", LanguageChoice::System),
            ("language = \"tlh\"", LanguageChoice::Other("tlh".into())),
            ("language = 7", LanguageChoice::Other(7.into())),
        ] {
            std::fs::write(&path, format!("[appearance]\n{line}\ntext_scale = 120\n")).unwrap();
            let (read, note) = Settings::load(&path);
            assert_eq!(
                (read.appearance.language.clone(), read.appearance.text_scale, note),
                (choice, 120, None),
                "{line}"
            );
            read.save(&path).unwrap();
            assert_eq!(Settings::load(&path).0, read, "{line}");
        }
        let other = LanguageChoice::Other("tlh".into());
        assert_eq!(other.language(Language::German), Language::German);
        assert_eq!(LanguageChoice::Is(Language::English).language(Language::German), Language::English);
    }

    #[test]
    fn a_mistake_is_put_aside_and_a_wild_value_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.toml");
        std::fs::write(&path, "[server\nport = 1").unwrap();
        let (read, note) = Settings::load(&path);
        assert_eq!(read, Settings::default());
        assert!(note.unwrap().contains("settings.toml.broken"));
        assert!(folder.path().join("settings.toml.broken").exists());
        std::fs::write(&path, "[appearance]\ntext_scale = 9000\n[chat]\ntemperature = nan\n").unwrap();
        let (read, _) = Settings::load(&path);
        assert_eq!((read.appearance.text_scale, read.chat.temperature), (200, 0.7));
    }
}
