//! Limit headers as forms: maps that have all names and values already, to be copied.
//!
//! To set a header is to hash its name and to look for its place, and a limited response has eight at least. Which names it has depends only
//! on the windows that it tells of, and on which of them is the reported one's; what the limits are stays the same until the policy changes.
//! So each thread keeps a few maps that it has made, and a response gets a copy of one. Only what remains and until when is written
//! for it, on pages of which the values are slices, and not even that if the form says so already.

use std::cell::Cell;
use std::ops::Range;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;
use tollgate_core::PolicyName;

use crate::lasting::lasting;
use crate::limit_headers::{LimitHeaders, ROOM};
use crate::line::Line;
use crate::names::{self, suffixed};
use crate::page::Page;
use crate::report::{LARGEST, Report, ceil_secs};

/// Forms that a thread keeps. Which of them a response's is depends on its limits; one that is there already makes way.
const KEPT: usize = 16;

/// Room for the values of a chain with three windows.
const USUAL_BYTES: usize = 128;

thread_local! {
    static FORMS: [Cell<Option<Box<Form>>>; KEPT] = const { [const { Cell::new(None) }; KEPT] };
}

/// What of a limit is told to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) name: PolicyName,
    pub(crate) limit: u64,
    pub(crate) seconds: Option<u64>,
    pub(crate) is_reported: bool,
}

/// What of it only this response tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Figures {
    remaining: u64,
    /// Seconds until it is full again or its window ends.
    left: u64,
    /// When that is, in seconds since the epoch.
    reset_at: u64,
}

/// One window's limit.
type Told = (Terms, Figures);

/// What stands under a name, by the place of its limit among those that are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Limit(usize),
    Remaining(usize),
    Reset(usize),
    Policy,
    Standing,
    /// Whatever the service says there.
    Services,
}

type Place = Range<usize>;

/// A map with all names and what their values are, in the order in which it is walked.
#[derive(Debug, Default)]
struct Form {
    map: HeaderMap,
    values: Box<[Value]>,
    told: SmallVec<[Told; 3]>,
    /// Whether what is told of the limits themselves was made to last, as far as it can be.
    is_lasting: bool,
}

/// The limit headers of a report.
pub(crate) fn headers(report: &Report<'_>) -> LimitHeaders {
    let Some(reported) = report.reported() else { return LimitHeaders::default() };
    if let [only] = report.lines() {
        return copy(&[of_line(report, only, true)]);
    }
    let shown = report.shown();
    let told = shown.iter().flatten();
    let told: SmallVec<[Told; 3]> =
        told.map(|line| of_line(report, line, std::ptr::eq(*line, reported))).collect();
    copy(&told)
}

/// A copy of the form that tells this.
fn copy(told: &[Told]) -> LimitHeaders {
    let copy = |kept: &Cell<Option<Box<Form>>>| {
        let mut form = kept.take().unwrap_or_default();
        form.tell(told);
        let copy = form.map.clone();
        kept.set(Some(form));
        copy
    };
    let copied = FORMS.try_with(|forms| copy(&forms[shelf(told)]));
    // A thread that ends has no forms any more.
    LimitHeaders::with_room(copied.unwrap_or_else(|_| copy(&Cell::new(None))))
}

#[inline]
fn of_line(report: &Report<'_>, line: &Line<'_>, is_reported: bool) -> Told {
    let standing = line.standing();
    let (name, seconds) = (line.name(), line.window_seconds());
    let figures = Figures {
        remaining: standing.remaining,
        left: ceil_secs(standing.reset_after),
        reset_at: report.reset_at(line),
    };
    (Terms { name, limit: standing.limit, seconds, is_reported }, figures)
}

/// Where a thread keeps the form of these limits.
#[inline]
fn shelf(told: &[Told]) -> usize {
    let one = |(terms, _): &Told| {
        let kind = (terms.name.span() as u64) << 1 | u64::from(terms.is_reported);
        terms.limit.rotate_left(8).wrapping_add(kind)
    };
    let all = told.iter().fold(0, |sum: u64, each| sum.rotate_left(11) ^ one(each));
    // The high bits of a product depend on all bits (Knuth, volume 3, 6.4).
    (all.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % KEPT
}

impl Form {
    /// With the names for these limits, and no values yet.
    fn new(told: &[Told]) -> Form {
        let [first, last] = &ROOM;
        let mut all: Vec<(&'static HeaderName, Value)> = vec![(first, Value::Services)];
        for (nth, (terms, _)) in told.iter().enumerate() {
            let names = suffixed(terms.name.span());
            for (plain, suffixed, value) in [
                (&names::X_RATELIMIT_LIMIT, &names.limit, Value::Limit(nth)),
                (&names::X_RATELIMIT_REMAINING, &names.remaining, Value::Remaining(nth)),
                (&names::X_RATELIMIT_RESET, &names.reset, Value::Reset(nth)),
            ] {
                all.extend(terms.is_reported.then_some((plain, value)));
                all.push((suffixed, value));
            }
        }
        all.push((&names::RATELIMIT_POLICY, Value::Policy));
        all.push((&names::RATELIMIT, Value::Standing));
        all.push((last, Value::Services));
        let mut map = HeaderMap::with_capacity(all.len());
        for (name, _) in &all {
            let _ = map.try_insert(*name, HeaderValue::from_static(""));
        }
        let value = |name: &HeaderName| all.iter().find(|(one, _)| *one == name);
        let values = map.keys().filter_map(value).map(|(_, value)| *value).collect();
        Form { map, values, told: SmallVec::new(), is_lasting: false }
    }

    /// Tells these limits, whatever it told before.
    #[inline]
    fn tell(&mut self, told: &[Told]) {
        let had = &self.told[..];
        let differ = |what: fn(&Told, &Told) -> bool| had.iter().zip(told).any(|(a, b)| what(a, b));
        if had.len() != told.len() || differ(|a, b| a.0 != b.0) {
            return self.tell_others(told);
        }
        if !self.is_lasting {
            self.make_last();
        }
        let had = &self.told[..];
        let differ = |what: fn(&Told, &Told) -> bool| had.iter().zip(told).any(|(a, b)| what(a, b));
        let is_moved = differ(|(_, a), (_, b)| a.reset_at != b.reset_at);
        if differ(|(_, a), (_, b)| (a.remaining, a.left) != (b.remaining, b.left)) {
            self.write_standing(told);
            self.told.copy_from_slice(told);
        }
        if is_moved {
            self.write_resets(told);
            self.told.copy_from_slice(told);
        }
    }

    /// The same for limits that are not this form's. Their names may be.
    #[cold]
    fn tell_others(&mut self, told: &[Told]) {
        let names = |(terms, _): &Told| (terms.name.span(), terms.is_reported);
        if !self.told.iter().map(names).eq(told.iter().map(names)) {
            *self = Form::new(told);
        }
        self.write_terms(told);
        self.write_standing(told);
        self.write_resets(told);
        self.told = told.into();
        self.is_lasting = false;
    }

    /// Makes the values last that every response of these limits has. Only once a form is used again: where more limits come by than
    /// there are forms, none stays for long.
    #[cold]
    fn make_last(&mut self) {
        for (value, which) in self.map.values_mut().zip(&self.values) {
            if let Value::Limit(_) | Value::Policy = which
                && let Some(same) = lasting(value)
            {
                *value = same;
            }
        }
        self.is_lasting = true;
    }

    fn write_terms(&mut self, told: &[Told]) {
        let mut page = Page::with_capacity(USUAL_BYTES);
        let mut limits: SmallVec<[Place; 3]> = SmallVec::new();
        for (terms, _) in told {
            begin(&mut page, terms);
            page.text(";q=");
            limits.push(page.figure(terms.limit.min(LARGEST)));
            if let Some(seconds) = terms.seconds {
                page.text(";w=");
                page.number(seconds.min(LARGEST));
            }
        }
        let policy = 0..page.end();
        for ((terms, _), place) in told.iter().zip(&mut limits) {
            whole(&mut page, terms.limit, place);
        }
        self.set(page, |value| match value {
            Value::Limit(nth) => limits.get(nth),
            Value::Policy => Some(&policy),
            _ => None,
        });
    }

    fn write_standing(&mut self, told: &[Told]) {
        let mut page = Page::with_capacity(USUAL_BYTES);
        let mut remaining: SmallVec<[Place; 3]> = SmallVec::new();
        for (terms, figures) in told {
            begin(&mut page, terms);
            page.text(";r=");
            remaining.push(page.figure(figures.remaining.min(LARGEST)));
            page.text(";t=");
            page.number(figures.left.min(LARGEST));
        }
        let standing = 0..page.end();
        for ((_, figures), place) in told.iter().zip(&mut remaining) {
            whole(&mut page, figures.remaining, place);
        }
        self.set(page, |value| match value {
            Value::Remaining(nth) => remaining.get(nth),
            Value::Standing => Some(&standing),
            _ => None,
        });
    }

    /// On a page of their own: they often stay the same for a second.
    fn write_resets(&mut self, told: &[Told]) {
        let mut page = Page::with_capacity(USUAL_BYTES);
        let places: SmallVec<[Place; 3]> =
            told.iter().map(|(_, figures)| page.figure(figures.reset_at)).collect();
        self.set(page, |value| match value {
            Value::Reset(nth) => places.get(nth),
            _ => None,
        });
    }

    /// Sets the values that have a place on this page.
    #[inline]
    fn set<'p>(&mut self, page: Page, place: impl Fn(Value) -> Option<&'p Place>) {
        let page = Bytes::from(page.finish());
        let mut last: Option<(&Place, &HeaderValue)> = None;
        for (value, which) in self.map.values_mut().zip(&self.values) {
            let Some(place) = place(*which) else { continue };
            // A figure stands under two names, one after the other.
            let written = match last {
                Some((at, same)) if at == place => Ok(same.clone()),
                _ => HeaderValue::from_maybe_shared(page.slice(place.clone())),
            };
            if let Ok(written) = written {
                *value = written;
                last = Some((place, value));
            }
        }
    }
}

/// Begins the next member of a list.
fn begin(page: &mut Page, terms: &Terms) {
    page.text(if page.end() == 0 { "\"" } else { ", \"" });
    page.name(terms.name);
    page.text("\"");
}

/// Writes a figure for which a structured field has no room.
#[inline]
fn whole(page: &mut Page, figure: u64, place: &mut Place) {
    if figure > LARGEST {
        *place = page.figure(figure);
    }
}
