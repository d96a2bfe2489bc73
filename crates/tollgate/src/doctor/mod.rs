//! `tollgate doctor`: whether a Redis or Valkey server can keep the promises that are made with it, and what to do if not.
//!
//! Facts are asked of every primary (`facts.rs`), judged without asking anything more (`findings.rs`), and told here.

mod facts;
mod findings;

use std::time::Duration;

use serde::Serialize;
use tollgate_policy::shapes::{self, RedisMode};

use crate::args::Doctor;
use crate::exit::Failure;
use crate::output::{policy, print, print_json};
use crate::reach;
use findings::{Finding, Level, Purpose};

/// What was found.
#[derive(Debug, Serialize)]
struct Report {
    /// Where it was looked at, without any secret.
    server: String,
    mode: &'static str,
    /// Whether nothing is wrong.
    good: bool,
    findings: Vec<Finding>,
}

pub(crate) fn run(args: &Doctor) -> Result<(), Failure> {
    let file = args.config.as_deref().map(policy).transpose()?;
    let mut redis =
        file.as_ref().map_or_else(shapes::Redis::default, |policy| policy.settings().redis.clone());
    let purpose = match &file {
        Some(policy) => Purpose {
            counts: policy.settings().rate_limit_sync.enabled,
            keeps: policy.settings().storage.redis,
            timeout: Duration::from_millis(redis.timeout_ms),
        },
        None => Purpose::unknown(Duration::from_millis(redis.timeout_ms)),
    };
    if let Some(url) = &args.redis {
        redis.url = url.clone();
    } else if file.is_some() && !purpose.counts && !purpose.keeps {
        return nothing(args.json);
    }
    if let Some(mode) = args.mode {
        redis.mode = mode;
    }
    let settings = reach::settings(&redis)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let facts = runtime.block_on(facts::ask(&settings, redis.prefix.as_str()));
    let findings = findings::judge(&facts, &redis, purpose);
    let good = findings.iter().all(|finding| finding.level != Level::Wrong);
    let (server, mode) = (reach::shown(redis.url.as_str()), name(redis.mode));
    let report = Report { server, mode, good, findings };
    if args.json {
        print_json(&report)?;
    } else {
        print(&text(&report))?;
    }
    if good {
        return Ok(());
    }
    let wrong = report.findings.iter().filter(|finding| finding.level == Level::Wrong).count();
    let what = if wrong == 1 { "thing is" } else { "things are" };
    Err(Failure::Failed(format!("{wrong} {what} wrong with {}", report.server)))
}

fn nothing(json: bool) -> Result<(), Failure> {
    let what = "the file uses no Redis: neither `rate_limit_sync` nor `storage: { redis: true }`";
    if json {
        return print_json(&serde_json::json!({ "good": true, "findings": [], "note": what }));
    }
    print(&format!("Nothing to examine: {what}.\n"))
}

fn name(mode: RedisMode) -> &'static str {
    match mode {
        RedisMode::Single => "single",
        RedisMode::Cluster => "cluster",
        RedisMode::Sentinel => "sentinel",
    }
}

/// The longest subject, so that what was found stands in one column.
const COLUMN: usize = 12;

fn text(report: &Report) -> String {
    use std::fmt::Write;
    let mut text = format!("{} ({})\n\n", report.server, report.mode);
    for Finding { level, subject, server, found, advice } in &report.findings {
        let server = server.as_ref().map(|server| format!(" [{server}]")).unwrap_or_default();
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {:<8} {subject:<COLUMN$} {found}{server}", level.word());
        if let Some(advice) = advice {
            let _ = writeln!(text, "  {:<8} {:<COLUMN$} → {advice}", "", "");
        }
    }
    let verdict = if report.good {
        "Good: it can keep what is promised with it.\n"
    } else {
        "Not good: what is marked WRONG breaks promises.\n"
    };
    text.push('\n');
    text.push_str(verdict);
    text
}
