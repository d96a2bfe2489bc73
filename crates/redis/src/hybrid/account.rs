//! A hybrid counter in use here, and what is known of it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tollgate_engine::{Identity, Rule, Time};

use crate::Figures;
use crate::ledger::Ledger;

/// A counter that has not been used for so many rounds is asked about ever more seldom, and then no more.
pub(super) const RESTING: u32 = 4;
pub(super) const FORGOTTEN: u32 = 64;

/// A counter in use here.
pub(crate) struct Account {
    pub(super) key: String,
    pub(super) identity: Identity,
    /// Consumed since the ledger was last written: all that a request touches.
    pub(super) unwritten: AtomicU64,
    /// Rounds in which nothing was consumed here.
    pub(super) idle: AtomicU32,
    /// Until when what is known of it is recent enough to decide by, in the limiter's nanoseconds: for ever while it is asked
    /// for every τ. Of a new one nothing is known.
    pub(super) fresh_until: AtomicU64,
    /// Whether it could not be told when that was last tried. Redis may be there and take nothing: what is consumed meanwhile
    /// is as unknown to the others as in an outage.
    pub(super) is_unheard: AtomicBool,
    pub(super) book: Mutex<Book>,
    /// One tells at a time, so that answers are entered in the order of what was told.
    pub(super) turn: tokio::sync::Mutex<()>,
}

/// What is known of a counter, for whoever shares it.
pub(super) struct Book {
    pub(super) rule: Arc<Rule>,
    pub(super) figures: Arc<Figures>,
    pub(super) ledger: Ledger,
    /// When it is told next, if that is on the agenda.
    pub(super) due: Option<Instant>,
    /// When it was last settled, and how often the breaker had opened by then.
    pub(super) settled: (Instant, u64),
}

impl Account {
    pub(super) fn new(
        key: &str,
        (rule, identity): (&Arc<Rule>, Identity),
        figures: &Arc<Figures>,
        settled: (Instant, u64),
    ) -> Account {
        let (rule, figures) = (Arc::clone(rule), Arc::clone(figures));
        Account {
            key: key.to_owned(),
            identity,
            unwritten: AtomicU64::new(0),
            // Its first charge is told at once.
            idle: AtomicU32::new(RESTING),
            fresh_until: AtomicU64::new(0),
            is_unheard: AtomicBool::new(false),
            book: Mutex::new(Book { rule, figures, ledger: Ledger::begin(), due: None, settled }),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Whether the others cannot be told of it at present, though Redis can be asked.
    #[inline]
    pub(crate) fn is_unheard(&self) -> bool {
        self.is_unheard.load(Relaxed)
    }

    /// Whether what is known of it is too old to decide by.
    #[inline]
    pub(crate) fn is_stale(&self, now: Time) -> bool {
        now.as_nanos() > self.fresh_until.load(Relaxed)
    }

    /// Says how long what was asked for then may be decided by.
    pub(super) fn refreshed(&self, asked: Time, interval: Duration) {
        let is_resting = self.idle.load(Relaxed) >= RESTING;
        let until = asked.as_nanos().saturating_add(interval.as_nanos() as u64);
        self.fresh_until.store(if is_resting { until } else { u64::MAX }, Relaxed);
    }

    /// Writes down what was consumed meanwhile.
    pub(super) fn write_down(&self, book: &mut Book) {
        book.ledger.consume(self.unwritten.swap(0, Relaxed));
    }

    pub(super) fn unconsume(&self, cost: u64) {
        let taken = self
            .unwritten
            .fetch_update(Relaxed, Relaxed, |unwritten| Some(unwritten.saturating_sub(cost)));
        let rest = cost.saturating_sub(taken.unwrap_or(0));
        if rest > 0 {
            self.book.lock().ledger.unconsume(rest);
        }
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("key", &self.key).finish_non_exhaustive()
    }
}
