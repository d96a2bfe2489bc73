//! `tollgate audit`: who changed what.

use serde_json::Value;

use super::args::{At, Paging};
use super::shown::{List, moment, text};
use super::table::words;
use crate::exit::Failure;

/// `tollgate audit`.
#[derive(Debug, clap::Args)]
pub(crate) struct Audit {
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    paging: Paging,
}

pub(crate) fn run(args: &Audit) -> Result<(), Failure> {
    let row = |entry: &Value| {
        let members = ["actor", "action", "subject"].iter().map(|name| text(&entry[*name]));
        std::iter::once(moment(&entry["at"])).chain(members).collect()
    };
    let columns = ["AT", "WHO", "DID", "TO WHAT"].map(words);
    let empty = "Nothing was changed yet.";
    List { path: "/v1/audit", tenant: None, columns: &columns, row, empty }
        .show(&args.at, &args.paging)
}
