//! Every client: what it needs, and where its settings are. Source: `spec/clients.md`.

use crate::{Serving, claude, merge};
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
const OURS: &str = "# Written by mlx-dspark (`mlx-dspark agents`).\n";

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

fn label(serving: &Serving) -> String {
    format!("{} (local)", serving.model)
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
        steps: |_| Vec::new(),
    },
    Client {
        id: "aider",
        name: "Aider",
        protocol: "openai",
        summary: "Two variables and a model name.",
        note: None,
        file: None,
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

fn codex(serving: &Serving) -> String {
    let mut provider = json!({
        "name": "mlx-dspark",
        "base_url": serving.openai_url(),
        "wire_api": "responses",
        "stream_idle_timeout_ms": 3_600_000,
        "request_max_retries": 1,
        "stream_max_retries": 1,
    });
    // Named and unset, it would keep Codex from starting.
    if serving.key.is_some() {
        provider["env_key"] = json!("MLX_DSPARK_KEY");
    }
    let config = json!({
        "model": serving.model,
        "model_provider": "mlx-dspark",
        "model_context_window": serving.context_window,
        "model_auto_compact_token_limit": serving.context_window / 5 * 4,
        "web_search": "disabled",
        "model_providers": {"mlx-dspark": provider},
        "features": {"image_generation": false},
    });
    let text = toml::to_string_pretty(&config).unwrap_or_default();
    format!("{OURS}{text}")
}

fn pi(serving: &Serving) -> Value {
    // Values that begin with `$` or `!` are filled in or run by pi: a doubled `$` is one.
    let key = serving.key_or_word();
    let key = if key.starts_with(['$', '!']) {
        key.replace('$', "$$")
    } else {
        key.to_owned()
    };
    json!({
        "baseUrl": serving.base_url.trim_end_matches('/'),
        "api": "anthropic-messages",
        "apiKey": key,
        "compat": {"supportsEagerToolInputStreaming": true},
        "models": [{
            "id": serving.model,
            "name": label(serving),
            "reasoning": serving.thinks,
            "input": ["text"],
            "contextWindow": serving.context_window,
            "maxTokens": serving.answer_tokens(),
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        }],
    })
}

fn opencode(serving: &Serving) -> Value {
    let mut models = serde_json::Map::new();
    models.insert(
        serving.model.clone(),
        json!({
            "name": label(serving),
            "limit": {"context": serving.context_window, "output": serving.answer_tokens()},
            "tool_call": true,
            "reasoning": serving.thinks,
        }),
    );
    json!({
        "npm": "@ai-sdk/openai-compatible",
        "name": "mlx-dspark",
        "options": {"baseURL": serving.openai_url(), "apiKey": serving.key_or_word()},
        "models": models,
    })
}

fn zed(serving: &Serving) -> Value {
    json!({
        "api_url": serving.openai_url(),
        "available_models": [{
            "name": serving.model,
            "display_name": label(serving),
            "max_tokens": serving.context_window,
            "max_output_tokens": serving.answer_tokens(),
            "max_completion_tokens": serving.answer_tokens(),
            "capabilities": {
                "tools": true, "images": false, "parallel_tool_calls": false, "prompt_cache_key": false, "chat_completions": true,
            },
        }],
    })
}

fn crush(serving: &Serving) -> Value {
    json!({
        "name": "mlx-dspark",
        "type": "openai-compat",
        "base_url": format!("{}/", serving.openai_url()),
        "api_key": serving.key_or_word(),
        "models": [{
            "id": serving.model,
            "name": label(serving),
            "context_window": serving.context_window,
            "default_max_tokens": serving.answer_tokens(),
            "can_reason": serving.thinks,
            "supports_attachments": false,
        }],
    })
}

fn goose(serving: &Serving) -> String {
    let provider = json!({
        "name": "mlx-dspark",
        "engine": "openai",
        "display_name": "mlx-dspark",
        "api_key_env": "MLX_DSPARK_KEY",
        "base_url": format!("{}/chat/completions", serving.openai_url()),
        "models": [{"name": serving.model, "context_limit": serving.context_window}],
        "supports_streaming": true,
        "requires_auth": serving.key.is_some(),
        "timeout_seconds": 3600,
    });
    serde_json::to_string_pretty(&provider).unwrap_or_default() + "\n"
}

/// A YAML string that means itself: JSON's are.
fn yaml(text: &str) -> String {
    json!(text).to_string()
}

fn continues(serving: &Serving) -> String {
    format!(
        "name: Local\nversion: 0.0.1\nschema: v1\nmodels:\n  - name: {}\n    provider: openai\n    model: {}\n    apiBase: {}\n    apiKey: {}\n    \
         roles: [chat, edit, apply]\n    capabilities: [tool_use]\n    defaultCompletionOptions: {{contextLength: {}, maxTokens: {}}}\n    \
         requestOptions: {{timeout: 7200}}\n",
        yaml(&label(serving)),
        yaml(&serving.model),
        yaml(&serving.openai_url()),
        yaml(serving.key_or_word()),
        serving.context_window,
        serving.answer_tokens(),
    )
}

fn raycast(serving: &Serving) -> String {
    format!(
        "providers:\n  - id: mlx-dspark\n    name: mlx-dspark\n    base_url: {}\n    api_keys:\n      local: {}\n    models:\n      - id: {}\n        \
         name: {}\n        provider: local\n        context: {}\n        abilities:\n          temperature: {{supported: true}}\n          \
         vision: {{supported: false}}\n          system_message: {{supported: true}}\n          tools: {{supported: true}}\n          \
         reasoning_effort: {{supported: {}}}\n",
        yaml(&serving.openai_url()),
        yaml(serving.key_or_word()),
        yaml(&serving.model),
        yaml(&label(serving)),
        serving.context_window,
        serving.thinks,
    )
}
