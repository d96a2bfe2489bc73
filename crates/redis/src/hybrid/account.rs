//! A hybrid counter in use here, and what is known of it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tollgate_engine::{Identity, Limit, Rate, Rule, Time};

use crate::Figures;
use crate::ledger::Ledger;

/// A counter that has not been used for so many rounds rests: it is not asked for any more, for whoever wants a decision has it
/// asked for first.
pub(super) const RESTING: u32 = 4;

/// In `heard`: Redis may be there and take nothing. What is consumed meanwhile is as unknown to the others as in an outage.
const FAILED: u64 = 1 << 63;
/// In `heard`: not since this node has the counter.
const NEVER: u64 = u64::MAX;

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
    /// How often the breaker had opened when Redis last answered for it. After an outage that is too seldom, however often it
    /// is asked for: what the others have admitted meanwhile is unknown here, and they do not know what was admitted here.
    /// `NEVER` if it began in an outage; with `FAILED` if the last call failed.
    heard: AtomicU64,
    /// Where the book's figures are: requests compare theirs without a lock.
    figures_at: AtomicUsize,
    /// Whether somebody wants to know of it though it rests.
    pub(super) is_wanted: AtomicBool,
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
    /// When it was last settled.
    pub(super) settled: Instant,
    /// The limiter has begun another counter since then, which knows nothing of the one in Redis.
    pub(super) is_begun_anew: bool,
}

impl Account {
    pub(super) fn new(
        key: &str,
        (rule, identity): (&Arc<Rule>, Identity),
        figures: &Arc<Figures>,
        (settled, heard): (Instant, Option<u64>),
    ) -> Account {
        let (rule, figures) = (Arc::clone(rule), Arc::clone(figures));
        Account {
            key: key.to_owned(),
            identity,
            unwritten: AtomicU64::new(0),
            // Its first charge is told at once.
            idle: AtomicU32::new(RESTING),
            fresh_until: AtomicU64::new(0),
            heard: AtomicU64::new(heard.unwrap_or(NEVER)),
            figures_at: AtomicUsize::new(Arc::as_ptr(&figures) as usize),
            // Whoever is refused at once is to learn soon what the others did.
            is_wanted: AtomicBool::new(true),
            book: Mutex::new(Book {
                rule,
                figures,
                ledger: Ledger::begin(),
                due: None,
                settled,
                is_begun_anew: false,
            }),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Whether it is told under these figures.
    #[inline]
    pub(crate) fn has(&self, figures: &Arc<Figures>) -> bool {
        self.figures_at.load(Relaxed) == Arc::as_ptr(figures) as usize
    }

    /// Is told under other figures from now on. The limiter may have begun another counter for them: of that nothing is
    /// known yet.
    pub(super) fn adopt(&self, rule: &Arc<Rule>, figures: &Arc<Figures>) {
        let mut book = self.book.lock();
        if Arc::ptr_eq(&book.figures, figures) {
            return;
        }
        if !is_same_counter(book.figures.limit(), figures.limit()) {
            self.fresh_until.store(0, Relaxed);
            book.is_begun_anew = true;
        }
        (book.rule, book.figures) = (Arc::clone(rule), Arc::clone(figures));
        self.figures_at.store(Arc::as_ptr(figures) as usize, Relaxed);
    }

    /// Whether Redis has answered for it since the breaker opened for the last time, which it has so often.
    #[inline]
    pub(crate) fn is_heard(&self, opened: u64) -> bool {
        self.heard.load(Relaxed) == opened
    }

    /// Whether it could not be told since then, though Redis can be asked.
    pub(super) fn has_failed(&self, opened: u64) -> bool {
        self.heard.load(Relaxed) == opened | FAILED
    }

    /// Whether it was told the last time that this was tried, when the breaker had opened so often.
    pub(super) fn note_heard(&self, opened: u64, is_heard: bool) {
        self.heard.store(if is_heard { opened } else { opened | FAILED }, Relaxed);
    }

    /// Whether what is known of it is too old to decide by, where the breaker has opened so often.
    #[inline]
    pub(crate) fn is_stale(&self, now: Time, opened: u64) -> bool {
        now.as_nanos() > self.fresh_until.load(Relaxed) || !self.is_heard(opened)
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

    /// Whether Redis has acknowledged everything that was consumed.
    pub(super) fn is_all_told(&self) -> bool {
        let mut book = self.book.lock();
        self.write_down(&mut book);
        book.ledger.unsent() == 0
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

/// Whether a limiter goes on with one limit's counter under the other.
fn is_same_counter(one: &Limit, other: &Limit) -> bool {
    let window = |limit: &Limit| limit.rate().map(Rate::window);
    one.kind() == other.kind() && window(one) == window(other) && one.calendar() == other.calendar()
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("key", &self.key).finish_non_exhaustive()
    }
}
