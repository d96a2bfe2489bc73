//! What became of one request, for usage, for the access log, and for whoever asks why.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderValue, Method, Request, StatusCode, Uri};
use tollgate_core::PolicyName;
use tollgate_engine::Time;
use tollgate_gate::Passage;

use super::authenticate::Known;
use super::keys::FoundKey;
use super::plane::Plane;

/// Is told what became of each request of one worker.
pub trait Recorder: 'static {
    /// Whether it wants what costs something to keep: the method, the target, whose key it was.
    fn wants_details(&self) -> bool;

    /// A request was answered, by this plane and at the time that `now` tells.
    fn record(&self, record: &Record, plane: &Plane, now: impl FnOnce() -> Time);
}

/// Nobody wants to know.
impl Recorder for () {
    fn wants_details(&self) -> bool {
        false
    }

    fn record(&self, _: &Record, _: &Plane, _: impl FnOnce() -> Time) {}
}

/// One for all workers.
impl<R: Recorder> Recorder for Arc<R> {
    fn wants_details(&self) -> bool {
        R::wants_details(self)
    }

    fn record(&self, record: &Record, plane: &Plane, now: impl FnOnce() -> Time) {
        R::record(self, record, plane, now);
    }
}

/// What became of one request.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its id.
    pub request_id: HeaderValue,
    /// When it came.
    pub began: Time,
    /// The caller's address, once it is known.
    pub address: Option<IpAddr>,
    /// The number of its route, once it is known.
    pub route: Option<usize>,
    /// The number of its tenant.
    pub tenant: Option<usize>,
    /// The number of its plan.
    pub plan: Option<usize>,
    /// The id of its key.
    pub key: Option<Box<str>>,
    /// Its user.
    pub user: Option<Box<str>>,
    /// What was decided.
    pub outcome: Outcome,
    /// What it cost.
    pub cost: u64,
    /// The status it was answered with.
    pub status: StatusCode,
    /// Method and target, where details are wanted.
    pub head: Option<(Method, Uri)>,
}

/// What was decided about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing: it was turned away before any limit.
    TurnedAway,
    /// It passed, and was charged.
    Passed,
    /// It passed without the limits that would have refused it.
    Degraded,
    /// A limit refused it.
    Refused {
        /// The limit's name.
        policy: PolicyName,
        /// Where that stands.
        source: Box<str>,
    },
    /// It passed, and was given back its charges because no upstream saw it.
    GivenBack,
}

impl Record {
    pub(crate) fn new<B>(
        request_id: HeaderValue,
        began: Time,
        request: &Request<B>,
        wants_details: bool,
    ) -> Record {
        Record {
            request_id,
            began,
            address: None,
            route: None,
            tenant: None,
            plan: None,
            key: None,
            user: None,
            outcome: Outcome::TurnedAway,
            cost: 0,
            status: StatusCode::OK,
            head: wants_details.then(|| (request.method().clone(), request.uri().clone())),
        }
    }

    pub(crate) fn know<F: FoundKey>(&mut self, known: &Known<F>) {
        let client = known.caller.client();
        self.tenant = Some(client.tenant());
        self.plan = client.plan();
        if let (Some(key), true) = (&known.key, self.head.is_some()) {
            self.key = Some(key.id().into());
            self.user = key.user().map(Into::into);
        }
    }

    pub(crate) fn decide(&mut self, passage: &Passage<'_>) {
        self.cost = if passage.is_empty() { 0 } else { passage.chain().cost(0) };
        self.outcome = match passage.refused_by() {
            Some(by) => Outcome::Refused {
                policy: passage.name(by),
                source: passage.limit(by).source().into(),
            },
            None if passage.degraded().is_some() => Outcome::Degraded,
            None => Outcome::Passed,
        };
    }

    pub(crate) fn forgive(&mut self) {
        self.outcome = Outcome::GivenBack;
    }
}
