//! `tollgate config`: the configuration of a running gateway.

use std::path::PathBuf;

use clap::Subcommand;
use http::Method;

use super::answer::{Answer, warn};
use super::args::At;
use super::ask::Ask;
use super::client::Client;
use super::shown::{done, unchanged};
use crate::exit::Failure;

/// `tollgate config`.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Config {
    #[command(flatten)]
    at: At,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print the configuration in force, as it is written
    Show,
    /// Rewrite the gateway's file and put it into force; a bad one changes nothing
    Apply {
        /// The new configuration; `-` for standard input
        file: PathBuf,
        /// Only if nobody has changed it since this version was read
        #[arg(long, value_name = "ETAG", default_value = "*")]
        if_match: String,
    },
    /// Let the gateway read its file again
    Reload,
}

const PATH: &str = "/v1/config";

/// The type of the problem that children exceed what their parent may give them.
const BUDGET_EXCEEDED: &str = "urn:tollgate:budget-exceeded";

pub(crate) fn run(args: Config) -> Result<(), Failure> {
    let Config { at, what } = args;
    let client = Client::find(&at)?;
    match what {
        What::Show => unchanged(&client.ask(Ask::get(PATH))?),
        What::Apply { file, if_match } => {
            let ask = Ask::new(Method::PUT, PATH).if_match(&if_match).file(&file)?;
            in_force(&at, &client.exchange(ask)?, "The configuration is in force.")
        }
        What::Reload => {
            let ask = Ask::new(Method::POST, "/v1/config/reload");
            in_force(&at, &client.exchange(ask)?, "The file was read again and is in force.")
        }
    }
}

fn in_force(at: &At, answer: &Answer, what: &str) -> Result<(), Failure> {
    // Children that exceed their parent's budget are a conflict, and a fault of the file as much as any other.
    if answer.status == 422 || answer.is_of(BUDGET_EXCEEDED) {
        eprintln!("tollgate: {}", answer.in_words());
        return Err(Failure::BadConfiguration);
    }
    if !answer.is_good() {
        return Err(Failure::Failed(answer.in_words()));
    }
    if at.json {
        return unchanged(answer);
    }
    warn(&answer.json()?);
    done(at, what)
}
