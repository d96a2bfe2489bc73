//! The room where requests wait: in order of priority, then of arrival.
//!
//! Those that are set aside wait for what concerns nobody else, so they have an order of their own and nobody waits behind them. Those that
//! are free have a place like any other, and go as soon as they may, whoever is before them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::Notify;

use crate::Priority;
use crate::pace::Load;

/// Where in the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) is_aside: bool,
    priority: Reverse<Priority>,
    arrival: u64,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) load: Load,
    pub(crate) is_free: bool,
    pub(crate) woken: Arc<Notify>,
}

#[derive(Debug, Default)]
pub(crate) struct Room {
    places: BTreeMap<Place, Waiting>,
    /// Those of them that are free. All wait equally long, so the first stands for all.
    free: BTreeSet<Place>,
    /// What all cost together that are not set aside, by priority.
    load: [Load; 3],
    arrivals: u64,
}

impl Room {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    fn first(&self, is_aside: bool) -> Option<(&Place, &Waiting)> {
        let first = Place { is_aside, priority: Reverse(Priority::High), arrival: 0 };
        self.places.range(first..).next().filter(|(place, _)| place.is_aside == is_aside)
    }

    /// Whether nobody waits whom one more would wait behind.
    pub(crate) fn is_empty_for(&self, is_aside: bool) -> bool {
        self.first(is_aside).is_none()
    }

    pub(crate) fn is_first(&self, place: Place) -> bool {
        self.first(place.is_aside).is_some_and(|(first, _)| *first == place)
    }

    pub(crate) fn wake_first(&self) {
        let of_each_order = [false, true].into_iter().filter_map(|is_aside| self.first(is_aside));
        let free = self.free.first().and_then(|place| self.places.get(place));
        for waiting in of_each_order.map(|(_, waiting)| waiting).chain(free) {
            waiting.woken.notify_one();
        }
    }

    pub(crate) fn enter(&mut self, priority: Priority, is_aside: bool, waiting: Waiting) -> Place {
        self.arrivals += 1;
        let place = Place { is_aside, priority: Reverse(priority), arrival: self.arrivals };
        self.put(place, waiting);
        place
    }

    fn put(&mut self, place: Place, waiting: Waiting) {
        if !place.is_aside {
            let sum = &mut self.load[place.priority.0 as usize];
            *sum = sum.plus(waiting.load);
        }
        if waiting.is_free {
            self.free.insert(place);
        }
        self.places.insert(place, waiting);
    }

    pub(crate) fn leave(&mut self, place: Place) -> Option<Waiting> {
        let waiting = self.places.remove(&place)?;
        self.free.remove(&place);
        if !place.is_aside {
            let sum = &mut self.load[place.priority.0 as usize];
            *sum = sum.minus(waiting.load);
        }
        Some(waiting)
    }

    /// What it waits for has turned out to be its own affair, or everybody's.
    pub(crate) fn change(&mut self, place: Place, is_aside: bool, load: Load) -> Place {
        let changed = Place { is_aside, ..place };
        if let Some(waiting) = self.leave(place) {
            self.put(changed, Waiting { load, ..waiting });
        }
        self.wake_first();
        changed
    }

    /// What goes before this place.
    pub(crate) fn load_before(&self, place: Place) -> Load {
        let before = self.places.range(..place).filter(|(before, _)| !before.is_aside);
        match place.is_aside {
            true => Load::default(),
            false => before.fold(Load::default(), |all, (_, waiting)| all.plus(waiting.load)),
        }
    }

    /// What goes before a newcomer of this priority.
    pub(crate) fn load_ahead(&self, priority: Priority, is_aside: bool) -> Load {
        let ahead = if is_aside { &[] } else { &self.load[priority as usize..] };
        ahead.iter().fold(Load::default(), |all, load| all.plus(*load))
    }
}
