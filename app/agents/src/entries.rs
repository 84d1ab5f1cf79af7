//! What each client's settings say of this server. Source: `spec/clients.md`.

use crate::{Serving, clients::OURS};
use serde_json::{Value, json};

fn label(serving: &Serving) -> String {
    format!("{} (local)", serving.model)
}

pub(crate) fn codex(serving: &Serving) -> String {
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

pub(crate) fn pi(serving: &Serving) -> Value {
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

pub(crate) fn opencode(serving: &Serving) -> Value {
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

pub(crate) fn zed(serving: &Serving) -> Value {
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

pub(crate) fn crush(serving: &Serving) -> Value {
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

pub(crate) fn goose(serving: &Serving) -> String {
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

pub(crate) fn continues(serving: &Serving) -> String {
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

pub(crate) fn raycast(serving: &Serving) -> String {
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
