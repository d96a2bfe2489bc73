//! The admin API from a shell.
//!
//! ```text
//! arguments ─▶ Gateway: address and token (place.rs) ─▶ Ask ─▶ Client ─▶ Answer ─▶ a table | the API's JSON | what is wrong, in words
//! ```
//! Commands know paths and columns and nothing else: what is right is the API's to say, by the same rules for everybody, so
//! nothing is checked here that it checks. A file has its command (`keys.rs`, `usage.rs`); bodies made of flags are in `body.rs`.

mod answer;
mod args;
mod ask;
mod audit;
mod backup;
mod body;
mod client;
mod completions;
mod config;
mod connect;
mod keys;
mod limits;
mod objects;
mod only_this;
mod place;
mod refusal;
mod secret;
mod shown;
mod span;
mod table;
mod usage;

pub(crate) use args::{At, Ops};
pub(crate) use refusal::explain;

use crate::exit::Failure;

/// Runs one of the commands that need a gateway, or its folder.
pub(crate) fn run(ops: Ops) -> Result<(), Failure> {
    match ops {
        Ops::Keys(args) => keys::run(args),
        Ops::Tenants(args) => objects::run(args, &objects::TENANTS),
        Ops::Plans(args) => objects::run(args, &objects::PLANS),
        Ops::Usage(args) => usage::run(&args),
        Ops::Limits(args) => limits::run(args),
        Ops::Audit(args) => audit::run(&args),
        Ops::Config(args) => config::run(args),
        Ops::Backup(args) => backup::run(&args),
        Ops::Completions(args) => completions::run(&args),
    }
}
