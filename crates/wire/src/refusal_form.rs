//! Refusals as forms: what a thread has answered before, in which only what has changed is written anew.
//!
//! Of some thirteen hundred bytes that a refused caller is told, a dozen figures and the request's id are its own. Which headers
//! there are, what the limits are called and how large they are stays the same until the policy changes, and even the figures mostly
//! have as many digits as those of the caller before. So each thread keeps a few whole answers; the next one is written over them,
//! figure by figure, and copied. A figure with more or fewer digits makes a new form.

use std::cell::Cell;

use http::{HeaderName, StatusCode};
use smallvec::SmallVec;
use tollgate_core::PolicyName;

use crate::form::Terms;
use crate::head_lines::{HeadLines, trace};
use crate::ink::{Figure, Ink};
use crate::json;
use crate::line::Line;
use crate::moment;
use crate::names::{self, suffixed};
use crate::page::Page;
use crate::problem::JSON_PROBLEM_TEXT;
use crate::refusal::{Refused, Wait, also_refused};
use crate::report::{LARGEST, Report, Shown, ceil_secs};

/// Forms that a thread keeps. Which of them a refusal's is depends on its limits; one that is there already makes way.
const KEPT: usize = 32;

thread_local! {
    static FORMS: [Cell<Option<Box<Form>>>; KEPT] = const { [const { Cell::new(None) }; KEPT] };
}

/// The places of figures: of the wait, and of each limit that is shown.
const SECS: usize = 0;
const MILLIS: usize = 1;
const OF_LIMITS: usize = 2;
const REMAINING: usize = 0;
const LEFT: usize = 1;
const RESET: usize = 2;
const EACH: usize = 3;

/// What a refusal has to tell.
struct Told<'a> {
    report: &'a Report<'a>,
    reported: &'a Line<'a>,
    shown: Shown<'a>,
    wait: Wait,
    request_id: &'a str,
}

/// A figure, and where it stands.
#[derive(Debug, Default)]
struct Written {
    value: u64,
    digits: usize,
    places: SmallVec<[usize; 4]>,
}

/// A whole answer.
#[derive(Debug, Default)]
struct Form {
    terms: SmallVec<[Terms; 4]>,
    /// Of the reported limit.
    source: Box<str>,
    also_refused: SmallVec<[PolicyName; 4]>,
    figures: SmallVec<[Written; OF_LIMITS + 4 * EACH]>,
    /// The first figure of the reported limit.
    reported: usize,
    id_length: usize,
    ids: SmallVec<[usize; 2]>,
    reset: usize,
    /// The header lines, and from `body` on the body.
    page: Page,
    body: usize,
    traces: u64,
}

/// What a form that was kept is good for.
#[derive(PartialEq, Eq)]
enum Renewed {
    Done,
    /// It is of other limits, or figures have other numbers of digits.
    Unlike,
    /// No form tells this.
    Never,
}

/// Adds the header lines of a refusal, and its body behind them; `None`, and nothing, if it tells something that no form is made for.
pub(crate) fn write(
    refused: &Refused<'_>,
    (report, wait, request_id): (&Report<'_>, Wait, &str),
    lines: &mut HeadLines,
) -> Option<StatusCode> {
    let reported = report.reported()?;
    let told = Told { report, reported, shown: report.shown(), wait, request_id };
    if !told.has_usual_id() {
        return None;
    }
    let mut write = |kept: &Cell<Option<Box<Form>>>| {
        let mut form = kept.take().unwrap_or_default();
        let renewed = form.renew(&told);
        if renewed == Renewed::Unlike {
            *form = Form::new(refused, &told)?;
        }
        if renewed != Renewed::Never {
            lines.end(form.page.as_bytes(), form.traces, form.page.end() - form.body);
        }
        kept.set(Some(form));
        (renewed != Renewed::Never).then_some(StatusCode::TOO_MANY_REQUESTS)
    };
    // A thread that ends has no forms any more.
    FORMS.try_with(|forms| write(&forms[told.shelf()])).ok().flatten()
}

impl Told<'_> {
    fn has_usual_id(&self) -> bool {
        let is_usual = |byte: u8| (b' '..=b'~').contains(&byte);
        let is_usual = self.request_id.bytes().fold(true, |all, byte| all & is_usual(byte));
        is_usual && !self.request_id.is_empty() && json::is_plain(self.request_id)
    }

    fn terms(&self, line: &Line<'_>) -> Terms {
        let (name, limit, seconds) = (line.name(), line.standing().limit, line.window_seconds());
        Terms { name, limit, seconds, is_reported: std::ptr::eq(line, self.reported) }
    }

    /// What a limit's figures are. A structured field has no room for the largest, nor has a date for the latest.
    fn figures(&self, line: &Line<'_>) -> Option<[u64; EACH]> {
        let standing = line.standing();
        let (left, reset) = (ceil_secs(standing.reset_after), self.report.reset_at(line));
        let is_usual =
            standing.remaining <= LARGEST && left <= LARGEST && !moment::is_too_late(reset);
        is_usual.then_some([standing.remaining, left, reset])
    }

    /// Where a thread keeps the form of these limits.
    fn shelf(&self) -> usize {
        let source = self.reported.shown_source().as_bytes();
        let end =
            source.last_chunk::<8>().map_or(source.len() as u64, |end| u64::from_le_bytes(*end));
        let one = |line: &Line<'_>| {
            let kind =
                (line.name().span() as u64) << 1 | u64::from(std::ptr::eq(line, self.reported));
            line.standing().limit.rotate_left(8).wrapping_add(kind)
        };
        let all = self.shown.iter().flatten();
        let all = all.fold(end, |sum, line| sum.rotate_left(11) ^ one(line));
        // The high bits of a product depend on all bits (Knuth, volume 3, 6.4).
        (all.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % KEPT
    }
}

impl Form {
    fn new(refused: &Refused<'_>, told: &Told<'_>) -> Option<Form> {
        let mut form = Form {
            source: told.reported.shown_source().into(),
            also_refused: also_refused(told.report).collect(),
            id_length: told.request_id.len(),
            ..Form::default()
        };
        let figure = |value: u64| Written { value, ..Written::default() };
        form.figures.extend([told.wait.secs, told.wait.millis].map(figure));
        for line in told.shown.iter().flatten() {
            let terms = told.terms(line);
            if terms.is_reported {
                form.reported = form.figures.len();
            }
            form.terms.push(terms);
            form.figures.extend(told.figures(line)?.map(figure));
        }
        form.write_head(told.request_id);
        form.body = form.page.end();
        refused.body(&mut form, Some(told.wait));
        Some(form)
    }

    /// Writes over what has changed. What it has written by the time it finds that it cannot go on is no harm: every figure
    /// says what its places say.
    fn renew(&mut self, told: &Told<'_>) -> Renewed {
        // A new one has no figures.
        let Some(secs) = self.figures.first().map(|secs| secs.value) else {
            return Renewed::Unlike;
        };
        let is_of = *self.source == *told.reported.shown_source()
            && self.id_length == told.request_id.len()
            // One second is told in other words than several.
            && (secs == 1) == (told.wait.secs == 1)
            && also_refused(told.report).eq(self.also_refused.iter().copied());
        if !is_of || !self.set(SECS, told.wait.secs) || !self.set(MILLIS, told.wait.millis) {
            return Renewed::Unlike;
        }
        let mut first = OF_LIMITS;
        for line in told.shown.iter().flatten() {
            let Some(figures) = told.figures(line) else { return Renewed::Never };
            let nth = (first - OF_LIMITS) / EACH;
            if self.terms.get(nth).is_none_or(|terms| *terms != told.terms(line)) {
                return Renewed::Unlike;
            }
            for (nth, value) in figures.into_iter().enumerate() {
                if !self.set(first + nth, value) {
                    return Renewed::Unlike;
                }
            }
            first += EACH;
        }
        if first != self.figures.len() {
            return Renewed::Unlike;
        }
        let text = self.page.bytes_mut();
        for place in &self.ids {
            text[*place..][..self.id_length].copy_from_slice(told.request_id.as_bytes());
        }
        Renewed::Done
    }

    /// Writes a figure over the one that stands there; `false` if it takes another number of digits.
    #[inline]
    fn set(&mut self, nth: usize, value: u64) -> bool {
        self.figures[nth].value == value || self.change(nth, value)
    }

    fn change(&mut self, nth: usize, value: u64) -> bool {
        let (figure, text) = (&mut self.figures[nth], self.page.bytes_mut());
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(value).as_bytes();
        let is_reset = nth == self.reported + RESET;
        let moment = if is_reset { moment::text(value) } else { None };
        if digits.len() != figure.digits || is_reset != moment.is_some() {
            return false;
        }
        figure.value = value;
        for place in &figure.places {
            text[*place..][..digits.len()].copy_from_slice(digits);
        }
        if let Some(moment) = moment {
            text[self.reset..][..moment.len()].copy_from_slice(&moment);
        }
        true
    }

    fn write_head(&mut self, request_id: &str) {
        self.line(&names::CONTENT_TYPE, |form| form.page.text(JSON_PROBLEM_TEXT));
        self.line(&names::CACHE_CONTROL, |form| form.page.text("no-store"));
        self.line(&names::RETRY_AFTER, |form| form.note(SECS));
        self.line(&names::X_RATELIMIT_RETRY_AFTER_MS, |form| form.note(MILLIS));
        self.line(&names::RETRY_AFTER_MS, |form| form.note(MILLIS));
        let terms = self.terms.clone();
        for (nth, terms) in terms.iter().enumerate() {
            let (of_window, first) = (suffixed(terms.name.span()), OF_LIMITS + nth * EACH);
            self.twice(terms, (&names::X_RATELIMIT_LIMIT, &of_window.limit), |form| {
                form.page.number(terms.limit);
            });
            self.twice(terms, (&names::X_RATELIMIT_REMAINING, &of_window.remaining), |form| {
                form.note(first + REMAINING);
            });
            self.twice(terms, (&names::X_RATELIMIT_RESET, &of_window.reset), |form| {
                form.note(first + RESET);
            });
        }
        self.line(&names::RATELIMIT_POLICY, |form| {
            form.list(&terms, |form, nth| {
                form.page.text(";q=");
                form.page.number(terms[nth].limit.min(LARGEST));
                if let Some(seconds) = terms[nth].seconds {
                    form.page.text(";w=");
                    form.page.number(seconds.min(LARGEST));
                }
            });
        });
        self.line(&names::RATELIMIT, |form| {
            form.list(&terms, |form, nth| {
                form.page.text(";r=");
                form.note(OF_LIMITS + nth * EACH + REMAINING);
                form.page.text(";t=");
                form.note(OF_LIMITS + nth * EACH + LEFT);
            });
        });
        self.line(&names::X_REQUEST_ID, |form| form.request_id(request_id));
    }

    fn line(&mut self, name: &HeaderName, write: impl FnOnce(&mut Form)) {
        self.traces |= trace(name.as_str());
        self.page.text(name.as_str());
        self.page.text(": ");
        write(self);
        self.page.text("\r\n");
    }

    /// A line under the name of its window, and before it, of the reported limit, under the plain one.
    fn twice(
        &mut self,
        terms: &Terms,
        (plain, suffixed): (&HeaderName, &HeaderName),
        write: impl Fn(&mut Form),
    ) {
        if terms.is_reported {
            self.line(plain, &write);
        }
        self.line(suffixed, write);
    }

    /// A structured list of the limits' names, each with its parameters.
    fn list(&mut self, terms: &[Terms], each: impl Fn(&mut Form, usize)) {
        for (nth, terms) in terms.iter().enumerate() {
            self.page.text(if nth == 0 { "\"" } else { ", \"" });
            self.page.name(terms.name);
            self.page.text("\"");
            each(self, nth);
        }
    }

    /// Writes a figure, and keeps where it stands.
    fn note(&mut self, nth: usize) {
        let (page, figure) = (&mut self.page, &mut self.figures[nth]);
        let place = page.figure(figure.value);
        figure.digits = place.len();
        figure.places.push(place.start);
    }
}

impl Ink for Form {
    fn text(&mut self, text: &str) {
        self.page.text(text);
    }

    fn escaped(&mut self, text: &str) {
        json::escaped(&mut self.page, text);
    }

    fn name(&mut self, name: PolicyName) {
        self.page.name(name);
    }

    fn number(&mut self, number: u64) {
        self.page.number(number);
    }

    fn figure(&mut self, which: Figure, _: u64) {
        self.note(match which {
            Figure::Secs => SECS,
            Figure::Remaining => self.reported + REMAINING,
        });
    }

    fn reset(&mut self, secs: u64) {
        self.reset = self.page.end();
        moment::write(&mut self.page, secs);
    }

    fn request_id(&mut self, id: &str) {
        self.ids.push(self.page.end());
        self.page.text(id);
    }
}
