//! Refusals, so that "why was this request refused?" has an answer: gathered by each worker without a lock or an allocation, and
//! remembered where the control plane asks.

use std::fmt::Write;

use tollgate_admin::{Moment, RefusalReason, RefusalRing, RefusedRequest};
use tollgate_engine::Time;
use tollgate_gateway::law::{Cause, FoundKey, Outcome, Plane, Record};

/// How many of each kind a worker remembers at least between two handovers: the last ones.
const GATHERED: usize = 512;
/// How many are remembered of each kind.
const REMEMBERED: usize = 8192;

/// What is told of a refusal in words.
const TEXTS: usize = 8;

/// Refusals that one worker gathered. Callers whom nobody knows are gathered for themselves: they cannot push others out.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    of_callers: Last,
    of_strangers: Last,
}

/// The last refusals of a kind, [`GATHERED`] or up to twice as many: when the newer half is full, the older one is emptied
/// and takes its place.
#[derive(Debug, Default)]
struct Last {
    older: Half,
    newer: Half,
}

/// Some refusals. Their words stand one after another in one text, so that most cost no memory of their own.
#[derive(Debug, Default)]
struct Half {
    words: String,
    refusals: Vec<Refusal>,
}

#[derive(Debug)]
struct Refusal {
    at: Time,
    status: u16,
    reason: RefusalReason,
    cost: u64,
    /// Where each of its words ends: request id, tenant, user, key, plan, route, policy, source. What is empty is none.
    ends: [usize; TEXTS],
}

impl Gathered {
    /// Gathers a request, if it was refused or turned away.
    pub(crate) fn gather(&mut self, record: &Record, of: (Option<&impl FoundKey>, &Plane)) {
        let reason = match (&record.outcome, record.cause) {
            (Outcome::Refused { .. }, _) => RefusalReason::Limit,
            (_, Some(Cause::Unauthorized)) => RefusalReason::Unauthorized,
            (_, Some(Cause::TooManyFailures)) => RefusalReason::TooManyFailures,
            (_, Some(Cause::Overloaded)) => RefusalReason::Overloaded,
            (_, Some(Cause::Uncountable)) => RefusalReason::Uncountable,
            _ => return,
        };
        let last = match record.tenant {
            Some(_) => &mut self.of_callers,
            None => &mut self.of_strangers,
        };
        last.room().add(record, reason, of);
    }

    pub(crate) fn is_empty(&self) -> bool {
        [&self.of_callers, &self.of_strangers].iter().all(|last| last.newer.refusals.is_empty())
    }
}

impl Last {
    /// Where there is room for one more.
    fn room(&mut self) -> &mut Half {
        if self.newer.refusals.len() == GATHERED {
            std::mem::swap(&mut self.older, &mut self.newer);
            self.newer.words.clear();
            self.newer.refusals.clear();
        }
        &mut self.newer
    }

    /// Each as it is remembered, the oldest first.
    fn told(&self) -> impl Iterator<Item = RefusedRequest> {
        self.older.told().chain(self.newer.told())
    }
}

impl Half {
    fn add(
        &mut self,
        record: &Record,
        reason: RefusalReason,
        (key, plane): (Option<&impl FoundKey>, &Plane),
    ) {
        let policy = plane.in_force().policy();
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
        let refused_by = match &record.outcome {
            Outcome::Refused { policy, source } => Some((policy, source)),
            _ => None,
        };
        if let Some((policy, _)) = refused_by {
            // Writing to a text cannot fail.
            let _ = write!(self.words, "{policy}");
        }
        ends[TEXTS - 2] = self.words.len();
        self.words.push_str(refused_by.map_or("", |(_, source)| source.as_str()));
        ends[TEXTS - 1] = self.words.len();
        let (at, status, cost) = (record.began, record.status.as_u16(), record.cost);
        self.refusals.push(Refusal { at, status, reason, cost, ends });
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
                reason: refusal.reason,
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

/// The last refusals of all workers, each kind in a ring of its own.
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
        gathered.of_callers.told().for_each(|refused| self.of_callers.remember(refused));
        gathered.of_strangers.told().for_each(|refused| self.of_strangers.remember(refused));
    }

    pub(crate) fn find(&self, request_id: &str) -> Option<RefusedRequest> {
        self.of_callers.find(request_id).or_else(|| self.of_strangers.find(request_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> String {
        format!("request-{number}")
    }

    fn add(last: &mut Last, number: usize) {
        let half = last.room();
        half.words.push_str(&id(number));
        let (at, reason, end) = (Time::EPOCH, RefusalReason::Unauthorized, half.words.len());
        half.refusals.push(Refusal { at, status: 401, reason, cost: 0, ends: [end; TEXTS] });
    }

    #[test]
    fn the_last_ones_are_kept_whenever_it_is_handed_over() {
        let mut last = Last::default();
        for number in 0..3 * GATHERED + 7 {
            add(&mut last, number);
            let told: Vec<String> = last.told().map(|refused| refused.request_id).collect();
            let kept = told.len();
            assert!(kept >= GATHERED.min(number + 1) && kept <= 2 * GATHERED, "{kept}");
            let right: Vec<String> = (number + 1 - kept..=number).map(id).collect();
            assert_eq!(told, right);
        }
    }

    #[test]
    fn strangers_push_no_caller_out() {
        let (mut gathered, refusals) = (Gathered::default(), Refusals::new());
        add(&mut gathered.of_callers, 0);
        for number in 1..3 * REMEMBERED {
            add(&mut gathered.of_strangers, number);
            if number % 700 == 0 {
                refusals.remember(&std::mem::take(&mut gathered));
            }
        }
        refusals.remember(&gathered);
        assert!(refusals.find(&id(0)).is_some());
        assert!(refusals.find(&id(1)).is_none());
        assert!(refusals.find(&id(3 * REMEMBERED - 1)).is_some());
    }
}
