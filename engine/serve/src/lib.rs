//! The engine over HTTP: routes, dialects, server-sent events, authentication and the checks that keep web pages out.
//!
//! This crate translates and owns nothing: a dialect turns a body into a [`dspark_protocol::Request`] and turns
//! [`dspark_protocol::Event`]s back into its own shapes. It talks to the engine through an
//! [`dspark_protocol::EngineHandle`] only, so it builds and is tested without MLX.
//!
//! | module | owns |
//! |---|---|
//! | [`config`] | every knob, and which address needs a key |
//! | `net` | binding, who holds a busy port, the accept loop, graceful stop |
//! | `guard`, `auth` | Host and Origin checks, CORS, keys |
//! | `routes` | one file a route family; admission, error mapping |
//! | `dialect` | pure translators: body → request, events → body or chunks |
//! | `reader` | text → reasoning, prose and calls, for every dialect |
//! | `receipt` | what of a prompt was reused, and why not more |
//! | `registry` | who asks for what now, and how it ended |
//! | `host`, `admin` | what the program around the server gives; loading over HTTP |
//! | `generate` | one generation's way from admission to its last event, for every dialect |
//! | `sse` | frames, keep-alive, the bounded buffer towards a slow reader |
//!
//! ```no_run
//! # async fn run(engine: dspark_protocol::EngineHandle) -> anyhow_like::Result {
//! use dspark_serve::{ServeConfig, Server};
//! let server = Server::bind(ServeConfig::default(), engine).await?;
//! println!("{}", server.banner());
//! server.serve(async { let _ = tokio::signal::ctrl_c().await; }).await;
//! # Ok(()) }
//! # mod anyhow_like { pub type Result = std::result::Result<(), Box<dyn std::error::Error>>; }
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod admin;
mod auth;
pub mod config;
mod dialect;
mod error;
mod generate;
mod guard;
mod host;
mod ids;
mod net;
mod reader;
mod receipt;
mod registry;
mod routes;
mod sse;
mod state;
#[cfg(test)]
mod testing;
mod told;

pub use auth::{ApiKey, generate_key};
pub use config::{ConfigError, ServeConfig, UsageChunk};
pub use host::{Download, Gauges, Host, HostError, LoadWish, Report, Serving};
pub use net::{BindError, PortHolder, Server, ServerControl, check_ready_file, who_holds, write_ready_file};
pub use receipt::{CacheReceipt, Difference};
pub use registry::{Activity, ClientStats, EndedRequest, LiveRequest, Outcome, Phase};
pub use routes::service;
pub use state::App;
pub use told::{Told, told};
