//! Counters that are kept elsewhere than in this process's limiter: in a database, or in Redis.
//!
//! Where a limit's counters are kept is asked once, when its policy is put into force. What a request then needs of such a
//! counter is a handle, found by the hash that the chain already has; its name is made only when it is not known yet.

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use tollgate_engine::{Decision, Identity, Rule, Strategy, Time};
use tollgate_policy::compile::PlacedLimit;

/// Somewhere else to keep counters.
pub trait Elsewhere: fmt::Debug + Send + Sync {
    /// Who keeps the counters of a limit; `None` leaves them to the limiter. Asked once for every limit of a policy that is
    /// put into force, and for every limit that a key has for itself; `rule` is what the limiter has of it.
    fn keeper(&self, limit: &PlacedLimit, rule: &Arc<Rule>) -> Option<Arc<dyn Keeper>>;

    /// At most about so many counters may be in use at once from now on. Where more are, no further ones come to be until there is
    /// room.
    fn set_max_keys(&self, max_keys: usize) {
        let _ = max_keys;
    }
}

/// How the counters of a limit are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// By the limiter, together with those that are kept there; the keeper is [told](Keeper::told) afterwards.
    Told,
    /// By the keeper, one by one, mostly without waiting.
    Alone,
    /// By the keeper, all of a chain at once, which always waits.
    Together,
}

/// Keeps the counters of one limit.
///
/// A keeper decides itself what becomes of a request while it cannot count: it answers
/// [`Uncounted`](Answered::Uncounted) or [`Unavailable`](Answered::Unavailable).
pub trait Keeper: Any + fmt::Debug + Send + Sync {
    /// How it decides. Always the same.
    fn manner(&self) -> Manner;

    /// The counter of somebody.
    ///
    /// # Errors
    ///
    /// What becomes of the request if the counter cannot be held, because too many are.
    fn counter(&self, whose: &Whose<'_>) -> Result<Counter, Answered>;

    /// What is known here of a charge that is not made: what it would be answered. It must not wait. Asked of those that
    /// decide [`Alone`](Manner::Alone).
    fn foresee(&self, _: &Asked<'_>) -> Option<Decision> {
        None
    }

    /// The same for a request that is refused already, where knowing costs something that one which passes need not pay.
    fn know(&self, asked: &Asked<'_>) -> Option<Decision> {
        self.foresee(asked)
    }

    /// Whether too little is known here to decide by, and it is worth waiting for more. Asked of those that are
    /// [`Told`](Manner::Told).
    fn is_stale(&self, _: &Asked<'_>) -> bool {
        false
    }

    /// Waits until enough is known to decide by, or nobody can be asked. Nothing is charged.
    fn refresh<'a>(&'a self, asked: Asked<'a>) -> Waiting<'a, ()> {
        let _ = asked;
        Box::pin(std::future::ready(()))
    }

    /// Makes a charge if it can be decided without waiting; else `None`, and nothing is charged. A keeper that is
    /// [`Told`](Manner::Told) answers only while nobody else can be told, and then decides besides the limiter, which has charged
    /// it already.
    fn try_charge(&self, _: &Asked<'_>) -> Option<Answered> {
        None
    }

    /// Makes a charge, waiting where it must. A future that is dropped has charged nothing, or gives it back.
    fn charge<'a>(&'a self, asked: Asked<'a>) -> Waiting<'a, Answered> {
        let _ = asked;
        Box::pin(std::future::ready(Answered::Uncounted))
    }

    /// Gives a charge back that [`try_charge`](Keeper::try_charge) or [`charge`](Keeper::charge) made.
    fn give_back(&self, _: &Asked<'_>, _: Mark) {}

    /// The limiter has admitted a charge, of a keeper that is told.
    fn told(&self, _: &Asked<'_>) {}

    /// The limiter has been given back a charge that was told.
    fn untold(&self, _: &Asked<'_>) {}

    /// Makes all charges of a chain that are decided together, or none. They are of keepers of the same kind as this one.
    fn charge_together<'a>(&'a self, asked: &'a [Together<'a>]) -> Waiting<'a, TogetherAnswered> {
        let answers = asked.iter().map(|_| Answered::Uncounted).collect();
        Box::pin(std::future::ready(TogetherAnswered { answers, give_back: None }))
    }

    /// What a charge would be answered, by whoever really knows; `None` if nobody can be asked.
    fn look<'a>(&'a self, asked: Asked<'a>) -> Waiting<'a, Option<Decision>>;

    /// Makes a counter new again; `false` if that cannot be done now.
    fn reset<'a>(&'a self, asked: Asked<'a>) -> Waiting<'a, bool>;
}

/// What has to be waited for.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Whose counter is wanted.
pub struct Whose<'a> {
    /// What the counter is known by in this process, and no other.
    pub hash: u128,
    /// Who is counted, to the limiter.
    pub identity: Identity,
    /// What the counter is called, everywhere and for ever: `user:plan:free/acme/ci:second`. Made when it is asked for.
    pub name: &'a dyn Fn() -> String,
}

impl fmt::Debug for Whose<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Whose").field("hash", &self.hash).finish_non_exhaustive()
    }
}

/// A keeper's handle to one of its counters.
#[derive(Clone)]
pub struct Counter(Arc<dyn Any + Send + Sync>);

impl Counter {
    /// A handle that is this.
    pub fn new(handle: Arc<dyn Any + Send + Sync>) -> Counter {
        Counter(handle)
    }

    /// What it is, if it is that.
    #[inline]
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counter")
    }
}

/// A charge as a keeper is asked for it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The counter.
    pub counter: &'a Counter,
    /// What it costs.
    pub cost: u64,
    /// The present moment; where it is waited, when the request began.
    pub now: Time,
}

/// One of several charges that are decided together.
#[derive(Clone, Copy, Debug)]
pub struct Together<'a> {
    /// Whose counter it is.
    pub keeper: &'a dyn Keeper,
    /// The charge.
    pub asked: Asked<'a>,
    /// What becomes of the request if it is refused.
    pub strategy: Strategy,
}

/// What a keeper needs to find a charge again that it is given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(pub u64);

/// What became of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It was decided, and made if it was not refused.
    Decided(Decision, Mark),
    /// It cannot be counted now, and the request passes.
    Uncounted,
    /// It cannot be counted now, and the request does not pass. The words are for the caller: what does not work.
    Unavailable(&'static str),
}

/// What became of charges that were decided together.
pub struct TogetherAnswered {
    /// Of each, in order.
    pub answers: Vec<Answered>,
    /// Gives back what was charged.
    pub give_back: Option<GiveBack>,
}

/// Gives back what was charged, later and without being waited for.
pub type GiveBack = Box<dyn FnOnce() + Send>;

impl fmt::Debug for TogetherAnswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TogetherAnswered").field("answers", &self.answers).finish_non_exhaustive()
    }
}
