//! What a server says about its limits.
//!
//! Servers agree on little: who counts in what, whether a reset is a moment or a delay, under which names. So
//! reading is tolerant and plain: every limit that is spoken of becomes a [`Seen`] with what was understood of
//! it, and what was not understood is absent. Values that no server can mean are left out or brought to
//! the nearest that it can; nothing is an error, and nothing panics.

mod dialects;
mod ietf;
mod retry;
mod value;

use std::time::Duration;

use http::HeaderMap;
use http::header::{DATE, HeaderName};
use tollgate_core::Time;

use value::http_date;

/// What one response says about limits.
///
/// ```
/// use std::time::Duration;
/// use http::HeaderMap;
/// use tollgate_core::Time;
/// use tollgate_wire::read::read;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("ratelimit-policy", r#""user-second";q=100;w=10"#.parse().unwrap());
/// headers.insert("ratelimit", r#""user-second";r=47;t=6"#.parse().unwrap());
/// let said = read(&headers, Time::from_secs(1_800_000_000));
/// assert_eq!(said.limits[0].remaining, Some(47));
/// assert_eq!(said.limits[0].window, Some(Duration::from_secs(10)));
/// assert_eq!(said.retry_after, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Each limit it speaks of.
    pub limits: Vec<Seen>,
    /// How long to stay away, from the finest of the fields that say so.
    pub retry_after: Option<Duration>,
    /// Whether the server wants to be asked again at all, where it says so.
    pub should_retry: Option<bool>,
}

/// One limit as a server shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// What tells it from the others of the same response; empty where there is but one.
    pub name: String,
    /// How much it admits at once, or in a window.
    pub limit: Option<u64>,
    /// How much is left of it.
    pub remaining: Option<u64>,
    /// How long until it is full again, or its window ends.
    pub reset_after: Option<Duration>,
    /// The window in which it admits [`limit`](Seen::limit).
    pub window: Option<Duration>,
    /// The server says that it is this that the request was charged to: so it was charged to no other that it names in this way.
    pub is_resource: bool,
}

impl Seen {
    fn says_nothing(&self) -> bool {
        self.limit.is_none() && self.remaining.is_none() && self.reset_after.is_none()
    }

    fn has_less_left_than(&self, other: &Seen) -> bool {
        match (self.remaining, other.remaining) {
            (Some(mine), Some(others)) => mine < others,
            (mine, _) => mine.is_some(),
        }
    }

    fn fill_from(&mut self, other: &Seen) {
        self.limit = self.limit.or(other.limit);
        self.remaining = self.remaining.or(other.remaining);
        self.reset_after = self.reset_after.or(other.reset_after);
        self.window = self.window.or(other.window);
        self.is_resource |= other.is_resource;
    }
}

/// No limit resets later than this: a year's quota, with some to spare. What says otherwise is not believed.
pub const LONGEST: Duration = Duration::from_secs(400 * 86_400);

/// How many limits of one response are looked at.
const MOST_LIMITS: usize = 16;

/// Longer fields are not looked at.
const MOST_BYTES: usize = 8_192;

/// Longer names are cut.
const MOST_NAME: usize = 64;

/// How far a server's clock may be from ours before its own `Date` is what its moments are compared with. That
/// has only whole seconds, so ours is better while both agree.
const CLOCKS_AGREE: Duration = Duration::from_secs(3);

/// Reads a response's headers, or a gRPC call's trailers, as they came in at `now`.
///
/// The IETF's structured fields are preferred: where they say anything, the older names only repeat it.
pub fn read(headers: &HeaderMap, now: Time) -> Said {
    let now = server_time(headers, now);
    let mut limits = ietf::read(headers);
    if limits.is_empty() {
        limits = dialects::read(headers, now);
    }
    limits.retain(|seen| !seen.says_nothing());
    let limits = one_of_each_name(limits);
    let (retry_after, should_retry) = (retry::after(headers, now), retry::wanted(headers));
    Said { limits, retry_after, should_retry }
}

/// Some servers tell of a limit twice, under old names and new ones. Where both do not agree the one with less left counts.
fn one_of_each_name(all: Vec<Seen>) -> Vec<Seen> {
    let mut limits: Vec<Seen> = Vec::with_capacity(all.len());
    for seen in all {
        match limits.iter_mut().find(|known| known.name == seen.name) {
            Some(known) if seen.has_less_left_than(known) => {
                let other = std::mem::replace(known, seen);
                known.fill_from(&other);
            }
            Some(known) => known.fill_from(&seen),
            None => limits.push(seen),
        }
    }
    limits
}

/// What the server takes for the present.
fn server_time(headers: &HeaderMap, now: Time) -> Time {
    let date = headers.get(DATE).and_then(|date| http_date(date.to_str().ok()?));
    match date {
        Some(theirs) if theirs - now > CLOCKS_AGREE || now - theirs > CLOCKS_AGREE => theirs,
        _ => now,
    }
}

/// All lines of a field as one text; `None` where it is absent, not text or too long.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut lines = headers.get_all(name).into_iter();
    let mut text = lines.next()?.to_str().ok()?.to_owned();
    for line in lines {
        text.push_str(", ");
        text.push_str(line.to_str().ok()?);
        if text.len() > MOST_BYTES {
            return None;
        }
    }
    (text.len() <= MOST_BYTES).then_some(text)
}

fn short(name: &str) -> String {
    name.chars().take(MOST_NAME).collect()
}
