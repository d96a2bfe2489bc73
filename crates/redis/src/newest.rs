//! Which algorithm a limit has by the newest policy. Whichever that is, its counters in Redis have the same names: so whoever has
//! something to tell of a counter has to know whether it is still that one.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tollgate_core::Kind;
use tollgate_policy::compile::PlacedLimit;

use crate::Figures;

/// What a limit counts by, of which a reload may make something else.
#[derive(Debug)]
pub(crate) struct Newest(Mutex<Kind>);

impl Newest {
    /// Whether it still counts as these figures do.
    pub(crate) fn is(&self, figures: &Figures) -> bool {
        *self.0.lock() == figures.limit().kind()
    }
}

/// All limits that anybody holds something of.
#[derive(Debug, Default)]
pub(crate) struct NewestOfAll(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by_name: HashMap<String, Weak<Newest>>,
    /// How many may be known before those that nobody holds are forgotten.
    room: usize,
}

impl NewestOfAll {
    /// Takes note of a limit of the newest policy.
    pub(crate) fn note(&self, limit: &PlacedLimit) -> Arc<Newest> {
        let (name, kind) =
            (format!("{}:{}", limit.counter(), limit.limit().span().name()), limit.limit().kind());
        let mut known = self.0.lock();
        if let Some(newest) = known.by_name.get(&name).and_then(Weak::upgrade) {
            *newest.0.lock() = kind;
            return newest;
        }
        if known.by_name.len() >= known.room {
            known.by_name.retain(|_, newest| newest.strong_count() > 0);
            known.room = 2 * known.by_name.len() + 16;
        }
        let newest = Arc::new(Newest(Mutex::new(kind)));
        known.by_name.insert(name, Arc::downgrade(&newest));
        newest
    }
}
