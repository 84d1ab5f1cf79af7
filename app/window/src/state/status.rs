//! The one line that says where everything stands: in the header, in the tray, and for tests.

use super::State;
use dspark_protocol::{EngineState, LoadStage};
use dspark_strings::t;

/// The states of `spec/app.md` §0, each with its own word and icon.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    Stopped,
    Starting,
    NoModel,
    /// Percent; `None` while the size is not known.
    Downloading(Option<u8>),
    /// What is being loaded and how far, 0 to 1.
    Loading(&'static str, Option<f32>),
    Calibrating,
    WarmingUp,
    Ready,
    Prefilling {
        processed: usize,
        total: usize,
    },
    /// Tokens a second.
    Generating(f64),
    Unloading,
    Error(String),
}

pub fn status(state: &State) -> Status {
    match &state.engine.state {
        EngineState::Error { reason } => return Status::Error(reason.clone()),
        EngineState::Generating { tokens_per_sec } => return Status::Generating(*tokens_per_sec),
        EngineState::Prefilling { processed, total } => {
            return Status::Prefilling {
                processed: *processed,
                total: *total,
            };
        }
        _ => {}
    }
    if let Some(fetching) = &state.models.fetching {
        return Status::Downloading(fetching.percent());
    }
    if let Some(loading) = &state.models.loading {
        return match loading.stage {
            LoadStage::Calibrating => Status::Calibrating,
            LoadStage::WarmingUp => Status::WarmingUp,
            LoadStage::Checking => Status::Loading(t!(loading_checks), None),
            LoadStage::Reading => Status::Loading(t!(loading_weights), loading.part()),
            LoadStage::Preparing => Status::Loading(t!(loading_model), None),
        };
    }
    match &state.engine.state {
        EngineState::Starting => Status::Starting,
        EngineState::NoModel => Status::NoModel,
        EngineState::Loading { stage, done, total } => match stage {
            LoadStage::Calibrating => Status::Calibrating,
            LoadStage::WarmingUp => Status::WarmingUp,
            _ => Status::Loading(t!(loading_weights), (*total > 0).then(|| *done as f32 / *total as f32)),
        },
        EngineState::Unloading => Status::Unloading,
        EngineState::Stopped => Status::Stopped,
        EngineState::Ready | EngineState::Generating { .. } | EngineState::Prefilling { .. } | EngineState::Error { .. } => Status::Ready,
    }
}

/// What stands beside the tray icon; figures keep their width, idle says nothing.
/// `multiple` is how many times plain decoding it goes.
pub fn tray_title(status: &Status, multiple: Option<f64>) -> String {
    match status {
        Status::Generating(rate) => {
            let rate = format!("{:>2.0} t/s", rate.min(9999.0));
            match multiple {
                Some(multiple) => format!("{rate} · {:.1}×", multiple.min(99.9)),
                None => rate,
            }
        }
        Status::Prefilling { processed, total } if *total > 0 => format!("{:>2}%", 100 * processed / total),
        Status::Downloading(Some(percent)) => format!("↓ {percent:>2}%"),
        Status::Downloading(None) => "↓".into(),
        Status::Loading(..) | Status::Calibrating | Status::WarmingUp => t!(loading).into(),
        Status::Error(_) => "⚠".into(),
        _ => String::new(),
    }
}
