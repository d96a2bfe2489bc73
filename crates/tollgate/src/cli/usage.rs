//! `tollgate usage`: what was used.

use serde_json::Value;

use super::answer::Answer;
use super::args::At;
use super::ask::Ask;
use super::client::Client;
use super::shown::{text, unchanged};
use super::table::{Table, figures, words};
use crate::exit::Failure;
use crate::output::print;

/// `tollgate usage`.
#[derive(Debug, clap::Args)]
pub(crate) struct Usage {
    #[command(flatten)]
    at: At,
    /// The first day, UTC, as 2027-01-31 [default: 29 days before the last]
    #[arg(long, value_name = "DAY")]
    from: Option<String>,
    /// The last day, UTC [default: today]
    #[arg(long, value_name = "DAY")]
    to: Option<String>,
    /// Only this tenant's
    #[arg(long)]
    tenant: Option<String>,
    /// Only this key's, by its id
    #[arg(long, value_name = "ID")]
    key: Option<String>,
    /// A row for each key, route, plan or day, with commas between
    #[arg(long, value_name = "WHAT")]
    group_by: Option<String>,
    /// CSV, instead of a table
    #[arg(long, conflicts_with_all = ["json", "quiet"])]
    csv: bool,
}

const FIGURES: [&str; 3] = ["requests", "refusals", "tokens"];

pub(crate) fn run(args: &Usage) -> Result<(), Failure> {
    let client = Client::find(&args.at)?;
    let mut answer = client.ask(args.ask(None))?;
    if args.csv {
        return csv(args, &client, answer);
    }
    if args.at.json {
        // Each part of a long answer is a line.
        loop {
            unchanged(&answer)?;
            let told = answer.json()?;
            let Some(next) = told["next"].as_str() else { return Ok(()) };
            answer = client.ask(args.ask(Some(next)))?;
        }
    }
    let mut told = answer.json()?;
    let (from, to) = (text(&told["from"]), text(&told["to"]));
    let mut rows = items(&mut told);
    while let Some(next) = told["next"].as_str() {
        told = client.ask(args.ask(Some(next)))?.json()?;
        rows.append(&mut items(&mut told));
    }
    if rows.is_empty() {
        eprintln!("Nothing was used from {from} to {to}.");
        return Ok(());
    }
    print(&table(&rows))?;
    if !args.at.quiet {
        eprintln!("From {from} to {to}, days of UTC.");
    }
    Ok(())
}

impl Usage {
    fn ask(&self, cursor: Option<&str>) -> Ask {
        let ask = Ask::get("/v1/usage")
            .query("tenant", self.tenant.as_deref())
            .query("key", self.key.as_deref())
            .query("from", self.from.as_deref())
            .query("to", self.to.as_deref())
            .query("group_by", self.group_by.as_deref())
            .query("cursor", cursor);
        if self.csv { ask.accept("text/csv") } else { ask }
    }
}

/// Rows out of an answer that is read no further.
fn items(told: &mut Value) -> Vec<Value> {
    told["items"].as_array_mut().map(std::mem::take).unwrap_or_default()
}

/// One table, whose columns are named once.
fn csv(args: &Usage, client: &Client, mut answer: Answer) -> Result<(), Failure> {
    print(answer.text()?)?;
    while let Some(next) = answer.header("next-cursor") {
        let next = next.to_owned();
        answer = client.ask(args.ask(Some(&next)))?;
        let rows = answer.text()?;
        print(rows.split_once('\n').map_or(rows, |(_, rows)| rows))?;
    }
    Ok(())
}

/// The rows and, if there are several, their sum.
fn table(rows: &[Value]) -> String {
    let mut table = Table::new(&[
        words("TENANT"),
        words("KEY"),
        words("ROUTE"),
        words("PLAN"),
        words("DAY"),
        figures("REQUESTS"),
        figures("REFUSALS"),
        figures("TOKENS"),
    ]);
    let mut sums = [0_u128; 3];
    for row in rows {
        let mut cells: Vec<String> = ["tenant", "key", "route", "plan", "day"]
            .iter()
            .map(|name| text(&row[*name]))
            .collect();
        for (name, sum) in FIGURES.iter().zip(&mut sums) {
            *sum += u128::from(row[*name].as_u64().unwrap_or(0));
            cells.push(text(&row[*name]));
        }
        table.row(&cells);
    }
    if rows.len() > 1 {
        let words = ["total", "", "", "", ""].map(str::to_owned);
        let sums = sums.map(|sum| sum.to_string());
        table.row(&words.into_iter().chain(sums).collect::<Vec<_>>());
    }
    table.text()
}
