//! `tollgate backup`: the database as it is at one moment.
//!
//! It reads the data folder and asks nobody, so it works while the gateway runs and while it does not.

use std::path::PathBuf;

use serde_json::json;
use tollgate_storage::Embedded;

use super::args::At;
use super::place::{folder, settings};
use super::shown::done;
use crate::exit::Failure;
use crate::output::print;

/// `tollgate backup`.
#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    #[command(flatten)]
    at: At,
    /// Where the copy goes: a file that is not there yet
    file: PathBuf,
}

pub(crate) fn run(args: &Backup) -> Result<(), Failure> {
    let Backup { at, file } = args;
    if let Some(config) = &at.config
        && settings(config)?.storage.redis
    {
        return Err(Failure::Failed(format!(
            "{} keeps everything in Redis: back that up by its own means, such as BGSAVE",
            config.display()
        )));
    }
    let folder = folder(at)?;
    Embedded::at(&folder).backup(file).map_err(|why| {
        Failure::Failed(format!(
            "{why} (the data folder is {}; --data or --config names another)",
            folder.display()
        ))
    })?;
    let bytes = std::fs::metadata(file)?.len();
    if at.json {
        return print(&format!(
            "{}\n",
            json!({ "file": file.display().to_string(), "bytes": bytes })
        ));
    }
    done(at, &format!("{} is backed up to {} ({bytes} bytes).", folder.display(), file.display()))
}
