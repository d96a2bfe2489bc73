//! What every command over the admin API can be told: which gateway, and how to answer.

use std::path::PathBuf;

use clap::Subcommand;
use tollgate_policy::HttpUrl;

use super::objects::{PlanFlags, TenantFlags};
use super::secret::Secret;
use super::{audit, backup, completions, config, keys, limits, objects, usage};

/// Commands that ask a running gateway, or look into its folder.
#[derive(Debug, Subcommand)]
pub(crate) enum Ops {
    /// Issue, list, change, rotate and revoke API keys
    Keys(keys::Keys),
    /// List, show, create, change, replace and delete tenants
    Tenants(objects::Objects<TenantFlags>),
    /// List, show, create, change, replace and delete plans
    Plans(objects::Objects<PlanFlags>),
    /// Show what was used
    Usage(usage::Usage),
    /// Show live counters, and make one new again
    Limits(limits::Limits),
    /// Show who changed what, newest first
    Audit(audit::Audit),
    /// Show, replace and reload the configuration of a running gateway
    Config(config::Config),
    /// Copy the database to a file, whether or not the gateway runs
    Backup(backup::Backup),
    /// Print a completion script for a shell
    Completions(completions::Completions),
}

/// Which gateway, and how to answer.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct At {
    /// Where the admin API is [default: `TOLLGATE_ADMIN`, else what the data folder or the file says]
    #[arg(long, value_name = "URL", global = true, help_heading = "Which gateway")]
    pub(crate) admin: Option<HttpUrl>,
    /// The admin token; others on this machine can see it: rather use `TOLLGATE_ADMIN_TOKEN` or a file
    #[arg(long, value_name = "TOKEN", global = true, help_heading = "Which gateway")]
    pub(crate) token: Option<Secret>,
    /// A file with the admin token; `-` for standard input
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        conflicts_with = "token",
        help_heading = "Which gateway"
    )]
    pub(crate) token_file: Option<PathBuf>,
    /// The gateway's data folder [default: the file's `storage.path`, else ./tollgate-data]
    #[arg(long, value_name = "FOLDER", global = true, help_heading = "Which gateway")]
    pub(crate) data: Option<PathBuf>,
    /// The gateway's configuration file
    #[arg(long, value_name = "FILE", global = true, help_heading = "Which gateway")]
    pub(crate) config: Option<PathBuf>,
    /// Send the token over plain http to another machine, where others may read it
    #[arg(long, global = true, help_heading = "Which gateway")]
    pub(crate) plain_http: bool,
    /// The API's JSON, instead of tables
    #[arg(long, global = true, conflicts_with = "quiet", help_heading = "How to answer")]
    pub(crate) json: bool,
    /// Only the essence: a key that was issued, the ids of a list, nothing
    #[arg(long, short, global = true, help_heading = "How to answer")]
    pub(crate) quiet: bool,
}

/// Which page of a list.
#[derive(Debug, clap::Args)]
pub(crate) struct Paging {
    /// The most rows
    #[arg(long, value_name = "ROWS", default_value_t = 100)]
    pub(crate) limit: usize,
    /// Where to go on, as the page before told it
    #[arg(long, conflicts_with = "all")]
    pub(crate) cursor: Option<String>,
    /// Everything, page by page; with --json, each page is a line
    #[arg(long)]
    pub(crate) all: bool,
}
