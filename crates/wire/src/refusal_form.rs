//! Refusals as forms: what a thread has answered before, in which only what has changed is written anew.
//!
//! Of some thirteen hundred bytes that a refused caller is told, a dozen figures and the request's id are its own. Which headers
//! there are, what the limits are called and how large they are stays the same until the policy changes, and even the figures mostly
//! have as many digits as those of the caller before. So each thread keeps a few whole answers; the next one is written over them,
//! figure by figure, and copied. A figure with more or fewer digits makes a new form.

use std::cell::Cell;

use bytes::Bytes;
use http::HeaderName;
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
use crate::report::{LARGEST, Report, ceil_secs};

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
    terms: SmallVec<[Terms; 4]>,
    figures: SmallVec<[u64; OF_LIMITS + 4 * EACH]>,
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

/// Adds the header lines of a refusal, and gives its body; `None`, and nothing, if it tells something that no form is made for.
pub(crate) fn write(
    refused: &Refused<'_>,
    (report, wait, request_id): (&Report<'_>, Wait, &str),
    lines: &mut HeadLines,
) -> Option<Bytes> {
    let told = Told::of((report, report.reported()?), wait, request_id)?;
    let mut write = |kept: &Cell<Option<Box<Form>>>| {
        let mut form = kept.take().unwrap_or_default();
        if !form.is_of(&told) || !form.renew(&told) {
            *form = Form::new(refused, &told, wait);
        }
        let (head, body) = form.page.as_bytes().split_at(form.body);
        let (page, traces) = lines.parts();
        page.bytes(head);
        *traces |= form.traces;
        let body = Bytes::copy_from_slice(body);
        kept.set(Some(form));
        body
    };
    // A thread that ends has no forms any more.
    FORMS.try_with(|forms| write(&forms[told.shelf()])).ok()
}

impl<'a> Told<'a> {
    fn of(
        (report, reported): (&'a Report<'a>, &'a Line<'a>),
        wait: Wait,
        request_id: &'a str,
    ) -> Option<Told<'a>> {
        let is_usual = |byte: u8| (b' '..=b'~').contains(&byte);
        let is_usual = request_id.bytes().fold(true, |all, byte| all & is_usual(byte));
        if request_id.is_empty() || !is_usual || !json::is_plain(request_id) {
            return None;
        }
        let (mut terms, mut figures) = (SmallVec::new(), SmallVec::new());
        figures.extend([wait.secs, wait.millis]);
        for line in report.shown().iter().flatten() {
            let standing = line.standing();
            let is_reported = std::ptr::eq(*line, reported);
            let (left, reset) = (ceil_secs(standing.reset_after), report.reset_at(line));
            // A structured field has no room for the largest, nor has a date for the latest.
            if standing.remaining > LARGEST || left > LARGEST || moment::is_too_late(reset) {
                return None;
            }
            let (name, limit, seconds) = (line.name(), standing.limit, line.window_seconds());
            terms.push(Terms { name, limit, seconds, is_reported });
            figures.extend([standing.remaining, left, reset]);
        }
        Some(Told { report, reported, terms, figures, request_id })
    }

    /// Where a thread keeps the form of these limits.
    fn shelf(&self) -> usize {
        let source = self.reported.shown_source().as_bytes();
        let end =
            source.last_chunk::<8>().map_or(source.len() as u64, |end| u64::from_le_bytes(*end));
        let one = |terms: &Terms| {
            let kind = (terms.name.span() as u64) << 1 | u64::from(terms.is_reported);
            terms.limit.rotate_left(8).wrapping_add(kind)
        };
        let all = self.terms.iter().fold(end, |sum, terms| sum.rotate_left(11) ^ one(terms));
        // The high bits of a product depend on all bits (Knuth, volume 3, 6.4).
        (all.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % KEPT
    }
}

impl Form {
    fn new(refused: &Refused<'_>, told: &Told<'_>, wait: Wait) -> Form {
        let reported = told.terms.iter().position(|terms| terms.is_reported).unwrap_or(0);
        let mut form = Form {
            terms: told.terms.clone(),
            source: told.reported.shown_source().into(),
            also_refused: also_refused(told.report).collect(),
            reported: OF_LIMITS + reported * EACH,
            id_length: told.request_id.len(),
            ..Form::default()
        };
        let figure = |value: &u64| Written { value: *value, ..Written::default() };
        form.figures.extend(told.figures.iter().map(figure));
        form.write_head(told.request_id);
        form.body = form.page.end();
        refused.body(&mut form, Some(wait));
        form
    }

    /// Whether it tells of these limits, whatever their figures.
    fn is_of(&self, told: &Told<'_>) -> bool {
        self.terms == told.terms
            && *self.source == *told.reported.shown_source()
            && self.id_length == told.request_id.len()
            // One second is told in other words than several.
            && (self.figures[SECS].value == 1) == (told.figures[SECS] == 1)
            && also_refused(told.report).eq(self.also_refused.iter().copied())
    }

    /// Writes over what has changed; `false` if it takes another number of digits.
    fn renew(&mut self, told: &Told<'_>) -> bool {
        let text = self.page.bytes_mut();
        for place in &self.ids {
            text[*place..][..self.id_length].copy_from_slice(told.request_id.as_bytes());
        }
        for (nth, (figure, value)) in self.figures.iter_mut().zip(&told.figures).enumerate() {
            if figure.value == *value {
                continue;
            }
            let mut digits = itoa::Buffer::new();
            let digits = digits.format(*value).as_bytes();
            if digits.len() != figure.digits {
                return false;
            }
            figure.value = *value;
            for place in &figure.places {
                text[*place..][..digits.len()].copy_from_slice(digits);
            }
            if nth == self.reported + RESET {
                let Some(moment) = moment::text(*value) else { return false };
                text[self.reset..][..moment.len()].copy_from_slice(&moment);
            }
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
