//! The command line: parse, run, map the result to an exit code.

mod agents;
mod args;
mod arms;
mod benchmark;
mod chart;
mod claude;
mod convert;
pub(crate) mod doctor;
mod engine;
mod exit;
mod generate;
pub(crate) mod models;
mod output;
mod probe;
mod proof;
mod serve;
mod served;
mod starter;
mod window;

use args::Command;
use exit::Outcome;
use output::Output;
use std::{
    any::Any,
    ffi::OsString,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs the program on the process's own arguments and returns its exit code.
pub fn main() -> u8 {
    run(std::env::args_os())
}

fn run(words: impl Iterator<Item = OsString>) -> u8 {
    let words = args::with_default_command(words);
    let json = args::ask_for_json(&words);
    let arguments = match args::parse(words) {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() && json => {
            let output = Output::new(&args::GlobalArgs {
                json,
                ..args::GlobalArgs::default()
            });
            let text = error.render().to_string();
            output.failure(&exit::Failure::usage(text.trim().trim_start_matches("error: ")));
            return exit::USAGE;
        }
        // Help and version are answers, not failures; clap knows which stream each belongs to.
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { exit::USAGE } else { exit::OK };
        }
    };
    let output = Output::new(&arguments.global);
    output.start_log();
    // What could not be written was not done, however well the rest went.
    let done = catch_unwind(AssertUnwindSafe(|| dispatch(arguments.command, &output)));
    match done.unwrap_or_else(|panic| Err(fault(&*panic))).and_then(|()| output.written()) {
        Ok(()) => exit::OK,
        Err(failure) => {
            output.failure(&failure);
            failure.code
        }
    }
}

/// What is left of a panic that nothing else caught.
fn fault(panic: &(dyn Any + Send)) -> exit::Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no reason is known");
    exit::Failure::new(
        exit::FAILED,
        format!("an internal fault: {text}; please report it with what `-vv` prints when you do the same again"),
    )
}

fn dispatch(command: Option<Command>, output: &Output) -> Outcome {
    match command {
        None => window::open(&args::AppArgs::default(), output),
        Some(Command::App(args)) => window::open(&args, output),
        Some(Command::Generate(args)) => generate::run(&args, output),
        Some(Command::Serve(args)) => serve::run(&args, output),
        Some(Command::Claude(args)) => claude::run(&args, output),
        Some(Command::Agents(args)) => agents::run(&args, output),
        Some(Command::Models(args)) => models::run(&args, output),
        Some(Command::Convert(args)) => convert::run(&args, output),
        Some(Command::Probe(args)) => probe::run(&args, output),
        Some(Command::VerifyLossless(args)) => proof::run(&args, output),
        Some(Command::Benchmark(args)) => benchmark::run(&args, output),
        Some(Command::Doctor(args)) => doctor::run(&args, output),
        Some(Command::Starter(args)) => starter::run(&args, output),
    }
}
