//! The window and the tray.
pub mod markdown;
