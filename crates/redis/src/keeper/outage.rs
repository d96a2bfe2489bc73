//! What a counter has to do with outages: what was known when one began, and what nobody could be told of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::Time;
use tollgate_engine::{Clock, Identity, Limiter, Rule};

use crate::Figures;
use crate::owed::InView;

/// Two that are told when a counter is renewed are told the same within it.
const A_MOMENT: Duration = Duration::from_secs(1);

/// What one counter has to do with outages.
#[derive(Debug)]
pub(super) struct Outage {
    pub(super) common: Arc<Common>,
    pub(super) untold: Mutex<Untold>,
}

/// What all have in common who count one counter here: of a quota there may be several, one a limit, and a share is one.
#[derive(Debug, Default)]
pub(super) struct Common {
    /// What Redis last said was left, until an outage begins with it or it is renewed.
    pub(super) known: Mutex<Option<Known>>,
    /// Of how many of them somebody has to be told: while of any, it is one outage.
    pub(super) listed: AtomicU64,
}

impl Common {
    /// Whether nothing has to be told of any of them.
    pub(super) fn is_settled(&self) -> bool {
        self.listed.load(Relaxed) == 0
    }
}

/// What Redis said was left, and when all of it is renewed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) remaining: u64,
    /// The same of what counts what is used: a quota may be asked for under several limits.
    pub(super) used: u64,
    pub(super) renewed: Time,
}

/// What nobody could be told.
#[derive(Debug, Default)]
pub(super) struct Untold {
    /// What was admitted.
    pub(super) admitted: u64,
    /// The share it was decided by.
    pub(super) share: Option<Arc<Rule>>,
    /// Whether somebody will be told. From then until it is done it is one outage, however often Redis comes and goes.
    pub(super) is_listed: bool,
}

/// What is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Debt {
    /// What was admitted since this was last asked.
    pub(super) admitted: u64,
    /// What time has not paid off of all that was admitted.
    pub(super) unpaid: u64,
    /// In which windows it counts.
    pub(super) in_view: InView,
}

impl Outage {
    pub(super) fn new() -> Outage {
        Outage::of(Arc::default())
    }

    pub(super) fn of(common: Arc<Common>) -> Outage {
        Outage { common, untold: Mutex::default() }
    }

    /// Redis says that so much of so many is left until then.
    pub(super) fn note(&self, (remaining, limit): (u64, u64), renewed: Time) {
        let mut known = self.common.known.lock();
        let used = limit.saturating_sub(remaining);
        // Where nothing is left, more may be used under a higher limit than this one tells.
        let at_least = known.filter(|known| remaining == 0 && renewed < known.renewed + A_MOMENT);
        let used = used.max(at_least.map_or(0, |known| known.used));
        *known = Some(Known { remaining, used, renewed });
    }

    /// Whether nothing has to be told of it.
    pub(super) fn is_settled(&self) -> bool {
        !self.untold.lock().is_listed
    }

    /// Whether something was admitted that nobody was told of, listed or not.
    pub(super) fn owes(&self) -> bool {
        let untold = self.untold.lock();
        untold.is_listed || untold.admitted > 0
    }

    /// Takes out what was admitted and is to be told now.
    pub(super) fn take_debt<C: Clock>(
        &self,
        limiter: &Limiter<C>,
        identity: Identity,
        figures: &Figures,
    ) -> Debt {
        let mut untold = self.untold.lock();
        // Before the share is looked at: what that says of a window which has just begun is not the one's before.
        let in_view = InView::of(figures, limiter.clock().now());
        let admitted = std::mem::take(&mut untold.admitted);
        let unpaid = untold.share.as_ref().map_or(0, |share| {
            let standing = limiter.peek(share, identity);
            standing.limit.saturating_sub(standing.remaining)
        });
        Debt { admitted, unpaid, in_view }
    }

    /// What was taken out has been told. `false` if more was admitted meanwhile.
    pub(super) fn settle(&self) -> bool {
        let mut untold = self.untold.lock();
        let is_settled = untold.admitted == 0;
        if is_settled && std::mem::take(&mut untold.is_listed) {
            self.common.listed.fetch_sub(1, Relaxed);
        }
        is_settled
    }
}
