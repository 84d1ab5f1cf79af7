//! The screens. Each draws a [`crate::state::State`] and says what a person did.

pub mod agents;
pub mod chat;
pub mod first_run;
pub mod lab;
pub mod models;
pub mod settings;

pub use lab::card::png as race_card;
