//! The limits of one service: a policy in force, counters, backpressure. Layers share them.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tollgate_engine::{Backpressure, Clock, SystemClock};
use tollgate_gate::{Gate, InForce};
use tollgate_policy::MAX_BYTES;
use tollgate_policy::compile::{Policy, PolicyFaults};
use tollgate_policy::shapes::Strategy;

use crate::caller::{ByClosure, Caller};
use crate::head::Head;
use crate::layer::LimitLayer;

/// The limits of one service. Its clones are the same limits: keep one to [`reload`](Limits::reload) and to
/// [`set_pending`](Limits::set_pending).
#[derive(Debug)]
pub struct Limits<C = SystemClock> {
    shared: Arc<Shared<C>>,
}

#[derive(Debug)]
struct Shared<C> {
    gate: Gate<C>,
    in_force: ArcSwap<Present>,
    backpressure: Backpressure,
    /// Two at once could leave one policy in force with the other's figures.
    reloading: Mutex<()>,
}

/// The policy in force, and whether anybody may have to wait under it: in line, or for counters kept elsewhere.
#[derive(Debug)]
pub(crate) struct Present {
    pub(crate) in_force: Arc<InForce>,
    pub(crate) may_wait: bool,
    /// Whether any of its limits lets requests stand in line.
    pub(crate) has_queues: bool,
    /// Whether any of its limits lets requests pass degraded.
    pub(crate) degrades: bool,
}

impl Present {
    fn of<C: Clock>(gate: &Gate<C>, policy: Policy) -> Present {
        let has = |strategy| policy.limits().iter().any(|limit| limit.strategy() == strategy);
        let (has_queues, degrades) = (has(Strategy::Queue), has(Strategy::Degrade));
        let in_force = gate.enforce(policy);
        let may_wait = has_queues || in_force.keeps_elsewhere();
        Present { in_force, may_wait, has_queues, degrades }
    }
}

impl Limits {
    /// The limits of a policy, say [`Policy::of`] a text. They are counted in this process, whichever `consistency` they ask for:
    /// who shares counters says where with [`over`](Limits::over).
    pub fn new(policy: Policy) -> Limits {
        Limits::with_clock(policy, SystemClock::new())
    }

    /// The limits that a configuration file states: the gateway's format. It reads on the calling thread.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Limits, LoadError> {
        read(path.as_ref()).map(Limits::new)
    }
}

impl<C: Clock> Limits<C> {
    /// The same on a clock of your own: tests move a [`FakeClock`](tollgate_engine::FakeClock).
    pub fn with_clock(policy: Policy, clock: C) -> Limits<C> {
        Limits::over(Gate::with_clock(clock, max_keys(&policy)), policy)
    }

    /// The same over a gate of your own, say one that [keeps](Gate::keeping) counters elsewhere.
    pub fn over(gate: Gate<C>, policy: Policy) -> Limits<C> {
        let present = Present::of(&gate, policy);
        Limits {
            shared: Arc::new(Shared {
                gate,
                in_force: ArcSwap::from_pointee(present),
                backpressure: Backpressure::default(),
                reloading: Mutex::new(()),
            }),
        }
    }

    /// Puts another policy into force at once. Counters keep their tokens; requests that are under way finish by the
    /// policy they began with.
    pub fn reload(&self, policy: Policy) {
        let shared = &*self.shared;
        let _alone = shared.reloading.lock();
        shared.gate.limiter().set_max_keys(max_keys(&policy));
        shared.in_force.store(Arc::new(Present::of(&shared.gate, policy)));
    }

    /// [`reload`](Limits::reload) from a file. A bad one changes nothing. It reads on the calling thread.
    pub fn reload_from_file(&self, path: impl AsRef<Path>) -> Result<(), LoadError> {
        read(path.as_ref()).map(|policy| self.reload(policy))
    }

    /// How much is pending in the service, said by whoever knows. Above the
    /// [threshold](Backpressure::DEFAULT_THRESHOLD) requests are refused before anything else is looked at.
    pub fn set_pending(&self, pending: u64) {
        self.shared.backpressure.set_pending(pending);
    }

    /// What is pending, and the threshold.
    pub fn backpressure(&self) -> &Backpressure {
        &self.shared.backpressure
    }

    /// The policy in force.
    pub fn in_force(&self) -> Arc<InForce> {
        Arc::clone(&self.shared.in_force.load().in_force)
    }

    /// A layer that asks a closure who is calling.
    pub fn layer<F>(&self, identify: F) -> LimitLayer<ByClosure<F>, C>
    where
        F: for<'r> Fn(Head<'r>) -> Caller<'r>,
    {
        self.layer_by(ByClosure(identify))
    }

    /// A layer that asks something with a name who is calling.
    pub fn layer_by<I: crate::Identify>(&self, identify: I) -> LimitLayer<I, C> {
        LimitLayer::new(self.clone(), identify)
    }

    pub(crate) fn gate(&self) -> &Gate<C> {
        &self.shared.gate
    }

    pub(crate) fn present(&self) -> arc_swap::Guard<Arc<Present>> {
        self.shared.in_force.load()
    }
}

impl<C> Clone for Limits<C> {
    fn clone(&self) -> Limits<C> {
        Limits { shared: Arc::clone(&self.shared) }
    }
}

fn max_keys(policy: &Policy) -> usize {
    usize::try_from(policy.settings().counters.max_keys).unwrap_or(usize::MAX)
}

fn read(path: &Path) -> Result<Policy, LoadError> {
    let unreadable = |source| LoadError::Unreadable { path: path.to_owned(), source };
    let mut text = Vec::new();
    // One byte more than a file may have is enough to see that it has too many.
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut text).map_err(unreadable)?;
    Policy::of(&path.display().to_string(), &text).map_err(LoadError::Faulty)
}

/// Why a file is not put into force.
#[derive(Debug)]
pub enum LoadError {
    /// It cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something is wrong with it: every fault, with its place.
    Faulty(Box<PolicyFaults>),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Unreadable { path, source } => {
                write!(f, "cannot read {}: {source}", path.display())
            }
            LoadError::Faulty(faults) => faults.diagnostics.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::Unreadable { source, .. } => Some(source),
            LoadError::Faulty(faults) => Some(&faults.diagnostics),
        }
    }
}
