//! What became of one request, for usage, for the access log, and for whoever asks why.

use std::net::IpAddr;
use std::sync::Arc;

use http::{Method, Request, StatusCode, Uri};
use smallvec::SmallVec;
use tollgate_core::PolicyName;
use tollgate_engine::Time;
use tollgate_gate::{Caller, Passage};

use super::keys::FoundKey;
use super::plane::Plane;
use super::request_id::RequestId;

/// Is told what became of each request of one worker.
pub trait Recorder: 'static {
    /// Whether it wants what costs something to keep: the method and the target.
    fn wants_details(&self) -> bool;

    /// A request was answered, or its caller hung up: whose key it had, by which plane, and at the time that `now` tells.
    /// Whoever waits here holds up every request of the worker.
    fn record<F: FoundKey>(
        &self,
        record: &Record,
        of: (Option<&F>, &Plane),
        now: impl FnOnce() -> Time,
    );

    /// Called some twenty times a second: time to hand over what was gathered.
    fn hand_over(&self) {}
}

/// Nobody wants to know.
impl Recorder for () {
    fn wants_details(&self) -> bool {
        false
    }

    fn record<F: FoundKey>(&self, _: &Record, _: (Option<&F>, &Plane), _: impl FnOnce() -> Time) {}
}

/// One for all workers.
impl<R: Recorder> Recorder for Arc<R> {
    fn wants_details(&self) -> bool {
        R::wants_details(self)
    }

    fn record<F: FoundKey>(
        &self,
        record: &Record,
        of: (Option<&F>, &Plane),
        now: impl FnOnce() -> Time,
    ) {
        R::record(self, record, of, now);
    }

    fn hand_over(&self) {
        R::hand_over(self);
    }
}

/// What became of one request.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its id.
    pub request_id: RequestId,
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
    /// What was decided.
    pub outcome: Outcome,
    /// Why it was turned away before any limit, if it was for one of these reasons. A status does not tell: a gRPC call is
    /// answered 200.
    pub cause: Option<Cause>,
    /// What it cost, charged or not; see [`spent`](Record::spent).
    pub cost: u64,
    /// All that would have charged it was skipped.
    is_spared: bool,
    /// The status it was answered with; 499 if its caller did not wait for it.
    pub status: StatusCode,
    /// Method and target, where details are wanted.
    pub head: Option<(Method, Uri)>,
}

/// Why a request was turned away that no limit refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No key, or none that is good.
    Unauthorized,
    /// Bad keys too often from one address.
    TooManyFailures,
    /// Too much was pending at its upstream.
    Overloaded,
    /// Where it is counted did not work.
    Uncountable,
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
        source: Source,
    },
    /// It passed, and was given back its charges because no upstream saw it.
    GivenBack,
}

/// Where a limit stands, in words. Most fit without a place of their own in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source(SmallVec<[u8; 56]>);

impl Source {
    /// In words: `tenant:acme`, `plan:free`.
    pub fn as_str(&self) -> &str {
        // It was made of text.
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl AsRef<[u8]> for Source {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for Source {
    fn from(text: &str) -> Source {
        Source(SmallVec::from_slice(text.as_bytes()))
    }
}

impl Record {
    pub(crate) fn new<B>(
        request_id: RequestId,
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
            outcome: Outcome::TurnedAway,
            cause: None,
            cost: 0,
            is_spared: false,
            status: hung_up(),
            head: wants_details.then(|| (request.method().clone(), request.uri().clone())),
        }
    }

    pub(crate) fn know(&mut self, caller: &Caller<'_>) {
        let client = caller.client();
        self.tenant = Some(client.tenant());
        self.plan = client.plan();
    }

    pub(crate) fn decide(&mut self, passage: &Passage<'_>, stated: Option<u64>) {
        self.cost = stated.unwrap_or_else(|| unstated_cost(passage));
        self.outcome = match passage.refused_by() {
            Some(by) => Outcome::Refused {
                policy: passage.name(by),
                source: passage.limit(by).source().into(),
            },
            None if passage.degraded().is_some() => {
                self.is_spared = is_all_skipped(passage);
                Outcome::Degraded
            }
            None => Outcome::Passed,
        };
    }

    pub(crate) fn forgive(&mut self) {
        self.outcome = Outcome::GivenBack;
    }

    /// What it was charged and keeps. A degraded request is charged by the limits that were not skipped, if there are any.
    pub fn spent(&self) -> u64 {
        match self.outcome {
            Outcome::Degraded if self.is_spared => 0,
            Outcome::Passed | Outcome::Degraded => self.cost,
            Outcome::TurnedAway | Outcome::Refused { .. } | Outcome::GivenBack => 0,
        }
    }
}

/// What a request costs whose route does not say: what the first limit says that does not count requests, else one; nothing
/// where there is no limit.
fn unstated_cost(passage: &Passage<'_>) -> u64 {
    let first = (0..passage.len()).find(|place| !passage.limit(*place).counts_requests());
    match first {
        Some(place) => passage.chain().cost(place),
        None => u64::from(!passage.is_empty()),
    }
}

fn is_all_skipped(passage: &Passage<'_>) -> bool {
    (0..passage.len()).all(|place| passage.chain().refusal(place).is_some())
}

/// What logs call the end of a request whose caller did not wait for it. Nobody is ever answered so.
fn hung_up() -> StatusCode {
    StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST)
}
