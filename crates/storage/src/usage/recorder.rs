//! Counts what a worker sees, to be added to what is stored a few times a second.

use hashbrown::{Equivalent, HashMap};
use tollgate_core::Time;

use super::Day;
use crate::{Store, StoreError};

/// A worker's own counts since it last handed them over. Nothing is shared between workers, so counting waits for nobody.
///
/// ```
/// use tollgate_core::Time;
/// use tollgate_storage::{Caller, UsageRecorder, Use};
///
/// let mut recorder = UsageRecorder::new();
/// let caller = Caller { tenant: "acme", key: "key_1", route: "GET /v1/*", plan: "pro" };
/// recorder.count(caller, Use { refused: false, tokens: 10 }, Time::from_secs(1_800_000_000));
/// assert_eq!(recorder.drain().len(), 1);
/// assert!(recorder.is_empty());
/// ```
#[derive(Debug, Default)]
pub struct UsageRecorder {
    counts: HashMap<Subject, Totals>,
    lost: u64,
}

/// Who asked, for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// The key's id; empty without one.
    pub key: &'a str,
    /// The route's pattern.
    pub route: &'a str,
    /// The plan; empty without one.
    pub plan: &'a str,
}

/// What a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Whether it was refused.
    pub refused: bool,
    /// Tokens it consumed.
    pub tokens: u64,
}

/// What is counted apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Subject {
    pub(crate) day: u32,
    pub(crate) tenant: Box<str>,
    pub(crate) key: Box<str>,
    pub(crate) route: Box<str>,
    pub(crate) plan: Box<str>,
}

/// The same, borrowed. Field by field it hashes as a [`Subject`] does.
#[derive(Hash)]
struct SubjectRef<'a> {
    day: u32,
    tenant: &'a str,
    key: &'a str,
    route: &'a str,
    plan: &'a str,
}

impl Equivalent<Subject> for SubjectRef<'_> {
    fn equivalent(&self, subject: &Subject) -> bool {
        self.day == subject.day
            && self.key == &*subject.key
            && self.route == &*subject.route
            && self.plan == &*subject.plan
            && self.tenant == &*subject.tenant
    }
}

impl From<&SubjectRef<'_>> for Subject {
    fn from(one: &SubjectRef<'_>) -> Subject {
        Subject {
            day: one.day,
            tenant: one.tenant.into(),
            key: one.key.into(),
            route: one.route.into(),
            plan: one.plan.into(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) requests: u64,
    pub(crate) refusals: u64,
    pub(crate) tokens: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, more: Totals) {
        self.requests = self.requests.saturating_add(more.requests);
        self.refusals = self.refusals.saturating_add(more.refusals);
        self.tokens = self.tokens.saturating_add(more.tokens);
    }
}

/// Counts on their way to the store.
#[derive(Clone, Debug, Default)]
pub struct UsageBatch(pub(crate) Vec<(Subject, Totals)>);

impl UsageBatch {
    /// How many different things were counted.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl UsageRecorder {
    /// The most different things that one worker counts between two handovers, also while the store does not work.
    pub const MOST: usize = 200_000;

    /// Nothing counted yet.
    pub fn new() -> UsageRecorder {
        UsageRecorder::default()
    }

    /// Counts a request.
    pub fn count(&mut self, caller: Caller<'_>, what: Use, now: Time) {
        let totals = Totals { requests: 1, refusals: u64::from(what.refused), tokens: what.tokens };
        let Caller { tenant, key, route, plan } = caller;
        let subject = SubjectRef { day: Day::of(now).number(), tenant, key, route, plan };
        self.add(&subject, totals);
    }

    fn add(&mut self, subject: &SubjectRef<'_>, totals: Totals) {
        if let Some(counted) = self.counts.get_mut(subject) {
            counted.add(totals);
        } else if self.counts.len() < UsageRecorder::MOST {
            self.counts.insert(Subject::from(subject), totals);
        } else {
            self.lost = self.lost.saturating_add(totals.requests);
        }
    }

    /// Whether nothing waits to be handed over.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Requests that were not counted, because the store did not work and [`MOST`](UsageRecorder::MOST) things were waiting.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Takes out all that was counted.
    pub fn drain(&mut self) -> UsageBatch {
        UsageBatch(self.counts.drain().collect())
    }

    /// Counts a batch again that the store did not take.
    pub fn restore(&mut self, batch: UsageBatch) {
        for (subject, totals) in batch.0 {
            let Subject { day, tenant, key, route, plan } = &subject;
            let one = SubjectRef { day: *day, tenant, key, route, plan };
            self.add(&one, totals);
        }
    }

    /// Hands over all that was counted, and counts it again if the store does not take it. A future that is dropped before
    /// its end loses what it was handing over.
    ///
    /// # Errors
    ///
    /// If the store does not work.
    pub async fn flush(&mut self, store: &Store) -> Result<(), StoreError> {
        if self.is_empty() {
            return Ok(());
        }
        let batch = self.drain();
        let added = store.add_usage(batch.clone()).await;
        if added.is_err() {
            self.restore(batch);
        }
        added
    }
}
