//! `tollgate limits`: live counters, and making one new again.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::args::At;
use super::ask::Ask;
use super::body::put;
use super::client::Client;
use super::shown::{done, moment, text, unchanged};
use super::table::{Table, figures, plain, words};
use crate::exit::Failure;
use crate::output::print;

/// `tollgate limits`.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Limits {
    #[command(flatten)]
    at: At,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the counters of a tenant, a user or a key, as they stand now
    Show(Whose),
    /// Make a counter new again
    Reset {
        #[command(flatten)]
        whose: Whose,
        /// Which: its policy, source or counter, as `show` tells it
        #[arg(required_unless_present = "all")]
        counter: Option<String>,
        /// Every counter that `show` tells
        #[arg(long, conflicts_with = "counter")]
        all: bool,
    },
}

/// Whose counters.
#[derive(Debug, clap::Args)]
struct Whose {
    /// The tenant
    #[arg(long)]
    tenant: String,
    /// The user inside it; without user and key, only what all of a tenant share is told
    #[arg(long)]
    user: Option<String>,
    /// The id of a key
    #[arg(long, value_name = "ID")]
    key: Option<String>,
    /// The plan; the key's or the tenant's if left out
    #[arg(long)]
    plan: Option<String>,
    /// Method and path, as in "POST /v1/x"; without it, limits of routes are left out
    #[arg(long, value_name = "REQUEST")]
    route: Option<String>,
    /// The caller's address; without it, limits that count addresses are left out
    #[arg(long)]
    ip: Option<String>,
}

impl Whose {
    fn named(&self) -> [(&'static str, Option<&str>); 6] {
        [
            ("tenant", Some(&self.tenant)),
            ("user", self.user.as_deref()),
            ("key", self.key.as_deref()),
            ("plan", self.plan.as_deref()),
            ("route", self.route.as_deref()),
            ("ip", self.ip.as_deref()),
        ]
    }

    fn ask(&self) -> Ask {
        let all = self.named().into_iter();
        all.fold(Ask::get("/v1/limits"), |ask, (name, value)| ask.query(name, value))
    }

    fn reset(&self, counter: &str) -> Ask {
        let mut body = json!({ "counter": counter });
        for (name, value) in self.named() {
            put(&mut body, &[name], value.map(|value| json!(value)));
        }
        Ask::new(Method::POST, "/v1/limits/reset").json(&body)
    }
}

pub(crate) fn run(args: Limits) -> Result<(), Failure> {
    let Limits { at, what } = args;
    let client = Client::find(&at)?;
    match what {
        What::Show(whose) => show(&at, &client, &whose),
        What::Reset { whose, counter, .. } => reset(&at, &client, (&whose, counter.as_deref())),
    }
}

fn show(at: &At, client: &Client, whose: &Whose) -> Result<(), Failure> {
    let answer = client.ask(whose.ask())?;
    if at.json {
        return unchanged(&answer);
    }
    let told = answer.json()?;
    let mut table = Table::new(&[
        words("POLICY"),
        words("SOURCE"),
        figures("TOKENS"),
        figures("CAPACITY"),
        words("RATE"),
        words("STRATEGY"),
        words("LAST REFILL"),
        words("FULL AGAIN"),
        words("WRITTEN IN"),
        words("COUNTER"),
    ]);
    for item in items(&told) {
        table.row(&[
            text(&item["policy"]),
            text(&item["source"]),
            text(&item["tokens"]),
            text(&item["capacity"]),
            format!("{}/{}", item["rate"], text(&item["window"])),
            text(&item["strategy"]),
            moment(&item["last_refill"]),
            moment(&item["reset_at"]),
            text(&item["file"]),
            text(&item["counter"]),
        ]);
    }
    match (table.is_empty(), at.quiet) {
        (true, _) => {
            eprintln!(
                "No limit counts such a request alone; say more: --user, --key, --route, --ip."
            );
            Ok(())
        }
        (false, true) => {
            let names = items(&told).iter().map(|item| plain(&text(&item["counter"])) + "\n");
            print(&names.collect::<String>())
        }
        (false, false) => print(&table.text()),
    }
}

fn items(told: &Value) -> &[Value] {
    told["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Resets the one counter that is meant, by whichever of its names, or all.
fn reset(
    at: &At,
    client: &Client,
    (whose, counter): (&Whose, Option<&str>),
) -> Result<(), Failure> {
    let told = client.ask(whose.ask())?.json()?;
    let is_meant = |item: &&Value| {
        let is_named =
            |name: &str| ["counter", "policy", "source"].iter().any(|one| item[*one] == name);
        counter.is_none_or(is_named)
    };
    let meant: Vec<String> =
        items(&told).iter().filter(is_meant).map(|item| text(&item["counter"])).collect();
    if let Some(counter) = counter {
        match &meant[..] {
            [_] => {}
            [] => {
                return Err(Failure::Failed(format!(
                    "no counter of such a request is called {counter:?}: `tollgate limits show` tells their names"
                )));
            }
            several => {
                return Err(Failure::Failed(format!(
                    "{counter:?} is the name of several counters, say which:\n  {}",
                    plain_lines(several)
                )));
            }
        }
    }
    for name in &meant {
        client.ask(whose.reset(name))?;
        done(at, &format!("{name} is new again."))?;
    }
    Ok(())
}

fn plain_lines(all: &[String]) -> String {
    all.iter().map(|one| plain(one)).collect::<Vec<_>>().join("\n  ")
}
