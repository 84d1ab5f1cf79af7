//! The chat, model and server flows as messages in and effects out: no window, no engine, no disk.
#![allow(clippy::unwrap_used, clippy::wildcard_imports)]

mod agents;
mod chat;
mod data;
mod desktop;
mod files;
mod first_run;
mod lab;
mod machine;
mod models;
mod race;
mod support;
mod window;
