//! The window and the tray: everything a person sees. The engine is reached through [`dspark_protocol::EngineHandle`]
//! only; the hub and the server stand behind the traits of [`bridge`].
//!
//! A frame goes like this: messages from other threads are drained ([`bridge::Inbox`]), each changes the state and
//! yields effects ([`state::update`], a pure function), the bridge carries them out on other threads, and the screens
//! draw the state and say what a person did, as more messages.

pub mod bridge;
pub mod machine;
pub mod markdown;
pub mod screens;
pub mod settings;
pub mod shell;
pub mod state;
pub mod tray;
