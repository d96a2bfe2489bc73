//! `tollgate completions`: what a shell needs to complete words.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;
use crate::exit::Failure;
use crate::output::print;

/// `tollgate completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

pub(crate) fn run(args: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "tollgate", &mut script);
    print(&String::from_utf8_lossy(&script))
}
