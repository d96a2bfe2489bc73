//! The limit headers of a response that is there later.

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::head_lines::set;
use crate::names;

/// Names that nearly every response has. A form has them too: so its copies have room for them, and need not grow. The first name of
/// a form is the first of these, and its last the other one: that is taken out at the least cost, and whoever serves often adds it
/// only after all layers.
pub(crate) static ROOM: [HeaderName; 2] = [CONTENT_TYPE, CONTENT_LENGTH];

/// Limit headers as of a decision, for a response that is there later.
#[derive(Debug, Default)]
pub struct LimitHeaders {
    /// With values for what the service says under the names of [`ROOM`], which are none; or nothing at all.
    map: HeaderMap,
}

impl LimitHeaders {
    pub(crate) fn with_room(map: HeaderMap) -> LimitHeaders {
        LimitHeaders { map }
    }

    /// Puts them into a response's headers, in place of all that these say of limits: only one of both can speak for them.
    #[inline]
    pub fn put(self, headers: &mut HeaderMap) {
        names::strip_limits(headers);
        if self.map.is_empty() {
            return;
        }
        // The fewer are moved to the more: a service has often but one or two.
        if headers.len() > self.map.len() {
            self.put_each(headers);
        } else {
            let services = std::mem::replace(headers, self.map);
            put_services(headers, services);
        }
    }

    fn put_each(self, headers: &mut HeaderMap) {
        for (name, value) in self.map.into_iter().filter_map(|(name, value)| Some((name?, value))) {
            if !ROOM.contains(&name) {
                set(headers, name, value);
            }
        }
    }
}

/// Puts what a service says, which is nothing of limits, into a map with room for it.
#[inline]
fn put_services(all: &mut HeaderMap, mut services: HeaderMap) {
    // What handlers of frameworks mostly say: its place is known.
    if services.len() == 1
        && let Some((name, value)) = services.iter_mut().next()
        && *name == CONTENT_TYPE
        && let Some(room) = all.values_mut().next()
    {
        std::mem::swap(room, value);
        all.remove(&ROOM[1]);
        return;
    }
    put_each_of_services(all, services);
}

fn put_each_of_services(all: &mut HeaderMap, mut services: HeaderMap) {
    let mut is_used = [false; ROOM.len()];
    let mut last: Option<&HeaderName> = None;
    for (name, value) in &mut services {
        let value = std::mem::replace(value, HeaderValue::from_static(""));
        // The values of a name come one after the other.
        if last.is_some_and(|last| std::ptr::eq(last, name)) {
            let _ = all.try_append(name, value);
            continue;
        }
        for (is_used, room) in is_used.iter_mut().zip(&ROOM) {
            *is_used |= name == room;
        }
        set(all, name, value);
        last = Some(name);
    }
    for (_, room) in is_used.iter().zip(&ROOM).filter(|(is_used, _)| !**is_used) {
        all.remove(room);
    }
}
