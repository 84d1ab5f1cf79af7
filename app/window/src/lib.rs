//! The window and the tray.
pub mod bridge;
pub mod markdown;
pub mod settings;
pub mod state;
