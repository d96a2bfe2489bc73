//! `X-RateLimit-*` and its relatives: three figures each, under names that differ by server.
//!
//! | who | names | reset |
//! |---|---|---|
//! | GitHub, GitLab | `x-ratelimit-limit`, `x-ratelimit-resource` | epoch seconds |
//! | Envoy | `x-ratelimit-limit: 100, 100;w=60` | delay in seconds |
//! | Twitter, Okta | `x-rate-limit-limit` | epoch seconds |
//! | Discord | `x-ratelimit-reset-after` besides | delay with decimals |
//! | Kong | `x-ratelimit-limit-minute`, `ratelimit-reset` | delay in seconds |
//! | `OpenAI` | `x-ratelimit-limit-requests`, `-tokens` | `6m0s` |
//! | Anthropic | `anthropic-ratelimit-requests-limit` | RFC 3339 |
//!
//! So a name is taken apart: which family, which figure, of what. Figures of the same family and the same "what"
//! are one limit.

use std::time::Duration;

use http::HeaderMap;
use tollgate_core::{Span, Time, Window};

use super::value::{count, number, plausible, reset};
use super::{MOST_LIMITS, Seen, short};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// `x-ratelimit-`
    Plain,
    /// `x-rate-limit-`
    Dashed,
    /// `ratelimit-`: the IETF's drafts up to 06
    Draft,
    /// `anthropic-ratelimit-`
    Anthropic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Limit,
    Remaining,
    Reset,
    ResetAfter,
    /// What is limited, not how much.
    Resource,
}

/// A limit as it is put together from several headers.
struct Group {
    family: Family,
    of: String,
    seen: Seen,
}

pub(super) fn read(headers: &HeaderMap, now: Time) -> Vec<Seen> {
    let mut groups: Vec<Group> = Vec::new();
    for (name, value) in headers {
        let Some((family, figure, of)) = take_apart(name.as_str()) else { continue };
        let Ok(text) = value.to_str() else { continue };
        let known = groups.iter().position(|group| group.family == family && group.of == of);
        let index = match known {
            Some(index) => index,
            None if groups.len() == MOST_LIMITS => continue,
            None => {
                let seen = Seen { name: short(of), window: window_of(of), ..Seen::default() };
                groups.push(Group { family, of: of.to_owned(), seen });
                groups.len() - 1
            }
        };
        groups[index].seen.note(figure, text.trim(), now);
    }
    groups.into_iter().map(|group| group.seen).collect()
}

impl Seen {
    /// The first word on each figure counts; Discord's delay is finer than its moment.
    fn note(&mut self, figure: Figure, text: &str, now: Time) {
        match figure {
            Figure::Limit => {
                self.limit = self.limit.or_else(|| count(text));
                self.window = self.window.or_else(|| window_in(text, self.limit?));
            }
            Figure::Remaining => self.remaining = self.remaining.or_else(|| count(text)),
            Figure::Reset => self.reset_after = self.reset_after.or_else(|| reset(text, now)),
            Figure::ResetAfter => {
                self.reset_after = number(text).and_then(plausible).or(self.reset_after);
            }
            Figure::Resource => (self.name, self.is_resource) = (short(text), true),
        }
    }
}

/// A header's name as family, figure, and what it is of; the last is empty for the plain three.
fn take_apart(name: &str) -> Option<(Family, Figure, &str)> {
    if let Some(rest) = name.strip_prefix("anthropic-ratelimit-") {
        let (of, figure) = rest.rsplit_once('-')?;
        return Some((Family::Anthropic, figure_of(figure)?, of));
    }
    let families = [
        ("x-ratelimit-", Family::Plain),
        ("x-rate-limit-", Family::Dashed),
        ("ratelimit-", Family::Draft),
    ];
    let (family, rest) = families
        .into_iter()
        .find_map(|(prefix, family)| Some((family, name.strip_prefix(prefix)?)))?;
    match rest {
        "reset-after" => return Some((family, Figure::ResetAfter, "")),
        "resource" => return Some((family, Figure::Resource, "")),
        _ => {}
    }
    let (figure, of) = rest.split_once('-').unwrap_or((rest, ""));
    Some((family, figure_of(figure)?, of))
}

fn figure_of(word: &str) -> Option<Figure> {
    match word {
        "limit" => Some(Figure::Limit),
        "remaining" => Some(Figure::Remaining),
        "reset" => Some(Figure::Reset),
        _ => None,
    }
}

/// A suffix that names a window. Months and years are of no fixed length.
fn window_of(of: &str) -> Option<Duration> {
    let span = Span::ALL.into_iter().find(|span| span.name() == of)?;
    let secs = match span {
        Span::Second => Window::Second.secs(),
        Span::Minute => Window::Minute.secs(),
        Span::Hour => Window::Hour.secs(),
        Span::Day => Window::Day.secs(),
        Span::Week => 7 * Window::Day.secs(),
        Span::Month | Span::Year => return None,
    };
    Some(Duration::from_secs(secs))
}

/// The window that `100, 10;w=1, 100;w=60` has for the limit it begins with.
fn window_in(text: &str, limit: u64) -> Option<Duration> {
    text.split(',').find_map(|policy| {
        let mut parts = policy.split(';').map(str::trim);
        let is_meant = parts.next().and_then(count) == Some(limit);
        let window = parts.find_map(|part| part.strip_prefix("w="))?;
        let window = plausible(number(window)?).filter(|window| !window.is_zero());
        window.filter(|_| is_meant)
    })
}
