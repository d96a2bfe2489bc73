//! Refusals, so that "why was this request refused?" has an answer: gathered by each worker without a lock or an allocation, and
//! remembered where the control plane asks.

use std::fmt::Write;

use tollgate_admin::{Moment, RefusalRing, RefusedRequest};
use tollgate_engine::Time;
use tollgate_gateway::law::{FoundKey, Outcome, Plane, Record};

/// How many a worker gathers between two handovers; of more, the last ones are kept.
const GATHERED: usize = 512;
/// How many are remembered of each kind.
const REMEMBERED: usize = 8192;

/// What is told of a refusal in words.
const TEXTS: usize = 8;

/// Refusals that one worker gathered. Their words stand one after another in one text, so that most cost no memory of their own.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    words: String,
    refusals: Vec<Refusal>,
}

#[derive(Debug)]
struct Refusal {
    at: Time,
    status: u16,
    cost: u64,
    /// Where each of its words ends: request id, tenant, user, key, plan, route, policy, source. What is empty is none.
    ends: [usize; TEXTS],
}

impl Gathered {
    /// Gathers a request, if it was refused or turned away.
    pub(crate) fn gather(&mut self, record: &Record, of: (Option<&impl FoundKey>, &Plane)) {
        let refused_by = match &record.outcome {
            Outcome::Refused { policy, source } => Some((policy, source)),
            // Who has no good key, or comes while too much is pending.
            Outcome::TurnedAway if matches!(record.status.as_u16(), 401 | 429 | 503) => None,
            _ => return,
        };
        if self.refusals.len() == GATHERED {
            self.words.clear();
            self.refusals.clear();
        }
        let (key, policy) = (of.0, of.1.in_force().policy());
        let texts = [
            record.request_id.to_str().unwrap_or_default(),
            record.tenant.map_or("", |number| policy.tenants().all()[number].id()),
            key.and_then(FoundKey::user).unwrap_or_default(),
            key.map_or("", FoundKey::id),
            record.plan.map_or("", |number| policy.plans()[number].name()),
            record.route.map_or("", |number| policy.routes()[number].name()),
        ];
        let mut ends = [0; TEXTS];
        for (end, text) in ends.iter_mut().zip(texts) {
            self.words.push_str(text);
            *end = self.words.len();
        }
        if let Some((policy, _)) = refused_by {
            // Writing to a text cannot fail.
            let _ = write!(self.words, "{policy}");
        }
        ends[TEXTS - 2] = self.words.len();
        self.words.push_str(refused_by.map_or("", |(_, source)| source.as_str()));
        ends[TEXTS - 1] = self.words.len();
        let (at, status, cost) = (record.began, record.status.as_u16(), record.cost);
        self.refusals.push(Refusal { at, status, cost, ends });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.refusals.is_empty()
    }

    /// Each as it is remembered.
    fn told(&self) -> impl Iterator<Item = RefusedRequest> {
        let mut from = 0;
        self.refusals.iter().map(move |refusal| {
            let [id, tenant, user, key, plan, route, policy, source] = refusal.ends.map(|end| {
                let text = &self.words[from..end];
                from = end;
                (!text.is_empty()).then(|| text.to_owned())
            });
            RefusedRequest {
                request_id: id.unwrap_or_default(),
                at: Moment(refusal.at),
                status: refusal.status,
                cost: refusal.cost,
                tenant,
                user,
                key,
                plan,
                route,
                policy,
                source,
            }
        })
    }
}

/// The last refusals of all workers. Callers whom nobody knows have a ring of their own: they cannot push others out.
#[derive(Debug)]
pub(crate) struct Refusals {
    of_callers: RefusalRing,
    of_strangers: RefusalRing,
}

impl Refusals {
    pub(crate) fn new() -> Refusals {
        let ring = || RefusalRing::new(REMEMBERED);
        Refusals { of_callers: ring(), of_strangers: ring() }
    }

    pub(crate) fn remember(&self, gathered: &Gathered) {
        for refused in gathered.told() {
            let is_known = refused.tenant.is_some();
            let ring = if is_known { &self.of_callers } else { &self.of_strangers };
            ring.remember(refused);
        }
    }

    pub(crate) fn find(&self, request_id: &str) -> Option<RefusedRequest> {
        self.of_callers.find(request_id).or_else(|| self.of_strangers.find(request_id))
    }
}
