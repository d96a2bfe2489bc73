//! What is counted on the way, without shared writes: every worker has cells of its own, which only it writes and
//! whoever scrapes adds up.

mod cells;
mod collect;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::PolicyName;
use tollgate_gate::Passage;

use crate::forward::ForwardCause;
use cells::{Cells, Refusals, Series};

/// The number of a plan's name among all that were ever in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tier(usize);

/// The number of a route's pattern among all that were ever in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint(usize);

/// What all workers counted. Labels are plans, route patterns and policy names, never a tenant's or a key's.
#[derive(Debug, Default)]
pub struct Metrics {
    tiers: Mutex<Vec<Box<str>>>,
    endpoints: Mutex<Vec<Box<str>>>,
    workers: Mutex<Vec<Arc<Cells>>>,
}

impl Metrics {
    pub(crate) fn tier(&self, name: &str) -> Tier {
        Tier(number(&mut self.tiers.lock(), name))
    }

    pub(crate) fn endpoint(&self, pattern: &str) -> Endpoint {
        Endpoint(number(&mut self.endpoints.lock(), pattern))
    }

    /// Cells for one more worker.
    pub(crate) fn worker(&self) -> WorkerMetrics {
        let cells = Arc::new(Cells::default());
        self.workers.lock().push(Arc::clone(&cells));
        WorkerMetrics {
            cells,
            series: RefCell::default(),
            refusals: RefCell::default(),
            turn: Cell::new(0),
        }
    }
}

fn number(names: &mut Vec<Box<str>>, name: &str) -> usize {
    names.iter().position(|known| **known == *name).unwrap_or_else(|| {
        names.push(name.into());
        names.len() - 1
    })
}

/// What one worker counts.
#[derive(Debug)]
pub(crate) struct WorkerMetrics {
    cells: Arc<Cells>,
    /// By tier and endpoint, made when first needed.
    series: RefCell<Vec<Vec<Option<Arc<Series>>>>>,
    refusals: RefCell<Vec<Arc<Refusals>>>,
    turn: Cell<u32>,
}

/// Of so many requests one is looked at more closely.
const SAMPLE_EVERY: u32 = 32;

impl WorkerMetrics {
    /// Whether this request is one to look at more closely.
    pub(crate) fn is_sampled(&self) -> bool {
        self.turn.set(self.turn.get().wrapping_add(1));
        self.turn.get().is_multiple_of(SAMPLE_EVERY)
    }

    /// A request was decided.
    pub(crate) fn decided(&self, of: (Tier, Endpoint), passage: &Passage<'_>) {
        match passage.refused_by() {
            None => {}
            Some(_) if passage.unavailable().is_some() => self.cells.uncountable.add(1),
            Some(by) => self.refused(of.0, passage.name(by)),
        }
        self.series(of, |series| {
            // Each series by its own turns, the first among them: by the worker's, some might never have one.
            let is_sampled = series.requests.get().is_multiple_of(u64::from(SAMPLE_EVERY));
            series.requests.add(1);
            if is_sampled && let Some(tightest) = passage.chain().tightest() {
                let standing = passage.chain().standing(tightest);
                let left = standing.remaining as f64 / standing.limit.max(1) as f64;
                series.usage.blend(1.0 - left.clamp(0.0, 1.0));
            }
        });
        if passage.observed().next().is_some() {
            self.cells.observed.add(1);
        }
    }

    /// A request is over, and keeps what it was charged.
    pub(crate) fn spent(&self, of: (Tier, Endpoint), tokens: u64) {
        self.series(of, |series| series.tokens.add(tokens));
    }

    fn series(&self, (tier, endpoint): (Tier, Endpoint), count: impl FnOnce(&Series)) {
        let mut all = self.series.borrow_mut();
        if all.len() <= tier.0 {
            all.resize_with(tier.0 + 1, Vec::new);
        }
        let of_tier = &mut all[tier.0];
        if of_tier.len() <= endpoint.0 {
            of_tier.resize_with(endpoint.0 + 1, || None);
        }
        let series = &mut of_tier[endpoint.0];
        count(series.get_or_insert_with(|| self.cells.add_series(tier.0, endpoint.0)));
    }

    fn refused(&self, tier: Tier, policy: PolicyName) {
        let mut all = self.refusals.borrow_mut();
        let known = all.iter().find(|one| one.tier == tier.0 && one.policy == policy);
        if let Some(known) = known {
            return known.count.add(1);
        }
        let new = self.cells.add_refusals(tier.0, policy);
        new.count.add(1);
        all.push(new);
    }

    /// How long a decision took.
    pub(crate) fn took(&self, time: Duration) {
        self.cells.decisions.observe(time);
    }

    /// Backpressure refused.
    pub(crate) fn overloaded(&self) {
        self.cells.overloaded.add(1);
    }

    /// A bad key was shown.
    pub(crate) fn unauthorized(&self) {
        self.cells.unauthorized.add(1);
    }

    /// An upstream began to answer after so long.
    pub(crate) fn answered(&self, time: Duration) {
        self.cells.upstream.observe(time);
    }

    /// An upstream did not answer.
    pub(crate) fn failed(&self, cause: ForwardCause) {
        self.cells.add_failure(cause);
    }
}
