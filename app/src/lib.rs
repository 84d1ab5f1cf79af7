//! The application: command line, window, tray. The binary only starts it.

pub mod catalog;
pub mod cli;
mod gauges;
pub mod host;
pub mod http;
mod last_model;
mod machine;
mod pairing;
