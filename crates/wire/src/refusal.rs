//! The answer to a request that may not pass: by a limit, or because too much is pending.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use tollgate_core::{PolicyName, Refusal};

use crate::grpc::{self, Code};
use crate::head_lines::{Fields, Head, HeadLines};
use crate::ink::{Figure, Ink};
use crate::line::Line;
use crate::names::{self, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use crate::page::Page;
use crate::problem::{JSON_PROBLEM_TEXT, is_request_id};
use crate::refusal_form;
use crate::report::{Report, ceil_secs};

/// A refusal on its way to the caller, as HTTP or as gRPC.
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::{Limit, Rate, Refusal, Scope, Standing, Time};
/// use tollgate_wire::{Line, Refused, Report};
///
/// # fn main() -> Result<(), tollgate_core::LimitError> {
/// let limit = Limit::token_bucket(Rate::per_second(10)).burst(100).build()?;
/// let standing = Standing { limit: 100, remaining: 0, reset_after: Duration::from_secs(10) };
/// let lines = [Line::of(&limit, Scope::User, standing)
///     .source("plan:free")
///     .refusal(Some(Refusal::Wait(250_000_000)))];
///
/// let report = Report::refused(&lines, 0, Time::from_secs(1_800_000_000));
/// let response = Refused::by_limit(&report, "req-1").http();
/// assert_eq!(response.status(), 429);
/// assert_eq!(response.headers()["retry-after"], "1");
/// assert_eq!(response.headers()["retry-after-ms"], "250");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "it is answered by `http` or `grpc`"]
pub struct Refused<'a> {
    cause: Cause<'a>,
    request_id: &'a str,
    shows_limits: bool,
}

#[derive(Clone, Copy, Debug)]
enum Cause<'a> {
    Limit(Report<'a>),
    Pending { source: &'a str, retry_after: Duration },
}

/// How long the caller is told to stay away, in every unit that it is told in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) secs: u64,
    pub(crate) millis: u64,
    exact: Duration,
}

impl Wait {
    /// Rounded up, and never 0: a caller that came back at once would be refused again.
    fn new(exact: Duration) -> Wait {
        let millis = exact.as_nanos().div_ceil(1_000_000).max(1);
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        Wait { secs: ceil_secs(exact).max(1), millis, exact: Duration::from_millis(millis) }
    }
}

/// Room for the headers of a usual refusal, and for its body.
const USUAL_LINES: usize = 1_024;
const USUAL_BYTES: usize = 768;

impl<'a> Refused<'a> {
    /// By the limit that the report reports. A request without an id has an empty one, of which nothing is told.
    pub fn by_limit(report: &Report<'a>, request_id: &'a str) -> Refused<'a> {
        Refused { cause: Cause::Limit(*report), request_id, shows_limits: true }
    }

    /// By backpressure: too much is pending at `source`, say `upstream:api`.
    pub fn by_backpressure(
        source: &'a str,
        retry_after: Duration,
        request_id: &'a str,
    ) -> Refused<'a> {
        Refused { cause: Cause::Pending { source, retry_after }, request_id, shows_limits: true }
    }

    /// Whether the limit headers are shown; `Retry-After` and its like always are.
    pub fn limit_headers(mut self, shown: bool) -> Refused<'a> {
        self.shows_limits = shown;
        self
    }

    /// `None`: it never passes.
    fn wait(&self) -> Option<Wait> {
        match self.cause {
            Cause::Pending { retry_after, .. } => Some(Wait::new(retry_after)),
            Cause::Limit(report) => match report.reported().and_then(Line::refused) {
                Some(refusal @ Refusal::Wait(_)) => refusal.retry_after().map(Wait::new),
                Some(Refusal::Never) => None,
                // Whoever refuses without a reason gives the shortest.
                None => Some(Wait::new(Duration::ZERO)),
            },
        }
    }

    /// As HTTP: 429 or 503 with a problem body.
    pub fn http(&self) -> Response<Bytes> {
        let mut fields = Fields::with_capacity(USUAL_LINES);
        let (status, body) = self.print(&mut fields);
        let mut response = Response::new(body);
        *response.status_mut() = status;
        fields.put(response.headers_mut());
        response
    }

    /// The same as lines that go to the wire as they are, with the [body](HeadLines::body) behind them.
    pub fn http_lines(&self, lines: &mut HeadLines) -> StatusCode {
        let by_form = match (&self.cause, self.wait()) {
            (Cause::Limit(report), Some(wait)) if self.shows_limits => {
                refusal_form::write(self, (report, wait, self.request_id), lines)
            }
            _ => None,
        };
        by_form.unwrap_or_else(|| {
            let (status, body) = self.print(lines);
            lines.end(&body, 0, body.len());
            status
        })
    }

    fn print(&self, head: &mut impl Head) -> (StatusCode, Bytes) {
        let wait = self.wait();
        head.fixed(&CONTENT_TYPE, JSON_PROBLEM_TEXT);
        head.fixed(&CACHE_CONTROL, "no-store");
        if let Some(wait) = wait {
            head.field(&RETRY_AFTER, |page| page.number(wait.secs));
            head.field(&names::X_RATELIMIT_RETRY_AFTER_MS, |page| page.number(wait.millis));
        }
        self.common(head, wait);
        let mut page = Page::with_capacity(USUAL_BYTES);
        self.body(&mut page, wait);
        let status = match self.cause {
            Cause::Limit(_) => StatusCode::TOO_MANY_REQUESTS,
            Cause::Pending { .. } => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, Bytes::from(page.finish()))
    }

    /// As gRPC: `RESOURCE_EXHAUSTED` in trailers only. The body is empty.
    pub fn grpc(&self) -> Response<Bytes> {
        let wait = self.wait();
        let message = self.detail(wait).to_string();
        let mut response =
            grpc::response(Code::ResourceExhausted, &message, wait.map(|wait| wait.exact));
        let mut fields = Fields::with_capacity(USUAL_LINES);
        match wait {
            Some(wait) => {
                fields.field(&names::GRPC_RETRY_PUSHBACK_MS, |page| page.number(wait.millis));
            }
            None => fields.fixed(&names::GRPC_RETRY_PUSHBACK_MS, "-1"),
        }
        self.common(&mut fields, wait);
        fields.put(response.headers_mut());
        response
    }

    /// The headers that both forms have.
    fn common(&self, head: &mut impl Head, wait: Option<Wait>) {
        match wait {
            Some(wait) => head.field(&names::RETRY_AFTER_MS, |page| page.number(wait.millis)),
            // Clients that take a bare 429 for a reason to try again know this one.
            None => head.fixed(&names::X_SHOULD_RETRY, "false"),
        }
        if let Cause::Limit(report) = self.cause
            && self.shows_limits
        {
            report.print(head);
        }
        if is_request_id(self.request_id) {
            head.field(&names::X_REQUEST_ID, |page| page.text(self.request_id));
        }
    }

    fn detail(&self, wait: Option<Wait>) -> Detail<'a> {
        Detail { cause: self.cause, secs: wait.map(|wait| wait.secs) }
    }

    /// Writes the problem body.
    pub(crate) fn body(&self, ink: &mut impl Ink, wait: Option<Wait>) {
        let (kind, title, status) = match self.cause {
            Cause::Limit(_) => ("quota-exceeded", "Rate limit exceeded", "429"),
            Cause::Pending { .. } => {
                ("temporary-reduced-capacity", "Too much is pending already", "503")
            }
        };
        ink.text("{\"type\":\"https://iana.org/assignments/http-problem-types#");
        ink.text(kind);
        ink.text("\",\"title\":\"");
        ink.text(title);
        ink.text("\",\"status\":");
        ink.text(status);
        ink.text(",\"detail\":\"");
        let detail = self.detail(wait);
        detail.write(ink, Ink::escaped);
        ink.text("\"");
        if !self.request_id.is_empty() {
            ink.text(",\"instance\":\"");
            ink.request_id(self.request_id);
            ink.text("\"");
        }
        ink.text(",\"violated-policies\":[");
        if let Cause::Limit(report) = &self.cause {
            violated(ink, report);
        }
        ink.text("],\"error\":{\"code\":\"");
        ink.text(match (self.cause, wait) {
            (Cause::Pending { .. }, _) => "BACKPRESSURE",
            (Cause::Limit(_), Some(_)) => "RATE_LIMIT_EXCEEDED",
            (Cause::Limit(_), None) => "COST_EXCEEDS_LIMIT",
        });
        ink.text("\",\"message\":\"");
        detail.write(ink, Ink::escaped);
        ink.text("\",\"retryAfter\":");
        match wait {
            Some(wait) => ink.figure(Figure::Secs, wait.secs),
            None => ink.text("null"),
        }
        self.figures(ink);
        ink.text("}}");
    }

    /// The members of `error` that say which limit it was.
    fn figures(&self, ink: &mut impl Ink) {
        let source = match &self.cause {
            Cause::Limit(report) => {
                let Some(line) = report.reported() else { return };
                ink.text(",\"limit\":");
                ink.number(line.standing().limit);
                ink.text(",\"remaining\":");
                ink.figure(Figure::Remaining, line.standing().remaining);
                ink.text(",\"resetAt\":\"");
                ink.reset(report.reset_at(line));
                ink.text("\",\"policy\":\"");
                ink.name(line.name());
                ink.text("\"");
                line.shown_source()
            }
            Cause::Pending { source, .. } => source,
        };
        ink.text(",\"source\":\"");
        ink.escaped(source);
        ink.text("\"");
    }
}

/// The names of all that refused, the reported one first.
fn violated(ink: &mut impl Ink, report: &Report<'_>) {
    let Some(reported) = report.reported() else { return };
    ink.text("\"");
    ink.name(reported.name());
    ink.text("\"");
    for name in also_refused(report) {
        ink.text(",\"");
        ink.name(name);
        ink.text("\"");
    }
}

/// The names of those that refused besides the reported one.
pub(crate) fn also_refused<'r>(report: &'r Report<'_>) -> impl Iterator<Item = PolicyName> + 'r {
    let reported = report.reported();
    let is_reported = move |line: &Line<'_>| reported.is_some_and(|one| std::ptr::eq(line, one));
    let refused = report.lines().iter().filter(|line| line.refused().is_some());
    refused.filter(move |line| !is_reported(line)).map(Line::name)
}

/// The sentence for people: which limit, and what to do.
struct Detail<'a> {
    cause: Cause<'a>,
    secs: Option<u64>,
}

impl Detail<'_> {
    fn write<I: Ink>(&self, ink: &mut I, quote: fn(&mut I, &str)) {
        match &self.cause {
            Cause::Limit(report) => {
                let Some(line) = report.reported() else { return };
                match self.secs {
                    Some(_) => ink.text("The limit "),
                    None => {
                        ink.text("This request costs ");
                        ink.number(line.shown_cost());
                        ink.text(", and the limit ");
                    }
                }
                ink.name(line.name());
                if !line.shown_source().is_empty() {
                    ink.text(" of ");
                    quote(ink, line.shown_source());
                }
                match self.secs {
                    Some(_) => ink.text(" is used up."),
                    None => {
                        ink.text(" admits at most ");
                        ink.number(line.standing().limit);
                        ink.text(": it can never pass.");
                    }
                }
            }
            Cause::Pending { source, .. } => {
                ink.text("Too much is pending at ");
                quote(ink, source);
                ink.text(".");
            }
        }
        if let Some(secs) = self.secs {
            ink.text(" Try again in ");
            ink.figure(Figure::Secs, secs);
            ink.text(if secs == 1 { " second." } else { " seconds." });
        }
    }
}

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut page = Page::with_capacity(128);
        self.write(&mut page, Ink::text);
        f.write_str(&String::from_utf8_lossy(page.bytes_mut()))
    }
}
