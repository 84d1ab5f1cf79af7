//! The window around the screens: header, sidebar, keyboard, toasts, tray.

pub(crate) mod header;
pub mod keys;
pub(crate) mod picker;
mod run;
mod sidebar;
pub(crate) mod text;
mod window;

pub use run::{AppOptions, NoWindow, StartModel, run};
pub use window::Window;
