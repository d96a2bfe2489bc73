//! `/v1/usage`: what was used, as JSON or CSV.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_storage::{Day, Grouping, UsagePage, UsageQuery, UsageRow};

use crate::answer::{Answer, Asked, json, rows, text_of};
use crate::control::Control;
use crate::fault::Fault;

const CSV: HeaderValue = HeaderValue::from_static("text/csv; charset=utf-8; header=present");

/// Where CSV says what JSON says as `next`.
const NEXT_CURSOR: HeaderName = HeaderName::from_static("next-cursor");

/// Days that are told unless said otherwise, today included.
const DAYS: u32 = 30;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UsageAsked {
    tenant: Option<String>,
    key: Option<String>,
    from: Option<String>,
    to: Option<String>,
    group_by: Option<String>,
    cursor: Option<String>,
    limit: Option<String>,
}

/// Usage, as an answer tells it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UsageTold {
    /// The first day, UTC.
    from: String,
    /// The last day, UTC.
    to: String,
    /// One for each tenant and what it was grouped by.
    items: Vec<RowTold>,
    /// What to send as `cursor` for the next rows; absent with the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// What one group used.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RowTold {
    /// Whose it is.
    tenant: String,
    /// The key's id; empty for callers without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The route.
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<String>,
    /// The plan; empty for callers without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    /// The day, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<String>,
    /// All requests, refused ones too.
    requests: u64,
    /// Requests that were refused.
    refusals: u64,
    /// Tokens consumed.
    tokens: u64,
}

impl From<UsageRow> for RowTold {
    fn from(row: UsageRow) -> RowTold {
        RowTold {
            tenant: row.tenant.unwrap_or_default(),
            key: row.key,
            route: row.route,
            plan: row.plan,
            day: row.day.map(|day| day.to_string()),
            requests: row.requests,
            refusals: row.refusals,
            tokens: row.tokens,
        }
    }
}

pub(super) async fn read(
    State(control): State<Arc<Control>>,
    Asked(asked): Asked<UsageAsked>,
    headers: HeaderMap,
) -> Answer {
    let to = day("to", asked.to.as_deref())?.unwrap_or_else(|| Day::of(control.now()));
    let from = day("from", asked.from.as_deref())?.unwrap_or_else(|| to.before(DAYS - 1));
    if from > to {
        return Err(Fault::bad_request(format!("`from` {from} is after `to` {to}.")));
    }
    let group_by = grouping(asked.group_by.as_deref().unwrap_or_default())?;
    let at_most = rows(asked.limit.as_deref(), (UsageQuery::ROWS, UsageQuery::ROWS))?;
    let after = asked.cursor.as_deref().map(str::parse).transpose()?;
    // What is no name was used by nobody.
    let tenant = asked.tenant.map(|id| id.parse()).transpose();
    let key = asked.key.map(|id| id.parse()).transpose();
    let page = match (tenant, key) {
        (Ok(tenant), Ok(key)) => {
            let days = UsageQuery::days(from, to);
            control
                .store
                .usage(UsageQuery { tenant, key, group_by, after, at_most, ..days })
                .await?
        }
        _ => UsagePage::default(),
    };
    let next = page.next.map(|cursor| cursor.to_string());
    let items: Vec<RowTold> = page.rows.into_iter().map(RowTold::from).collect();
    if wants_csv(&headers) {
        let mut response = text_of(StatusCode::OK, CSV, csv(&items, group_by));
        if let Some(next) = next.and_then(|cursor| HeaderValue::from_str(&cursor).ok()) {
            response.headers_mut().insert(NEXT_CURSOR, next);
        }
        return Ok(response);
    }
    let told = UsageTold { from: from.to_string(), to: to.to_string(), items, next };
    Ok(json(StatusCode::OK, &told))
}

fn day(field: &str, text: Option<&str>) -> Result<Option<Day>, Fault> {
    let read =
        |text: &str| text.parse().map_err(|why| Fault::bad_request(format!("`{field}`: {why}.")));
    text.map(read).transpose()
}

/// Words with commas between. Every row names its tenant.
fn grouping(text: &str) -> Result<Grouping, Fault> {
    let mut by = Grouping { tenant: true, ..Grouping::default() };
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match word {
            "tenant" => {}
            "key" => by.key = true,
            "route" => by.route = true,
            "plan" => by.plan = true,
            "day" => by.day = true,
            _ => {
                return Err(Fault::bad_request(
                    "`group_by` is any of `tenant`, `key`, `route`, `plan` and `day`, with commas between.",
                ));
            }
        }
    }
    Ok(by)
}

/// Whether CSV is asked for by name.
fn wants_csv(headers: &HeaderMap) -> bool {
    let kinds = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let kind = |part: &str| part.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kinds.flat_map(|value| value.split(',')).any(|part| kind(part) == "text/csv")
}

/// As RFC 4180 has it.
fn csv(rows: &[RowTold], by: Grouping) -> String {
    let columns = [("key", by.key), ("route", by.route), ("plan", by.plan), ("day", by.day)];
    let mut text = String::from("tenant");
    for (name, _) in columns.iter().filter(|(_, is_told)| *is_told) {
        let _ = write!(text, ",{name}");
    }
    text.push_str(",requests,refusals,tokens\r\n");
    for row in rows {
        field(&mut text, &row.tenant);
        for value in [&row.key, &row.route, &row.plan, &row.day].into_iter().flatten() {
            text.push(',');
            field(&mut text, value);
        }
        let _ = write!(text, ",{},{},{}\r\n", row.requests, row.refusals, row.tokens);
    }
    text
}

fn field(text: &mut String, value: &str) {
    if value.contains([',', '"', '\r', '\n']) {
        let _ = write!(text, "\"{}\"", value.replace('"', "\"\""));
    } else {
        text.push_str(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_with_commas_and_quotes_is_quoted() {
        let mut text = String::new();
        field(&mut text, "GET /a,\"b\"");
        assert_eq!(text, "\"GET /a,\"\"b\"\"\"");
    }
}
