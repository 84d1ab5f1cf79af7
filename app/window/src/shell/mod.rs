//! The window around the screens: header, sidebar, keyboard, toasts, tray.

pub mod commands;
pub(crate) mod fonts;
pub(crate) mod header;
mod instance;
pub mod keys;
mod palette;
pub(crate) mod picker;
mod run;
mod sidebar;
pub(crate) mod text;
mod window;

pub use instance::focus_running;
pub use run::{AppOptions, NoWindow, StartModel, run};
pub use window::Window;
