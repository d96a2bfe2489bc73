//! Limit headers as forms: maps that have all names already, to be copied and filled in.
//!
//! To set a header is to hash its name and to look for its place, and a limited response has eight at least. Which names it has
//! depends only on the windows that it tells of, and on which of them is the reported one's. So such a map is made once for each
//! of these cases; a copy of it lacks nothing but values. And these are slices of one page, on which a figure that several
//! headers show stands once.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;
use tollgate_core::Span;

use crate::line::Line;
use crate::page::Page;
use crate::report::{LARGEST, Report, ceil_secs};

const SPANS: usize = Span::ALL.len();

/// Room for the values of a chain with three windows.
const USUAL_BYTES: usize = 256;

type Place = Range<usize>;

/// A map with all names, and which value belongs to each, in the order in which a copy of it is walked.
#[derive(Debug)]
struct Form {
    map: HeaderMap,
    order: Box<[usize]>,
}

/// By the windows that are shown, a bit each, and the reported one's.
static FORMS: [OnceLock<Form>; SPANS << SPANS] = [const { OnceLock::new() }; SPANS << SPANS];

impl Form {
    fn with(names: &[&'static HeaderName]) -> Form {
        let mut map = HeaderMap::with_capacity(names.len());
        for name in names {
            let _ = map.try_insert(*name, HeaderValue::from_static(""));
        }
        let number = |name: &HeaderName| names.iter().position(|one| *one == name);
        Form { order: map.keys().filter_map(number).collect(), map }
    }

    /// A copy in which each name has its part of the page, by the name's number.
    fn filled(&self, page: &Bytes, places: &[Place]) -> HeaderMap {
        let mut map = self.map.clone();
        let mut last: Option<(&Place, HeaderValue)> = None;
        for (empty, number) in map.values_mut().zip(&self.order) {
            let Some(place) = places.get(*number) else { continue };
            let known = last.take().filter(|(at, _)| *at == place).map(|(_, value)| value);
            let made = || HeaderValue::from_maybe_shared(page.slice(place.clone())).ok();
            if let Some(value) = known.or_else(made) {
                *empty = value.clone();
                last = Some((place, value));
            }
        }
        map
    }
}

/// The limit headers of a report that shows these windows' limits. `names` are theirs, in the order in which they are set one by one.
pub(crate) fn headers(
    report: &Report<'_>,
    shown: &[Option<&Line<'_>>; SPANS],
    names: impl FnOnce() -> Vec<&'static HeaderName>,
) -> HeaderMap {
    let Some(reported) = report.reported() else { return HeaderMap::new() };
    let mut page = Page::with_capacity(USUAL_BYTES);
    let mut windows = 0;
    let mut figures: SmallVec<[[Place; 2]; 3]> = SmallVec::new();
    for line in shown.iter().flatten() {
        windows |= 1usize << line.name().span() as usize;
        next(&mut page, 0, line);
        page.text(";q=");
        figures.push([number(&mut page, line.standing().limit.min(LARGEST)), 0..0]);
        if let Some(seconds) = line.window_seconds() {
            page.text(";w=");
            page.number(seconds.min(LARGEST));
        }
    }
    let standing = page.end();
    for (line, [_, remaining]) in shown.iter().flatten().zip(&mut figures) {
        next(&mut page, standing, line);
        page.text(";r=");
        *remaining = number(&mut page, line.standing().remaining.min(LARGEST));
        page.text(";t=");
        page.number(ceil_secs(line.standing().reset_after).min(LARGEST));
    }
    let end = page.end();
    let mut places: SmallVec<[Place; 14]> = SmallVec::new();
    for (line, [limit, remaining]) in shown.iter().flatten().zip(figures) {
        let mut whole = |figure: u64, place: Place| {
            // A structured field has no room for the largest.
            let place = if figure > LARGEST { number(&mut page, figure) } else { place };
            if std::ptr::eq(*line, reported) {
                places.push(place.clone());
            }
            places.push(place);
        };
        whole(line.standing().limit, limit);
        whole(line.standing().remaining, remaining);
        let reset = number(&mut page, report.reset_at(line));
        if std::ptr::eq(*line, reported) {
            places.push(reset.clone());
        }
        places.push(reset);
    }
    places.extend([0..standing, standing..end]);
    let form = &FORMS[windows * SPANS + reported.name().span() as usize];
    let form = form.get_or_init(|| Form::with(&names()));
    form.filled(&Bytes::from(page.finish()), &places)
}

/// Begins the next member of a list that began at `start`.
fn next(page: &mut Page, start: usize, line: &Line<'_>) {
    page.text(if page.end() == start { "\"" } else { ", \"" });
    page.name(line.name());
    page.text("\"");
}

fn number(page: &mut Page, number: u64) -> Place {
    let start = page.end();
    page.number(number);
    start..page.end()
}
