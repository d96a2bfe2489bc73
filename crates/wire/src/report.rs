//! The limit headers of a response.

use http::{HeaderMap, HeaderName};
use tollgate_core::{Span, Standing, Time};

use crate::form;
use crate::head_lines::{Fields, Head, HeadLines};
use crate::limit_headers::LimitHeaders;
use crate::line::Line;
use crate::names::{self, suffixed};
use crate::page::Page;

/// What a caller is told about the limits of its chain.
///
/// ```
/// use std::time::Duration;
/// use http::HeaderMap;
/// use tollgate_core::{Limit, Rate, Scope, Standing, Time};
/// use tollgate_wire::{Line, Report};
///
/// # fn main() -> Result<(), tollgate_core::LimitError> {
/// let limit = Limit::token_bucket(Rate::per_second(10)).burst(100).build()?;
/// let standing =
///     Standing { limit: 100, remaining: 47, reset_after: Duration::from_millis(5_300) };
/// let lines = [Line::of(&limit, Scope::User, standing).source("plan:free")];
///
/// let mut headers = HeaderMap::new();
/// Report::admitted(&lines, Time::from_secs(1_800_000_000)).write(&mut headers);
/// assert_eq!(headers["x-ratelimit-limit"], "100");
/// assert_eq!(headers["x-ratelimit-reset-second"], "1800000006");
/// assert_eq!(headers["ratelimit-policy"], r#""user-second";q=100;w=10"#);
/// assert_eq!(headers["ratelimit"], r#""user-second";r=47;t=6"#);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// In chain order.
    lines: &'a [Line<'a>],
    reported: Option<usize>,
    now: Time,
}

const SPANS: usize = Span::ALL.len();

/// By their windows, the lines that are shown.
pub(crate) type Shown<'a> = [Option<&'a Line<'a>>; SPANS];

/// The largest integer of a structured field (RFC 9651, 3.3.1). A capacity may be larger.
pub(crate) const LARGEST: u64 = 999_999_999_999_999;

/// Room for the values of a chain with three windows.
const USUAL_BYTES: usize = 256;

impl<'a> Report<'a> {
    /// Of a request that passed: the tightest limit is reported.
    pub fn admitted(lines: &'a [Line<'a>], now: Time) -> Report<'a> {
        let tightest = match lines {
            [_only] => Some(0),
            _ => (0..lines.len()).min_by_key(|index| lines[*index].tightness()),
        };
        Report { lines, reported: tightest, now }
    }

    /// Of a request that the limit at `by` refused: that one is reported.
    pub fn refused(lines: &'a [Line<'a>], by: usize, now: Time) -> Report<'a> {
        Report { lines, reported: Some(by).filter(|by| *by < lines.len()), now }
    }

    /// The reported limit; `None` only without limits.
    pub fn reported(&self) -> Option<&'a Line<'a>> {
        self.lines.get(self.reported?)
    }

    pub(crate) fn lines(&self) -> &'a [Line<'a>] {
        self.lines
    }

    /// When a limit is full again or its window ends, in seconds since the epoch, rounded up.
    pub(crate) fn reset_at(&self, line: &Line<'_>) -> u64 {
        (self.now + line.standing().reset_after).as_secs_ceil()
    }

    /// Sets the limit headers, in place of what stood under their names. Without limits it does nothing.
    ///
    /// An upstream's headers go through [`strip`](crate::names::strip) first: there may be some of windows that
    /// this chain does not have.
    pub fn write(&self, headers: &mut HeaderMap) {
        let mut fields = Fields::with_capacity(USUAL_BYTES);
        self.print(&mut fields);
        fields.put(headers);
    }

    /// The same in a map of their own.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        self.limit_headers().put(&mut headers);
        headers
    }

    /// The same for a response that is there later. It takes a fraction of the time of [`write`](Report::write).
    pub fn limit_headers(&self) -> LimitHeaders {
        form::headers(self)
    }

    /// Adds them to lines that go to the wire as they are.
    pub fn write_lines(&self, lines: &mut HeadLines) {
        self.print(lines);
    }

    /// The tightest line of each window; of the reported one's window, the reported one.
    pub(crate) fn shown(&self) -> Shown<'a> {
        let mut shown: Shown<'a> = [None; SPANS];
        for line in self.lines {
            let best = &mut shown[line.name().span() as usize];
            if best.is_none_or(|best| line.tightness() < best.tightness()) {
                *best = Some(line);
            }
        }
        if let Some(reported) = self.reported() {
            shown[reported.name().span() as usize] = Some(reported);
        }
        shown
    }

    pub(crate) fn print(&self, head: &mut impl Head) {
        head.limits(self, &self.shown());
    }

    /// Field by field.
    pub(crate) fn print_each(&self, shown: &Shown<'_>, head: &mut impl Head) {
        let Some(reported) = self.reported() else { return };
        for line in shown.iter().flatten() {
            let names = suffixed(line.name().span());
            let mut figure = |suffixed: &'static HeaderName, plain: &'static HeaderName, figure| {
                if std::ptr::eq(*line, reported) {
                    head.field(plain, |page| page.number(figure));
                }
                head.field(suffixed, |page| page.number(figure));
            };
            let Standing { limit, remaining, .. } = *line.standing();
            figure(&names.limit, &names::X_RATELIMIT_LIMIT, limit);
            figure(&names.remaining, &names::X_RATELIMIT_REMAINING, remaining);
            figure(&names.reset, &names::X_RATELIMIT_RESET, self.reset_at(line));
        }
        head.field(&names::RATELIMIT_POLICY, |page| {
            list(page, shown, |page, line| {
                page.text(";q=");
                page.number(line.standing().limit.min(LARGEST));
                if let Some(seconds) = line.window_seconds() {
                    page.text(";w=");
                    page.number(seconds.min(LARGEST));
                }
            });
        });
        head.field(&names::RATELIMIT, |page| {
            list(page, shown, |page, line| {
                page.text(";r=");
                page.number(line.standing().remaining.min(LARGEST));
                page.text(";t=");
                page.number(ceil_secs(line.standing().reset_after).min(LARGEST));
            });
        });
    }
}

/// Writes a structured list of the shown limits' names, each with the parameters that `each` adds.
fn list(page: &mut Page, shown: &Shown<'_>, each: impl Fn(&mut Page, &Line<'_>)) {
    for (n, line) in shown.iter().flatten().enumerate() {
        page.text(if n == 0 { "\"" } else { ", \"" });
        page.name(line.name());
        page.text("\"");
        each(page, line);
    }
}

/// Whole seconds, rounded up.
pub(crate) fn ceil_secs(time: std::time::Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}
