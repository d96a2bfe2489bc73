//! How answers are shown: lists by pages, single things by pairs, or as the API wrote them.

use jiff::Timestamp;
use serde_json::Value;

use super::answer::Answer;
use super::args::{At, Paging};
use super::ask::Ask;
use super::client::Client;
use super::table::{Column, Table, pairs, plain};
use crate::exit::Failure;
use crate::output::print;

/// A list of the API's, and how its rows are shown.
pub(crate) struct List<'a> {
    pub(crate) path: &'a str,
    pub(crate) tenant: Option<&'a str>,
    pub(crate) columns: &'a [Column],
    pub(crate) row: fn(&Value) -> Vec<String>,
    /// What is said where there is none.
    pub(crate) empty: &'a str,
}

impl List<'_> {
    /// Shows a page, or all of them. One page is held at a time, however many there are.
    pub(crate) fn show(&self, at: &At, paging: &Paging) -> Result<(), Failure> {
        let client = Client::find(at)?;
        let mut cursor = paging.cursor.clone();
        let mut is_first = true;
        loop {
            let answer = client.ask(
                Ask::get(self.path)
                    .query("tenant", self.tenant)
                    .query("limit", Some(&paging.limit.to_string()))
                    .query("cursor", cursor.as_deref()),
            )?;
            let page = answer.json()?;
            self.print(at, &answer, (&page, is_first))?;
            is_first = false;
            match page["next"].as_str() {
                Some(next) if paging.all => cursor = Some(next.to_owned()),
                Some(next) if !at.json && !at.quiet => {
                    eprintln!("There are more: add --all, or --cursor {}", plain(next));
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
    }

    fn print(
        &self,
        at: &At,
        answer: &Answer,
        (page, is_first): (&Value, bool),
    ) -> Result<(), Failure> {
        if at.json {
            return unchanged(answer);
        }
        let mut table = Table::new(self.columns);
        for item in page["items"].as_array().into_iter().flatten() {
            table.row(&(self.row)(item));
        }
        match (table.is_empty(), at.quiet) {
            (true, false) if is_first => {
                eprintln!("{}", self.empty);
                Ok(())
            }
            (true, _) => Ok(()),
            (false, true) => print(&table.first_column()),
            (false, false) => print(&table.text()),
        }
    }
}

/// The API's JSON as it came, and a line's end.
pub(crate) fn unchanged(answer: &Answer) -> Result<(), Failure> {
    let text = answer.text()?;
    if text.is_empty() || text.ends_with('\n') { print(text) } else { print(&format!("{text}\n")) }
}

/// Everything that is said of one thing, with its version if it has one.
pub(crate) fn one(at: &At, answer: &Answer) -> Result<(), Failure> {
    if at.json {
        return unchanged(answer);
    }
    let value = answer.json()?;
    let mut all = members(&value);
    if let Some(tag) = answer.etag() {
        all.push(("etag".to_owned(), tag.to_owned()));
    }
    print(&pairs(&all))
}

/// A thing that was made or changed: its warnings, then the thing itself.
pub(crate) fn changed(at: &At, answer: &Answer) -> Result<(), Failure> {
    let value = answer.json()?;
    super::answer::warn(&value);
    if at.quiet { Ok(()) } else { one(at, answer) }
}

/// Nothing was answered, and that is good: `what` says so to people.
pub(crate) fn done(at: &At, what: &str) -> Result<(), Failure> {
    if at.json || at.quiet { Ok(()) } else { print(&format!("{}\n", plain(what))) }
}

/// The members of an object that say something; those of an object inside it by their path.
pub(crate) fn members(value: &Value) -> Vec<(String, String)> {
    let mut all = Vec::new();
    flatten(&mut all, "", value);
    all
}

fn flatten(all: &mut Vec<(String, String)>, prefix: &str, value: &Value) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = format!("{prefix}{}", plain(name));
        match value {
            Value::Null => {}
            Value::Array(items) if items.is_empty() || path == "warnings" => {}
            Value::Object(_) => flatten(all, &format!("{path}."), value),
            value => all.push((path, moment(value))),
        }
    }
}

/// A value as people write it.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value, and a moment without the fraction of its second.
pub(crate) fn moment(value: &Value) -> String {
    let text = text(value);
    match text.parse::<Timestamp>().map(|moment| Timestamp::from_second(moment.as_second())) {
        Ok(Ok(moment)) if text.ends_with('Z') => moment.to_string(),
        _ => text,
    }
}

/// A limit in a few words: `100/second, burst 1000, per user`.
pub(crate) fn limit(value: &Value) -> String {
    let sustained = &value["sustained"];
    if !sustained["rate"].is_number() {
        return String::new();
    }
    let window = sustained["window"].as_str().unwrap_or("second");
    let mut words = format!("{}/{window}", sustained["rate"]);
    if let Some(burst) = value["burst"]["capacity"].as_u64() {
        words.push_str(&format!(", burst {burst}"));
    }
    if let Some(scope) = value["scope"].as_str() {
        words.push_str(&format!(", per {scope}"));
    }
    words
}

/// A quota, or several, in a few words: `10000/month`.
pub(crate) fn quota(value: &Value) -> String {
    let words = |one: &Value| format!("{}/{}", one["limit"], text(&one["window"]));
    match value {
        Value::Array(all) => all.iter().map(words).collect::<Vec<_>>().join(", "),
        Value::Object(_) => words(value),
        _ => String::new(),
    }
}
