//! The `model` field: which names the loaded model answers to.

use crate::error::ApiError;
use axum::http::StatusCode;
use dspark_protocol::ModelInfo;

/// Whether `asked` names this model: its name, its hub id, either with a provider in front.
pub(crate) fn is(model: &ModelInfo, asked: &str) -> bool {
    let last = |name: &str| {
        name.trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase()
    };
    let asked = last(asked);
    let folder = model.path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase());
    !asked.is_empty() && (asked == last(&model.name) || folder.as_deref() == Some(asked.as_str()))
}

/// What to do with a request for `asked`. Plain names of other services (`gpt-4o`) are habits of clients and are
/// answered by the loaded model, with a warning; `owner/name` is a particular model, and answering as another would be
/// a lie. `strict` refuses both.
///
/// # Errors
/// 404 `model_not_found`. Nothing is ever downloaded for a request.
pub(crate) fn check(model: &ModelInfo, asked: Option<&str>, strict: bool) -> Result<Option<String>, ApiError> {
    match asked {
        None => Ok(None),
        Some(asked) if is(model, asked) => Ok(None),
        Some(asked) if strict || asked.contains('/') => Err(not_found(asked, Some(model))),
        Some(asked) => Ok(Some(format!(
            "`{}` answered: `{}` is not a model of this server",
            model.name,
            short(asked)
        ))),
    }
}

pub(crate) fn not_found(asked: &str, model: Option<&ModelInfo>) -> ApiError {
    let loaded = model.map_or_else(|| "no model is loaded".into(), |model| format!("`{}` is loaded", model.name));
    ApiError::new(
        StatusCode::NOT_FOUND,
        "invalid_request_error",
        format!(
            "the model `{}` is not loaded here ({loaded}): use that name, or load the model first",
            short(asked)
        ),
    )
    .code("model_not_found")
    .param("model")
}

fn short(name: &str) -> String {
    name.chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dspark_protocol::Mode;

    fn model() -> ModelInfo {
        ModelInfo {
            name: "starter".into(),
            path: "/models/mlx-community/Qwen3-8B-8bit".into(),
            model_type: "qwen3".into(),
            quantization: "8-bit g64".into(),
            drafter: None,
            mode: Mode::Auto,
            parameters: 0,
            weight_bytes: 0,
            kv_bytes_per_token: 0,
            context_window: 0,
            max_context: 0,
            has_chat_template: true,
            supports_thinking: false,
            supports_tools: false,
            loaded_at: 0,
            load_seconds: 0.0,
            notes: Vec::new(),
        }
    }

    #[test]
    fn its_own_names() {
        for name in [
            "starter",
            "Qwen3-8B-8bit",
            "mlx-community/Qwen3-8B-8bit",
            "mlx-dspark/starter",
            "qwen3-8b-8bit",
        ] {
            assert_eq!(check(&model(), Some(name), true), Ok(None), "{name}");
        }
        assert_eq!(check(&model(), None, true), Ok(None));
    }

    /// Case ag-004: a hub id that is not here is a 404; a habitual name is answered.
    #[test]
    fn other_models() {
        let error = check(&model(), Some("someone/never-downloaded"), false).unwrap_err();
        assert_eq!((error.status.as_u16(), error.code), (404, Some("model_not_found")));
        assert!(check(&model(), Some("gpt-4o"), false).unwrap().is_some());
        assert!(check(&model(), Some("gpt-4o"), true).is_err());
    }
}
