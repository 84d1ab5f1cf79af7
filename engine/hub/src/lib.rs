//! Finding, fetching, converting and judging models. There is no MLX here.
//!
//! [`Hub`] knows every place a model may be in: [`Hub::resolve`] is the one answer to "where is it?", "is it
//! installed?" and "must it be downloaded?". Long operations take a [`Job`] (progress and cancel) and are async;
//! [`block_on`] runs them from a thread without a runtime.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod assets;
mod disk;
pub mod doctor;
mod download;
mod error;
pub mod fit;
mod folder;
pub mod gguf;
mod hub;
mod installed;
mod job;
mod leftover;
mod net;
mod pip;
mod places;
pub mod registry;
mod resolve;
pub mod starter;
mod tensors;
mod zip;

pub use disk::free_space;
pub use doctor::{Facts, Place};
pub use error::{HubError, Result};
pub use folder::{Folder, FolderState, Kind};
pub use hub::{Hub, Preview, block_on};
pub use installed::{Installed, Removed, verify_at};
pub use job::{Job, Progress, Stage};
pub use leftover::Leftover;
pub use net::{Found, Limit, Patience, RepoFile, RepoId, RepoInfo, TokenFrom};
pub use places::Places;
pub use resolve::{Lookup, Remedy, Resolved, Source};
pub use starter::{Starter, StarterSource};

/// Bytes for people, decimal units: `98.4 MB`.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 {
            return if unit == "B" {
                format!("{bytes} B")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}
