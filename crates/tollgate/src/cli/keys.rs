//! `tollgate keys`: who may call.

use std::path::PathBuf;

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::answer::Answer;
use super::args::{At, Paging};
use super::ask::Ask;
use super::body::{EndFlags, LimitFlags, put};
use super::client::Client;
use super::shown::{self, List, changed, done, moment, one, text, unchanged};
use super::span::Span;
use super::table::{pairs, words};
use crate::exit::Failure;
use crate::output::print;

const PATH: &str = "/v1/keys";

/// `tollgate keys`.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Keys {
    #[command(flatten)]
    at: At,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Issue a key, which is shown once
    Create(Box<Create>),
    /// List keys: the file's, then the API's in the order of their issue
    List {
        /// Only this tenant's
        #[arg(long)]
        tenant: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show one key
    Show {
        /// Its id, as `keys list` tells it
        id: String,
    },
    /// Give a key another plan, name, end or limit; used quota stays used
    Change(Box<Change>),
    /// Replace a key by a new one, which is shown once
    Rotate {
        /// Its id, as `keys list` tells it
        id: String,
        /// How long the old key still works beside the new one: 0s, 15m, 24h, 7d
        #[arg(long, value_name = "SPAN", default_value = "0s")]
        grace: Span,
        #[command(flatten)]
        again: Again,
    },
    /// End a key at once
    Revoke {
        /// Its id, as `keys list` tells it
        id: String,
    },
}

#[derive(Debug, clap::Args)]
struct Create {
    /// Whose it is
    #[arg(long, required_unless_present = "file")]
    tenant: Option<String>,
    /// Who holds it; a key that names no user is counted on its own
    #[arg(long)]
    user: Option<String>,
    #[command(flatten)]
    terms: Terms,
    /// All of it as YAML or JSON; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tenant", "user"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    again: Again,
}

#[derive(Debug, clap::Args)]
struct Change {
    /// Its id, as `keys list` tells it
    id: String,
    #[command(flatten)]
    terms: Terms,
    /// What changes as YAML or JSON; `-` for standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// What may change of a key.
#[derive(Debug, clap::Args)]
struct Terms {
    /// Its plan; its tenant's if it has none
    #[arg(long)]
    plan: Option<String>,
    /// What people call it
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    end: EndFlags,
    #[command(flatten)]
    limit: LimitFlags,
}

/// What makes a request the same as an earlier one.
#[derive(Debug, clap::Args)]
pub(crate) struct Again {
    /// Do it once, however often this is repeated; a key is shown only the first time
    #[arg(long, value_name = "TEXT")]
    pub(crate) idempotency_key: Option<String>,
}

impl Terms {
    fn is_empty(&self) -> bool {
        let Terms { plan, name, end, limit } = self;
        plan.is_none() && name.is_none() && end.is_empty() && limit.is_empty()
    }

    fn write(&self, body: &mut Value) -> Result<(), Failure> {
        put(body, &["plan"], self.plan.as_ref().map(|plan| json!(plan)));
        put(body, &["name"], self.name.as_ref().map(|name| json!(name)));
        self.end.write(body)?;
        self.limit.write(body);
        Ok(())
    }

    /// Adds the body that flags or a file make.
    fn body(&self, ask: Ask, (mut body, file): (Value, Option<&PathBuf>)) -> Result<Ask, Failure> {
        match file {
            Some(_) if !self.is_empty() => Err(either()),
            Some(file) => ask.file(file),
            None => {
                self.write(&mut body)?;
                Ok(ask.json(&body))
            }
        }
    }
}

pub(crate) fn either() -> Failure {
    Failure::Usage("write everything into --file, or say it with flags: not both".to_owned())
}

pub(crate) fn run(args: Keys) -> Result<(), Failure> {
    let Keys { at, what } = args;
    match what {
        What::Create(create) => issue(&at, &create),
        What::List { tenant, paging } => list(&at, tenant.as_deref(), &paging),
        What::Show { id } => one(&at, &Client::find(&at)?.ask(Ask::get(PATH).segment(&id))?),
        What::Change(change) => change.run(&at),
        What::Rotate { id, grace, again } => {
            let ask = Ask::new(Method::POST, PATH).segment(&id).segment("rotate");
            let ask = ask.json(&json!({ "grace_seconds": grace.seconds() }));
            let ask = ask.idempotent(again.idempotency_key.as_deref());
            secret(&at, &Client::find(&at)?.ask(ask)?)
        }
        What::Revoke { id } => {
            Client::find(&at)?.ask(Ask::new(Method::DELETE, PATH).segment(&id))?;
            done(&at, &format!("{id} is revoked."))
        }
    }
}

fn issue(at: &At, create: &Create) -> Result<(), Failure> {
    let mut body = json!({});
    put(&mut body, &["tenant"], create.tenant.as_ref().map(|tenant| json!(tenant)));
    put(&mut body, &["user"], create.user.as_ref().map(|user| json!(user)));
    let ask = Ask::new(Method::POST, PATH).idempotent(create.again.idempotency_key.as_deref());
    let ask = create.terms.body(ask, (body, create.file.as_ref()))?;
    secret(at, &Client::find(at)?.ask(ask)?)
}

impl Change {
    fn run(&self, at: &At) -> Result<(), Failure> {
        if self.file.is_none() && self.terms.is_empty() {
            return Err(Failure::Usage(
                "say what changes: --plan, --name, --expires-at, --expires-in, --rate, --burst, --scope or --file"
                    .to_owned(),
            ));
        }
        let ask = Ask::new(Method::PATCH, PATH).segment(&self.id);
        if self.file.is_some() || self.terms.limit.is_empty() {
            let ask = self.terms.body(ask, (json!({}), self.file.as_ref()))?;
            return changed(at, &Client::find(at)?.ask(ask)?);
        }
        // A limit is replaced as a whole: what the flags do not say of it is what it is now.
        let client = Client::find(at)?;
        let now = client.ask(Ask::get(PATH).segment(&self.id))?;
        let limit = now.json()?["rate_limit"].take();
        let body = json!({ "rate_limit": limit });
        let ask = self.terms.body(ask.if_match(now.etag().unwrap_or("*")), (body, None))?;
        changed(at, &client.ask(ask)?)
    }
}

/// A key that was issued. It stands alone on its line, to be copied.
fn secret(at: &At, answer: &Answer) -> Result<(), Failure> {
    if at.json {
        return unchanged(answer);
    }
    let value = answer.json()?;
    let id = text(&value["id"]);
    let Some(key) = value["key"].as_str() else {
        return Err(Failure::Failed(format!(
            "this --idempotency-key has issued {id} before, and a key is shown only once: revoke it and issue another"
        )));
    };
    if at.quiet {
        return print(&format!("{key}\n"));
    }
    let members = shown::members(&value);
    let all: Vec<_> = members.into_iter().filter(|(name, _)| name != "key").collect();
    print(&format!("{}\nThe key, which is shown only now:\n\n{key}\n", pairs(&all)))
}

fn list(at: &At, tenant: Option<&str>, paging: &Paging) -> Result<(), Failure> {
    let columns =
        ["ID", "TENANT", "USER", "PLAN", "NAME", "STATE", "KEY", "LIMIT", "CREATED", "ENDS"]
            .map(words);
    let row = |key: &Value| {
        let begins = key["display_prefix"].as_str().map(|prefix| format!("{prefix}…"));
        let ends = ["revoked_at", "grace_until", "expires_at"].map(|name| moment(&key[name]));
        vec![
            text(&key["id"]),
            text(&key["tenant"]),
            text(&key["user"]),
            text(&key["plan"]),
            text(&key["name"]),
            text(&key["state"]),
            begins.unwrap_or_else(|| "in the file".to_owned()),
            shown::limit(&key["rate_limit"]),
            moment(&key["created_at"]),
            ends.into_iter().find(|end| !end.is_empty()).unwrap_or_default(),
        ]
    };
    let empty = "There are no keys: `tollgate keys create --tenant T` issues one.";
    List { path: PATH, tenant, columns: &columns, row, empty }.show(at, paging)
}
