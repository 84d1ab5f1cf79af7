//! Converts a GGUF file: `cargo run -p dspark-hub --example convert -- model.gguf out-folder`.
#![allow(clippy::print_stdout, reason = "a command line example")]

use dspark_hub::{Job, gguf};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(file), Some(out)) = (args.next(), args.next()) else {
        return Err("usage: convert model.gguf out-folder".into());
    };
    let started = std::time::Instant::now();
    let done = gguf::convert(&file, &out, &file.display().to_string(), &Job::silent())?;
    println!(
        "{} tensors, {} in {:.2?}",
        done.tensors,
        dspark_hub::size(done.bytes),
        started.elapsed()
    );
    Ok(())
}
