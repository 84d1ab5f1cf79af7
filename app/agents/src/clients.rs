//! Every client: what it needs, and where its settings are. Source: `spec/clients.md`.

use crate::{
    Serving, claude,
    entries::{codex, continues, crush, goose, opencode, pi, raycast, zed},
    found::{self, Signs},
    merge,
};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Where settings are kept. Tests bring their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    pub home: PathBuf,
    /// `$CODEX_HOME`, else `~/.codex`.
    pub codex: PathBuf,
    /// `$XDG_CONFIG_HOME`, else `~/.config`.
    pub config: PathBuf,
    /// The project that a project's own settings are for.
    pub project: PathBuf,
    /// Undo records.
    pub records: PathBuf,
    /// Folders that programs are looked for in, in this order.
    pub programs: Vec<PathBuf>,
    /// Folders of application bundles.
    pub applications: Vec<PathBuf>,
    /// Names of the environment variables that programs here are started with.
    pub variables: Vec<String>,
}

impl Places {
    /// The user's own. `records` is a folder of ours; `None` without a home folder.
    pub fn of_user(records: PathBuf) -> Option<Self> {
        let home = std::env::home_dir()?;
        let set = |name: &str| {
            let value = std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
            value.filter(|path| path.is_absolute())
        };
        Some(Self {
            codex: set("CODEX_HOME").unwrap_or_else(|| home.join(".codex")),
            config: set("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            project: std::env::current_dir().unwrap_or_else(|_| home.clone()),
            programs: found::folders(&home),
            variables: std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect(),
            applications: vec!["/Applications".into(), home.join("Applications")],
            home,
            records,
        })
    }
}

/// A settings file, and our entry in it.
#[derive(Clone, Copy)]
pub struct File {
    pub(crate) path: fn(&Places) -> PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// One entry of a JSON file, at a path of names.
    Entry(&'static [&'static str], fn(&Serving) -> Value),
    /// Several entries under one name.
    Entries(&'static str, fn(&Serving) -> Value),
    /// The whole file is ours.
    Whole(fn(&Serving) -> String),
    /// Ours where there is none yet; what others wrote in it is left alone (YAML keeps no comments through a parser).
    Begun(fn(&Serving) -> String),
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("File")
    }
}

/// The first line of a file that is ours.
pub(crate) const OURS: &str = "# Written by mlx-dspark (`mlx-dspark agents`).\n";

impl File {
    pub(crate) fn merged(&self, current: Option<&str>, serving: &Serving) -> Result<String, String> {
        match self.kind {
            Kind::Entry(path, value) => merge::set(current, path, &value(serving)),
            Kind::Entries(under, values) => {
                let mut text = current.map(str::to_owned);
                for (name, value) in values(serving).as_object().into_iter().flatten() {
                    text = Some(merge::set(text.as_deref(), &[under, name], value)?);
                }
                text.ok_or_else(|| "there is nothing to write".into())
            }
            Kind::Whole(text) => Ok(text(serving)),
            Kind::Begun(text) => match current.filter(|current| !current.trim().is_empty() && !current.starts_with(OURS)) {
                Some(_) => Err("it has content of its own, which is not rewritten".into()),
                None => Ok(format!("{OURS}{}", text(serving))),
            },
        }
    }

    /// Our entry is in it, whatever it says.
    pub(crate) fn has_entry(&self, current: &str) -> bool {
        match self.kind {
            Kind::Entry(path, _) => merge::get(current, path).is_some(),
            Kind::Entries(under, _) => merge::get(current, &[under, "ANTHROPIC_BASE_URL"]).is_some(),
            Kind::Whole(_) => true,
            Kind::Begun(_) => current.starts_with(OURS),
        }
    }

    /// What our entry says now, as text that can be compared; `None` where it is not there.
    pub(crate) fn entry(&self, current: &str) -> Option<String> {
        match self.kind {
            Kind::Entry(path, _) => merge::get(current, path).map(|value| value.to_string()),
            Kind::Entries(under, values) => {
                let all = merge::get(current, &[under])?;
                // A window this large sets every name that we ever set.
                let widest = Serving {
                    context_window: 1 << 20,
                    ..Serving::default()
                };
                let ours: serde_json::Map<String, Value> = values(&widest)
                    .as_object()?
                    .keys()
                    .filter_map(|name| Some((name.clone(), all.get(name)?.clone())))
                    .collect();
                (!ours.is_empty()).then(|| Value::Object(ours).to_string())
            }
            Kind::Whole(_) | Kind::Begun(_) => self.has_entry(current).then(|| current.to_owned()),
        }
    }

    /// The entry alone, to be pasted.
    fn snippet(&self, serving: &Serving) -> String {
        self.merged(None, serving).unwrap_or_default()
    }
}

/// One thing to do in setting a client up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Command {
        label: &'static str,
        command: String,
    },
    Environment {
        label: &'static str,
        variables: Vec<(String, String)>,
    },
    /// Typed into the client's own settings.
    Fields {
        label: &'static str,
        fields: Vec<(&'static str, String)>,
    },
    File {
        label: &'static str,
        path: PathBuf,
        content: String,
    },
}

/// A client that people use.
#[derive(Debug)]
pub struct Client {
    pub id: &'static str,
    pub name: &'static str,
    /// `anthropic`, `responses` or `openai`.
    pub protocol: &'static str,
    pub summary: &'static str,
    pub note: Option<&'static str>,
    pub file: Option<File>,
    /// How it shows on this machine.
    pub(crate) signs: Signs,
    /// A page that says how to get it.
    pub page: &'static str,
    /// How its User-Agent begins, in lower case; empty where others send the same.
    pub agents: &'static [&'static str],
    /// Tokens of its own instructions and tools before the first word of a person, about; 0 where they are few.
    pub first_turn: usize,
    steps: fn(&Serving) -> Vec<Step>,
}

/// There is one of each.
impl PartialEq for Client {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Client {}

impl Client {
    pub fn steps(&self, serving: &Serving, places: &Places) -> Vec<Step> {
        let mut steps = (self.steps)(serving);
        if let Some(file) = &self.file {
            let step = Step::File {
                label: "settings",
                path: (file.path)(places),
                content: file.snippet(serving),
            };
            steps.insert(0, step);
        }
        steps
    }

    /// The steps but for the file: commands, variables and fields.
    pub fn commands(&self, serving: &Serving) -> Vec<Step> {
        (self.steps)(serving)
    }

    /// What its file would hold if it held nothing else: to be pasted by hand.
    pub fn entry(&self, serving: &Serving) -> Option<String> {
        self.file.map(|file| file.snippet(serving))
    }

    /// Whether a client of this name (by its User-Agent) is this one.
    pub fn is_agent(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        let begins = |agent: &&str| {
            let rest = name.strip_prefix(*agent);
            rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric()))
        };
        self.agents.iter().any(begins)
    }

    /// The file that is written, where there is one.
    pub fn path(&self, places: &Places) -> Option<PathBuf> {
        self.file.map(|file| (file.path)(places))
    }

    /// As `/admin/integrations` lists it.
    pub fn describe(&self, serving: &Serving, places: &Places) -> Value {
        let steps: Vec<Value> = self.steps(serving, places).iter().map(Step::describe).collect();
        let mut value = json!({"id": self.id, "name": self.name, "protocol": self.protocol, "summary": self.summary, "setup": steps});
        if let Some(note) = self.note {
            value["note"] = json!(note);
        }
        value
    }
}

impl Step {
    fn describe(&self) -> Value {
        match self {
            Self::Command { label, command } => json!({"kind": "command", "label": label, "command": command}),
            Self::Environment { label, variables } => {
                let variables: serde_json::Map<String, Value> =
                    variables.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
                json!({"kind": "env", "label": label, "variables": variables})
            }
            Self::Fields { label, fields } => {
                let fields: Vec<Value> = fields.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
                json!({"kind": "fields", "label": label, "fields": fields})
            }
            Self::File { label, path, content } => json!({"kind": "file", "label": label, "path": path, "content": content}),
        }
    }
}

/// The client of this name.
pub fn client(id: &str) -> Option<&'static Client> {
    CLIENTS.iter().find(|client| client.id.eq_ignore_ascii_case(id))
}

fn command(label: &'static str, command: String) -> Step {
    Step::Command { label, command }
}

/// What almost every client of OpenAI's kind asks for.
fn common_fields(serving: &Serving) -> Vec<(&'static str, String)> {
    vec![
        ("Base URL", serving.openai_url()),
        ("API key", serving.key_or_word().to_owned()),
        ("Model", serving.model.clone()),
        ("Context window", serving.context_window.to_string()),
    ]
}

pub static CLIENTS: [Client; 14] = [
    Client {
        id: "claude",
        name: "Claude Code",
        protocol: "anthropic",
        summary: "Starts with the right environment; nothing on the disk changes.",
        note: Some("The file is this project's own settings, for those who start `claude` themselves."),
        file: Some(File {
            path: |places| places.project.join(".claude/settings.local.json"),
            kind: Kind::Entries("env", |serving| claude::settings(serving)["env"].clone()),
        }),
        signs: Signs::program(&["claude"]),
        page: "https://docs.claude.com/en/docs/claude-code/setup",
        agents: &["claude-cli"],
        first_turn: 24_000,
        steps: |_| vec![command("start", "mlx-dspark claude".into())],
    },
    Client {
        id: "codex",
        name: "Codex",
        protocol: "responses",
        summary: "A profile of its own, in a file of its own.",
        note: None,
        file: Some(File {
            path: |places| places.codex.join("mlx-dspark.config.toml"),
            kind: Kind::Whole(codex),
        }),
        signs: Signs::program(&["codex"]),
        page: "https://developers.openai.com/codex/cli",
        agents: &["codex"],
        first_turn: 0,
        steps: |serving| {
            let mut steps = vec![command("start", "codex --profile mlx-dspark".into())];
            if let Some(key) = &serving.key {
                steps.push(Step::Environment {
                    label: "key",
                    variables: vec![("MLX_DSPARK_KEY".into(), key.clone())],
                });
            }
            steps
        },
    },
    Client {
        id: "pi",
        name: "pi",
        protocol: "anthropic",
        summary: "A provider in its list of models.",
        note: None,
        file: Some(File {
            path: |places| places.home.join(".pi/agent/models.json"),
            kind: Kind::Entry(&["providers", "mlx-dspark"], pi),
        }),
        signs: Signs::program(&["pi"]),
        page: "https://www.npmjs.com/package/@mariozechner/pi-coding-agent",
        agents: &["pi"],
        first_turn: 1500,
        steps: |serving| {
            let model = claude::quoted(&serving.model);
            vec![command("start", format!("pi --provider mlx-dspark --model {model}"))]
        },
    },
    Client {
        id: "opencode",
        name: "opencode",
        protocol: "openai",
        summary: "A provider in its configuration.",
        note: Some("Set `small_model` to the same model, or titles are asked of a cloud service."),
        file: Some(File {
            path: |places| {
                let folder = places.config.join("opencode");
                let with_comments = folder.join("opencode.jsonc");
                if with_comments.exists() {
                    with_comments
                } else {
                    folder.join("opencode.json")
                }
            },
            kind: Kind::Entry(&["provider", "mlx-dspark"], opencode),
        }),
        signs: Signs::program(&["opencode"]),
        page: "https://opencode.ai/docs",
        agents: &["opencode"],
        first_turn: 0,
        steps: |serving| {
            let model = format!("mlx-dspark/{}", serving.model);
            let whole = json!({"provider": {"mlx-dspark": opencode(serving)}, "model": model, "small_model": model});
            vec![command(
                "start without touching a file",
                format!("OPENCODE_CONFIG_CONTENT={} opencode", claude::quoted(&whole.to_string())),
            )]
        },
    },
    Client {
        id: "zed",
        name: "Zed",
        protocol: "openai",
        summary: "A provider among its language models.",
        note: Some("Zed keeps the key in the keychain: enter it in Zed, or start Zed with MLX_DSPARK_API_KEY set."),
        file: Some(File {
            path: |places| places.config.join("zed/settings.json"),
            kind: Kind::Entry(&["language_models", "openai_compatible", "mlx-dspark"], zed),
        }),
        signs: Signs {
            programs: &["zed", "zeditor"],
            apps: &["Zed.app", "Zed Preview.app"],
            extensions: &[],
        },
        page: "https://zed.dev/download",
        agents: &["zed"],
        first_turn: 0,
        steps: |serving| {
            vec![Step::Environment {
                label: "key",
                variables: vec![("MLX_DSPARK_API_KEY".into(), serving.key_or_word().to_owned())],
            }]
        },
    },
    Client {
        id: "crush",
        name: "Crush",
        protocol: "openai",
        summary: "A provider in its configuration.",
        note: Some("Choose the model for both the large and the small slot."),
        file: Some(File {
            path: |places| places.config.join("crush/crush.json"),
            kind: Kind::Entry(&["providers", "mlx-dspark"], crush),
        }),
        signs: Signs::program(&["crush"]),
        page: "https://github.com/charmbracelet/crush",
        agents: &["crush", "charm"],
        first_turn: 0,
        steps: |_| vec![command("start", "crush".into())],
    },
    Client {
        id: "goose",
        name: "Goose",
        protocol: "openai",
        summary: "A provider in a file of its own.",
        note: None,
        file: Some(File {
            path: |places| places.config.join("goose/custom_providers/mlx-dspark.json"),
            kind: Kind::Whole(goose),
        }),
        signs: Signs {
            programs: &["goose"],
            apps: &["Goose.app"],
            extensions: &[],
        },
        page: "https://block.github.io/goose/docs/getting-started/installation",
        agents: &["goose"],
        first_turn: 0,
        steps: |_| vec![command("start", "goose session start --provider mlx-dspark".into())],
    },
    Client {
        id: "continue",
        name: "Continue",
        protocol: "openai",
        summary: "A model in its configuration.",
        note: Some("For completion while typing add a second entry with `roles: [autocomplete]` and `useLegacyCompletionsEndpoint: true`."),
        file: Some(File {
            path: |places| places.home.join(".continue/config.yaml"),
            kind: Kind::Begun(continues),
        }),
        signs: Signs::extension(&["continue.continue-"]),
        page: "https://docs.continue.dev/getting-started/install",
        agents: &["continue"],
        first_turn: 0,
        steps: |_| Vec::new(),
    },
    Client {
        id: "raycast",
        name: "Raycast AI",
        protocol: "openai",
        summary: "A provider in its list; turn on custom providers in Raycast's settings.",
        note: None,
        file: Some(File {
            path: |places| places.config.join("raycast/ai/providers.yaml"),
            kind: Kind::Begun(raycast),
        }),
        signs: Signs {
            programs: &[],
            apps: &["Raycast.app"],
            extensions: &[],
        },
        page: "https://www.raycast.com",
        agents: &["raycast"],
        first_turn: 0,
        steps: |_| Vec::new(),
    },
    Client {
        id: "aider",
        name: "Aider",
        protocol: "openai",
        summary: "Two variables and a model name.",
        note: None,
        file: None,
        signs: Signs::program(&["aider"]),
        page: "https://aider.chat/docs/install.html",
        agents: &["aider", "litellm"],
        first_turn: 0,
        steps: |serving| {
            let model = claude::quoted(&format!("openai/{}", serving.model));
            let (url, key) = (serving.openai_url(), claude::quoted(serving.key_or_word()));
            vec![command(
                "start",
                format!("OPENAI_API_BASE={url} OPENAI_API_KEY={key} aider --model {model}"),
            )]
        },
    },
    Client {
        id: "cline",
        name: "Cline, Roo and Kilo",
        protocol: "openai",
        summary: "Choose the provider \"OpenAI Compatible\".",
        note: Some("Turn \"Supports images\" off; Max output −1 lets the server decide."),
        file: None,
        signs: Signs::extension(&["saoudrizwan.claude-dev-", "rooveterinaryinc.roo-cline-", "kilocode.kilo-code-"]),
        page: "https://docs.cline.bot/getting-started/installing-cline",
        agents: &["cline", "roo", "kilo"],
        first_turn: 13_500,
        steps: |serving| {
            vec![Step::Fields {
                label: "provider settings",
                fields: common_fields(serving),
            }]
        },
    },
    Client {
        id: "open-webui",
        name: "Open WebUI",
        protocol: "openai",
        summary: "Admin panel, Connections, OpenAI API.",
        note: Some("From a container use host.docker.internal in place of 127.0.0.1."),
        file: None,
        signs: Signs::program(&["open-webui"]),
        page: "https://docs.openwebui.com/getting-started",
        agents: &["open-webui"],
        first_turn: 0,
        steps: |serving| {
            vec![Step::Fields {
                label: "connection",
                fields: common_fields(serving).into_iter().take(2).collect(),
            }]
        },
    },
    Client {
        id: "sillytavern",
        name: "SillyTavern",
        protocol: "openai",
        summary: "Chat Completion, Custom (OpenAI-compatible).",
        note: None,
        file: None,
        signs: Signs::NONE,
        page: "https://docs.sillytavern.app/installation",
        agents: &["sillytavern"],
        first_turn: 0,
        steps: |serving| {
            vec![Step::Fields {
                label: "connection",
                fields: common_fields(serving).into_iter().take(3).collect(),
            }]
        },
    },
    Client {
        id: "librechat",
        name: "LibreChat",
        protocol: "openai",
        summary: "An endpoint under `endpoints.custom` of librechat.yaml.",
        note: Some("From a container use host.docker.internal in place of 127.0.0.1."),
        file: None,
        signs: Signs::NONE,
        page: "https://www.librechat.ai/docs/local",
        agents: &["librechat"],
        first_turn: 0,
        steps: |serving| {
            vec![Step::Fields {
                label: "endpoints.custom",
                fields: vec![
                    ("name", "mlx-dspark".into()),
                    ("baseURL", serving.openai_url()),
                    ("apiKey", serving.key_or_word().to_owned()),
                    ("models", format!("{{default: [{:?}], fetch: true}}", serving.model)),
                    ("titleConvo", "true".into()),
                    ("titleModel", "current_model".into()),
                    ("customParams", "{reasoningKey: reasoning_content}".into()),
                ],
            }]
        },
    },
];
