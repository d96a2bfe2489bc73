//! `tollgate tenants` and `tollgate plans`: things that the file may declare too. Both are handled by the same code.

use std::fmt::Debug;
use std::path::PathBuf;

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::args::{At, Paging};
use super::ask::Ask;
use super::body::{LimitFlags, QuotaFlags, put};
use super::client::Client;
use super::keys::{Again, either};
use super::shown::{self, List, changed, done, one, text};
use super::table::{Column, words};
use crate::exit::Failure;

/// What tells tenants from plans.
pub(crate) struct Kind {
    /// What one is called.
    what: &'static str,
    path: &'static str,
    /// The member of a body that names it.
    id: &'static str,
    columns: &'static [Column],
    row: fn(&Value) -> Vec<String>,
    empty: &'static str,
}

pub(crate) const TENANTS: Kind = Kind {
    what: "tenant",
    path: "/v1/tenants",
    id: "id",
    columns: &[
        words("ID"),
        words("PARENT"),
        words("PLAN"),
        words("LIMIT"),
        words("SHARING"),
        words("BUDGET"),
        words("QUOTA"),
        words("DECLARED IN"),
    ],
    row: |tenant| {
        let (limit, budget) = (&tenant["rate_limit"], &tenant["rate_limit"]["budget"]);
        let mode = text(&budget["mode"]);
        let budget = match &budget["total"] {
            Value::Number(total) => format!("{mode} {total}"),
            _ => Some(mode).filter(|mode| mode != "unlimited").unwrap_or_default(),
        };
        vec![
            text(&tenant["id"]),
            text(&tenant["parent"]),
            text(&tenant["plan"]),
            shown::limit(limit),
            text(&limit["sharing"]),
            budget,
            shown::quota(&tenant["quota"]),
            text(&tenant["declared_in"]),
        ]
    },
    empty: "There are no tenants: `tollgate tenants create ID` makes one.",
};

pub(crate) const PLANS: Kind = Kind {
    what: "plan",
    path: "/v1/plans",
    id: "name",
    columns: &[
        words("NAME"),
        words("LIMIT"),
        words("OPERATIONS"),
        words("QUOTA"),
        words("DECLARED IN"),
    ],
    row: |plan| {
        let operations = plan["operations"].as_object().into_iter().flatten();
        let operations: Vec<String> =
            operations.map(|(name, limit)| format!("{name} {}", shown::limit(limit))).collect();
        vec![
            text(&plan["name"]),
            shown::limit(&plan["rate_limit"]),
            operations.join("; "),
            shown::quota(&plan["quota"]),
            text(&plan["declared_in"]),
        ]
    },
    empty: "There are no plans: `tollgate plans create NAME --rate N` makes one.",
};

/// `tollgate tenants`, `tollgate plans`.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Objects<F: Flags> {
    #[command(flatten)]
    at: At,
    #[command(subcommand)]
    what: What<F>,
}

#[derive(Debug, Subcommand)]
enum What<F: Flags> {
    /// List them, the file's too
    List(Paging),
    /// Show one
    Show {
        /// Its name
        id: String,
    },
    /// Make one
    Create {
        /// Its name; in the file, if there is one
        #[arg(required_unless_present = "file", conflicts_with = "file")]
        id: Option<String>,
        #[command(flatten)]
        flags: F,
        /// All of it as YAML or JSON; `-` for standard input
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        again: Again,
    },
    /// Change what is said, and leave the rest as it is
    Change {
        /// Its name
        id: String,
        #[command(flatten)]
        flags: F,
    },
    /// Replace all of it: what is not said is gone
    Replace {
        /// Its name
        id: String,
        #[command(flatten)]
        flags: F,
        /// All of it as YAML or JSON; `-` for standard input
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Only if it is still the version that `show` told
        #[arg(long, value_name = "ETAG", default_value = "*")]
        if_match: String,
    },
    /// Delete one that nothing uses
    Delete {
        /// Its name
        id: String,
        /// Only if it is still the version that `show` told
        #[arg(long, value_name = "ETAG")]
        if_match: Option<String>,
    },
}

/// What can be said of one without a file.
pub(crate) trait Flags: clap::Args + Debug {
    fn is_empty(&self) -> bool;
    /// Writes it over what a body says.
    fn write(&self, body: &mut Value) -> Result<(), Failure>;
}

/// A tenant.
#[derive(Debug, clap::Args)]
pub(crate) struct TenantFlags {
    /// The tenant above it [default: system]
    #[arg(long)]
    parent: Option<String>,
    /// The plan of its keys that name none
    #[arg(long)]
    plan: Option<String>,
    #[command(flatten)]
    limit: LimitFlags,
    /// What tenants below it see of its limit: private, inherit or enforce
    #[arg(long)]
    sharing: Option<String>,
    #[command(flatten)]
    quota: QuotaFlags,
}

impl Flags for TenantFlags {
    fn is_empty(&self) -> bool {
        let TenantFlags { parent, plan, limit, sharing, quota } = self;
        parent.is_none()
            && plan.is_none()
            && limit.is_empty()
            && sharing.is_none()
            && quota.is_empty()
    }

    fn write(&self, body: &mut Value) -> Result<(), Failure> {
        put(body, &["parent"], self.parent.as_ref().map(|parent| json!(parent)));
        put(body, &["plan"], self.plan.as_ref().map(|plan| json!(plan)));
        self.limit.write(body);
        put(body, &["rate_limit", "sharing"], self.sharing.as_ref().map(|word| json!(word)));
        self.quota.write(body)
    }
}

/// A plan.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanFlags {
    #[command(flatten)]
    limit: LimitFlags,
    #[command(flatten)]
    quota: QuotaFlags,
}

impl Flags for PlanFlags {
    fn is_empty(&self) -> bool {
        self.limit.is_empty() && self.quota.is_empty()
    }

    fn write(&self, body: &mut Value) -> Result<(), Failure> {
        self.limit.write(body);
        self.quota.write(body)
    }
}

pub(crate) fn run<F: Flags>(args: Objects<F>, kind: &Kind) -> Result<(), Failure> {
    let Objects { at, what } = args;
    let put_at = |id: &str| Ask::new(Method::PUT, kind.path).segment(id);
    let send = |ask: Ask| changed(&at, &Client::find(&at)?.ask(ask)?);
    match what {
        What::List(paging) => {
            let Kind { path, columns, row, empty, .. } = *kind;
            List { path, tenant: None, columns, row, empty }.show(&at, &paging)
        }
        What::Show { id } => one(&at, &Client::find(&at)?.ask(Ask::get(kind.path).segment(&id))?),
        What::Create { id, flags, file, again } => {
            let ask = Ask::new(Method::POST, kind.path);
            let ask = ask.idempotent(again.idempotency_key.as_deref());
            send(body(ask, kind, (id.as_deref(), &flags, file))?)
        }
        What::Change { id, flags } => change(&at, kind, (&id, &flags)),
        What::Replace { id, flags, file, if_match } => {
            send(body(put_at(&id).if_match(&if_match), kind, (Some(&id), &flags, file))?)
        }
        What::Delete { id, if_match } => {
            let mut ask = Ask::new(Method::DELETE, kind.path).segment(&id);
            if let Some(tag) = if_match {
                ask = ask.if_match(&tag);
            }
            Client::find(&at)?.ask(ask)?;
            done(&at, &format!("{} {id} is deleted.", kind.what))
        }
    }
}

/// Adds the body that flags or a file make.
fn body<F: Flags>(
    ask: Ask,
    kind: &Kind,
    (id, flags, file): (Option<&str>, &F, Option<PathBuf>),
) -> Result<Ask, Failure> {
    match file {
        Some(_) if !flags.is_empty() => Err(either()),
        Some(file) => ask.file(&file),
        None => {
            let mut body = json!({ kind.id: id });
            flags.write(&mut body)?;
            Ok(ask.json(&body))
        }
    }
}

/// Reads it, writes the flags over it, and replaces it if nobody else did meanwhile.
fn change<F: Flags>(at: &At, kind: &Kind, (id, flags): (&str, &F)) -> Result<(), Failure> {
    if flags.is_empty() {
        let what = kind.what;
        return Err(Failure::Usage(format!(
            "say what changes: see `tollgate {what}s change --help`"
        )));
    }
    let client = Client::find(at)?;
    let now = client.ask(Ask::get(kind.path).segment(id))?;
    let mut body = now.json()?;
    if let Some(members) = body.as_object_mut() {
        for told in ["declared_in", "updated_at", "warnings"] {
            members.shift_remove(told);
        }
    }
    flags.write(&mut body)?;
    let ask = Ask::new(Method::PUT, kind.path).segment(id);
    let ask = ask.if_match(now.etag().unwrap_or("*"));
    changed(at, &client.ask(ask.json(&body))?)
}
