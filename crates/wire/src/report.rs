//! The limit headers of a response.

use http::{HeaderMap, HeaderName};
use tollgate_core::{Span, Standing, Time};

use crate::line::Line;
use crate::names::{self, Triple, suffixed};
use crate::page::{Page, Place, Printed, set};

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

/// The largest integer of a structured field (RFC 9651, 3.3.1). A capacity may be larger.
const LARGEST: u64 = 999_999_999_999_999;

/// Room for the values of a chain with three windows.
const USUAL_BYTES: usize = 256;

/// Where a shown limit's three figures stand on the page.
struct Figures<'a> {
    line: &'a Line<'a>,
    limit: Place,
    remaining: Place,
    reset: Place,
}

impl<'a> Report<'a> {
    /// Of a request that passed: the tightest limit is reported.
    pub fn admitted(lines: &'a [Line<'a>], now: Time) -> Report<'a> {
        let tightest = (0..lines.len()).min_by_key(|index| lines[*index].tightness());
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
        let mut page = Page::with_capacity(USUAL_BYTES);
        let places = self.print(&mut page);
        self.insert(headers, &page.finish(), places);
    }

    /// The tightest line of each window; of the reported one's window, the reported one.
    fn shown(&self) -> [Option<&'a Line<'a>>; SPANS] {
        let mut shown: [Option<&Line<'_>>; SPANS] = [None; SPANS];
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

    /// Writes every value once. A figure that several headers show is a part of the longest of them.
    pub(crate) fn print(&self, page: &mut Page) -> Places<'a> {
        let mut figures = self.shown().map(|line| {
            line.map(|line| Figures { line, limit: 0..0, remaining: 0..0, reset: 0..0 })
        });
        let policy = list(page, &mut figures, |page, shown| {
            page.text(";q=");
            shown.limit = page.number(shown.line.standing().limit.min(LARGEST));
            if let Some(seconds) = shown.line.window_seconds() {
                page.text(";w=");
                page.number(seconds.min(LARGEST));
            }
        });
        let standing = list(page, &mut figures, |page, shown| {
            page.text(";r=");
            shown.remaining = page.number(shown.line.standing().remaining.min(LARGEST));
            page.text(";t=");
            page.number(ceil_secs(shown.line.standing().reset_after).min(LARGEST));
        });
        for shown in figures.iter_mut().flatten() {
            shown.reset = page.number(self.reset_at(shown.line));
            let Standing { limit, remaining, .. } = *shown.line.standing();
            if limit > LARGEST {
                shown.limit = page.number(limit);
            }
            if remaining > LARGEST {
                shown.remaining = page.number(remaining);
            }
        }
        Places { figures, policy, standing }
    }

    /// Sets the headers to what was printed.
    pub(crate) fn insert(&self, headers: &mut HeaderMap, printed: &Printed, places: Places<'_>) {
        let Some(reported) = self.reported() else { return };
        let windows = places.figures.iter().flatten().count();
        if headers.try_reserve(5 + 3 * windows).is_err() {
            return;
        }
        for shown in places.figures.into_iter().flatten() {
            let Triple { limit, remaining, reset } = suffixed(shown.line.name().span());
            let plain = std::ptr::eq(shown.line, reported);
            let mut both = |suffixed: &'static HeaderName, plain_name, place| {
                let Some(value) = printed.value(place) else { return };
                if plain {
                    set(headers, plain_name, value.clone());
                }
                set(headers, suffixed, value);
            };
            both(limit, &names::X_RATELIMIT_LIMIT, shown.limit);
            both(remaining, &names::X_RATELIMIT_REMAINING, shown.remaining);
            both(reset, &names::X_RATELIMIT_RESET, shown.reset);
        }
        printed.set(headers, &names::RATELIMIT_POLICY, places.policy);
        printed.set(headers, &names::RATELIMIT, places.standing);
    }
}

/// Where on a page the limit headers' values stand.
pub(crate) struct Places<'a> {
    figures: [Option<Figures<'a>>; SPANS],
    policy: Place,
    standing: Place,
}

/// Writes a structured list of the shown limits' names, each with the parameters that `each` adds.
fn list<'a>(
    page: &mut Page,
    figures: &mut [Option<Figures<'a>>; SPANS],
    mut each: impl FnMut(&mut Page, &mut Figures<'a>),
) -> Place {
    let start = page.end();
    for shown in figures.iter_mut().flatten() {
        page.text(if page.end() == start { "\"" } else { ", \"" });
        page.name(shown.line.name());
        page.text("\"");
        each(page, shown);
    }
    start..page.end()
}

/// Whole seconds, rounded up.
pub(crate) fn ceil_secs(time: std::time::Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}
