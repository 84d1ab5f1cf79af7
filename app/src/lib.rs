//! The application: command line, window, tray. The binary only starts it.

pub mod catalog;
pub mod cli;
mod gauges;
pub mod host;
pub mod http;
mod last_model;
mod machine;
mod pairing;

/// What measurements are stamped with: the version, and the commit where the build knew it.
pub fn version() -> String {
    match option_env!("DSPARK_COMMIT") {
        Some(commit) => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    }
}
