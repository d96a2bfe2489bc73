//! What can be written after `tollgate`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use tollgate_policy::{HttpUrl, ListenAddress};

/// A rate-limiting gateway: who is calling, what they may spend, and when to come back.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the gateway
    Serve(Serve),
    /// Tell everything that is wrong with a configuration file
    Check(Check),
    /// Show which limits a request meets, and where each comes from
    Explain(Explain),
    /// Print the JSON Schema of the configuration file
    Schema,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// The configuration file; without one there is one tenant with one fresh key
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where requests go; without one, and without a file, to a built-in service that tells what it was sent
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<HttpUrl>,
    /// Where callers come in, instead of the file's `server.listen`
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<ListenAddress>,
    /// Where the admin API, metrics and health are, instead of the file's `server.admin_listen`
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin_listen: Option<ListenAddress>,
    /// Let others than this machine reach the admin API, which has no TLS, as the file's `server.admin_exposed` does
    #[arg(long)]
    pub(crate) admin_exposed: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// The configuration file; `-` for standard input
    pub(crate) file: PathBuf,
    /// One JSON object a fault, instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Whose request it is; `anonymous` without a key
    #[arg(long)]
    pub(crate) tenant: String,
    /// The user inside the tenant
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// The plan; the key's or the tenant's if left out
    #[arg(long)]
    pub(crate) plan: Option<String>,
    /// Method and path of the request, as in "POST /v1/x"
    #[arg(long, value_name = "REQUEST")]
    pub(crate) route: Option<String>,
    /// JSON, instead of text
    #[arg(long)]
    pub(crate) json: bool,
}
