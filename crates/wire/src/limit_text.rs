//! What every response tells of a limit in the same words, written once.
//!
//! Of some four hundred bytes that a response tells of three limits all but nine figures are known when the policy is: names,
//! limits, windows. Copying these in a few pieces takes a third of the work of writing them anew.

use std::ops::Range;

use smallvec::SmallVec;
use tollgate_core::PolicyName;

use crate::head_lines::{HeadLines, trace};
use crate::line::Line;
use crate::names::{self, suffixed};
use crate::report::{LARGEST, Report, Shown, ceil_secs};

/// What every response tells of a limit in the same words. For whoever writes many: see [`Line::text`].
#[derive(Clone, Debug)]
pub struct LimitText {
    name: PolicyName,
    limit: u64,
    seconds: Option<u64>,
    /// Up to what remains, of a limit that is not the reported one.
    shown: Box<str>,
    /// Up to what remains, of the reported one.
    reported: Box<str>,
    /// Between what remains and the same again, under the name of its window.
    again: Box<str>,
    /// Between what remains and when it is reset, under the name of its window.
    reset: Box<str>,
    /// Its member of `RateLimit-Policy`.
    policy: Box<str>,
    /// The beginning of its member of `RateLimit`.
    standing: Box<str>,
    /// Of the names of its window.
    traces: u64,
}

impl LimitText {
    /// Of the first limit of this name in its chain, with this capacity and `w`, as
    /// [`Limit::window_secs`](tollgate_core::Limit::window_secs) tells.
    pub fn new(name: PolicyName, limit: u64, seconds: Option<u64>) -> LimitText {
        let of_window = suffixed(name.span());
        let shown = format!("{}: {limit}\r\n{}: ", of_window.limit, of_window.remaining);
        let plain = (&names::X_RATELIMIT_LIMIT, &names::X_RATELIMIT_REMAINING);
        let reported =
            format!("{}: {limit}\r\n{}: {limit}\r\n{}: ", plain.0, of_window.limit, plain.1);
        let mut policy = format!("\"{name}\";q={}", limit.min(LARGEST));
        if let Some(seconds) = seconds {
            policy.push_str(&format!(";w={}", seconds.min(LARGEST)));
        }
        let names = [&of_window.limit, &of_window.remaining, &of_window.reset];
        LimitText {
            name,
            limit,
            seconds,
            shown: shown.into(),
            reported: reported.into(),
            again: format!("\r\n{}: ", of_window.remaining).into(),
            reset: format!("\r\n{}: ", of_window.reset).into(),
            policy: policy.into(),
            standing: format!("\"{name}\";r=").into(),
            traces: names.iter().fold(0, |all, name| all | trace(name.as_str())),
        }
    }

    /// Whether it tells what the line would.
    fn is_of(&self, line: &Line<'_>) -> bool {
        (self.name, self.limit, self.seconds)
            == (line.name(), line.standing().limit, line.window_seconds())
    }
}

/// Room for what remains of each window.
type Places = SmallVec<[Range<usize>; 4]>;

/// Writes the limit headers of a report that shows these windows' limits; `false`, and nothing, if not all of them are in words.
pub(crate) fn print(report: &Report<'_>, shown: &Shown<'_>, lines: &mut HeadLines) -> bool {
    let mut all: SmallVec<[(&Line<'_>, &LimitText); 4]> = SmallVec::new();
    for line in shown.iter().flatten() {
        match line.in_words().filter(|text| text.is_of(line)) {
            Some(text) => all.push((line, text)),
            None => return false,
        }
    }
    let Some(reported) = report.reported() else { return true };
    let (page, traces) = lines.parts();
    let mut places = Places::new();
    for (line, text) in &all {
        *traces |= text.traces;
        let is_reported = std::ptr::eq(*line, reported);
        page.text(if is_reported { &text.reported } else { &text.shown });
        let remaining = page.figure(line.standing().remaining);
        if is_reported {
            page.text(&text.again);
            page.again(remaining.clone());
            page.text("\r\nx-ratelimit-reset: ");
            let reset = page.figure(report.reset_at(line));
            page.text(&text.reset);
            page.again(reset);
        } else {
            page.text(&text.reset);
            page.number(report.reset_at(line));
        }
        page.text("\r\n");
        places.push(remaining);
    }
    page.text("ratelimit-policy: ");
    for (n, (_, text)) in all.iter().enumerate() {
        if n > 0 {
            page.text(", ");
        }
        page.text(&text.policy);
    }
    page.text("\r\nratelimit: ");
    for (n, ((line, text), place)) in all.iter().zip(places).enumerate() {
        if n > 0 {
            page.text(", ");
        }
        page.text(&text.standing);
        match line.standing().remaining {
            // A structured field has no room for the largest.
            LARGEST.. => page.number(LARGEST),
            _ => page.again(place),
        }
        page.text(";t=");
        page.number(ceil_secs(line.standing().reset_after).min(LARGEST));
    }
    page.text("\r\n");
    *traces |= plain_traces();
    true
}

/// Of the names that every report has.
const fn plain_traces() -> u64 {
    trace("x-ratelimit-limit")
        | trace("x-ratelimit-remaining")
        | trace("x-ratelimit-reset")
        | trace("ratelimit-policy")
        | trace("ratelimit")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_core::{Scope, Span, Standing, Time};

    use super::*;

    fn printed(lines: &[Line<'_>], by: usize) -> HeadLines {
        let mut head = HeadLines::default();
        Report::refused(lines, by, Time::from_secs(1_800_000_000)).write_lines(&mut head);
        head
    }

    #[test]
    fn what_was_written_once_is_what_would_be_written_each_time() {
        let figures = [0, 1, 9, 10, 99, 123_456_789, LARGEST - 1, LARGEST, LARGEST + 1, u64::MAX];
        let mut standings = Vec::new();
        for (n, limit) in figures.into_iter().enumerate() {
            for remaining in figures.into_iter().filter(|remaining| *remaining <= limit) {
                let reset_after = Duration::from_millis(n as u64 * 777_777_777);
                standings.push(Standing { limit, remaining, reset_after });
            }
        }
        for (n, standing) in standings.iter().enumerate() {
            let of = |span: Span| {
                let standing = standings[(n + span as usize * 7) % standings.len()];
                let seconds = [None, Some(1), Some(u64::MAX)][(n + span as usize) % 3];
                (PolicyName::new(Scope::User, span), standing, seconds)
            };
            let first = (PolicyName::new(Scope::Tenant, Span::ALL[n % 7]), *standing, Some(60));
            let all: Vec<_> = [first].into_iter().chain(Span::ALL.map(of)).collect();
            let line =
                |&(name, standing, seconds): &(_, _, _)| Line::new(name, standing).seconds(seconds);
            let texts: Vec<LimitText> = all
                .iter()
                .map(|(name, standing, seconds)| LimitText::new(*name, standing.limit, *seconds))
                .collect();
            let plain: Vec<Line<'_>> = all.iter().map(line).collect();
            let in_words = plain.iter().zip(&texts).map(|(line, text)| line.text(Some(text)));
            let in_words: Vec<Line<'_>> = in_words.collect();
            for by in 0..plain.len() {
                for many in [1, 2, plain.len()] {
                    let by = by % many;
                    let (right, told) =
                        (printed(&plain[..many], by), printed(&in_words[..many], by));
                    assert_eq!(told.as_bytes(), right.as_bytes());
                    assert_eq!(told.clone().parts().1, right.clone().parts().1);
                }
            }
        }
    }

    #[test]
    fn words_of_another_limit_are_not_told() {
        let standing = Standing { limit: 7, remaining: 3, reset_after: Duration::from_secs(1) };
        let name = PolicyName::new(Scope::User, Span::Day);
        let line = Line::new(name, standing).seconds(Some(86_400));
        let right = printed(&[line], 0);
        for other in [
            LimitText::new(name, 8, Some(86_400)),
            LimitText::new(name, 7, None),
            LimitText::new(name.nth(2), 7, Some(86_400)),
            LimitText::new(PolicyName::new(Scope::Tenant, Span::Day), 7, Some(86_400)),
            LimitText::new(PolicyName::new(Scope::User, Span::Hour), 7, Some(86_400)),
        ] {
            assert_eq!(printed(&[line.text(Some(&other))], 0).as_bytes(), right.as_bytes());
        }
        assert!(right.has(&names::X_RATELIMIT_LIMIT));
    }
}
