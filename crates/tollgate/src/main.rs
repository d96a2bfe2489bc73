//! The command: arguments become a configuration, and that becomes a running gateway.

mod admin_url;
mod args;
mod check;
mod cli;
mod doctor;
mod exit;
mod explain;
mod output;
mod reach;
mod schema;
mod serve;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Schema => schema::run(),
        Command::Ops(ops) => cli::run(ops),
    };
    exit::code(done)
}
