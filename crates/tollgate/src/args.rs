//! What can be written after `tollgate`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use tollgate_policy::shapes::RedisMode;
use tollgate_policy::{HttpUrl, ListenAddress, RedisUrl};

use crate::cli;

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
    /// Show which limits a request meets, and where each comes from; or why one was refused
    Explain(Explain),
    /// Tell whether Redis or Valkey can keep what is promised with it, and what to do if not
    Doctor(Doctor),
    /// Print the JSON Schema of the configuration file
    Schema,
    #[command(flatten)]
    Ops(cli::Ops),
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
    /// Let others than this machine reach the admin API without TLS, as the file's `server.admin_exposed` does
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
    #[command(flatten)]
    pub(crate) at: cli::At,
    /// A request that was refused lately, by its `X-Request-Id`; asks the running gateway
    #[arg(long, value_name = "ID", conflicts_with_all = ["tenant", "user", "plan", "route"])]
    pub(crate) request_id: Option<String>,
    /// Whose request it is; `anonymous` without a key
    #[arg(long, required_unless_present = "request_id", requires = "config")]
    pub(crate) tenant: Option<String>,
    /// The user inside the tenant
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// The plan; the key's or the tenant's if left out
    #[arg(long)]
    pub(crate) plan: Option<String>,
    /// Method and path of the request, as in "POST /v1/x"
    #[arg(long, value_name = "REQUEST")]
    pub(crate) route: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// Where it is, instead of the file's `redis.url`
    #[arg(long, value_name = "URL")]
    pub(crate) redis: Option<RedisUrl>,
    /// How it is reached, instead of the file's `redis.mode`: single, cluster or sentinel
    #[arg(long, value_name = "MODE", value_parser = redis_mode)]
    pub(crate) mode: Option<RedisMode>,
    /// The configuration file, which says what it is for
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// JSON, instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

fn redis_mode(text: &str) -> Result<RedisMode, String> {
    match text {
        "single" => Ok(RedisMode::Single),
        "cluster" => Ok(RedisMode::Cluster),
        "sentinel" => Ok(RedisMode::Sentinel),
        _ => Err("write single, cluster or sentinel".to_owned()),
    }
}
