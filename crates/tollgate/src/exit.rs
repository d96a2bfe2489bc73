//! How the command ends: 0 good, 1 failed, 2 usage (mostly by clap), 78 bad configuration.

use std::fmt;
use std::process::ExitCode;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The configuration cannot be used; what is wrong with it has been said.
    BadConfiguration,
    /// It was asked in a way that cannot be right, to be said.
    Usage(String),
    /// Anything else, to be said.
    Failed(String),
}

pub(crate) fn code(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::BadConfiguration) => ExitCode::from(78),
        Err(Failure::Usage(why)) => {
            eprintln!("tollgate: {why}");
            ExitCode::from(2)
        }
        Err(Failure::Failed(why)) => {
            eprintln!("tollgate: {why}");
            ExitCode::FAILURE
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::BadConfiguration => f.write_str("the configuration cannot be used"),
            Failure::Usage(why) | Failure::Failed(why) => f.write_str(why),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Failed(error.to_string())
    }
}
