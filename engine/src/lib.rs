//! Everything that computes. See ARCHITECTURE.md for the rooms.

mod bandwidth;
pub mod cache;
pub mod convert;
pub mod decoder;
pub mod device;
pub mod drafters;
pub mod engine;
mod exit;
pub mod families;
mod grammar;
pub mod load;
pub mod machine;
pub mod model;
mod prefix;
pub mod sample;
pub mod selftest;
pub mod speculate;
pub mod target;
mod telemetry;
mod worker;

pub use dspark_hub as hub;
pub use dspark_protocol as protocol;
pub use dspark_text as text;
pub use engine::{EngineOptions, start};
pub use exit::{leave, prepare};
pub use prefix::DiskOptions;
pub use speculate::calibrate::Calibration;
