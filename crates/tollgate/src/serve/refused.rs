//! Refusals, so that "why was this request refused?" has an answer: gathered by each worker without a lock or an allocation,
//! remembered as they were gathered, and put into words when somebody asks. Most are never asked for.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tollgate_admin::{Moment, RefusalReason, RefusedRequest};
use tollgate_engine::{PolicyName, Time};
use tollgate_gateway::law::{Cause, FoundKey, Outcome, Plane, Record};

/// How many of each kind a worker remembers at least between two handovers: the last ones.
const GATHERED: usize = 512;
/// How many are remembered of each kind.
const REMEMBERED: usize = 8192;

/// What is told of a refusal in words.
const TEXTS: usize = 7;

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
    words: Vec<u8>,
    refusals: Vec<Refusal>,
}

#[derive(Debug)]
struct Refusal {
    at: Time,
    status: u16,
    reason: RefusalReason,
    cost: u64,
    policy: Option<PolicyName>,
    /// Where each of its words ends: request id, tenant, user, key, plan, route, source. What is empty is none.
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
}

impl Half {
    fn add(
        &mut self,
        record: &Record,
        reason: RefusalReason,
        (key, plane): (Option<&impl FoundKey>, &Plane),
    ) {
        let in_force = plane.in_force().policy();
        let texts = [
            record.request_id.as_str(),
            record.tenant.map_or("", |number| in_force.tenants().all()[number].id()),
            key.and_then(FoundKey::user).unwrap_or_default(),
            key.map_or("", FoundKey::id),
            record.plan.map_or("", |number| in_force.plans()[number].name()),
            record.route.map_or("", |number| in_force.routes()[number].name()),
        ];
        let mut ends = [0; TEXTS];
        for (end, text) in ends.iter_mut().zip(texts) {
            self.words.extend_from_slice(text.as_bytes());
            *end = self.words.len();
        }
        let (policy, source) = match &record.outcome {
            Outcome::Refused { policy, source } => (Some(*policy), source.as_ref()),
            _ => (None, &[][..]),
        };
        self.words.extend_from_slice(source);
        ends[TEXTS - 1] = self.words.len();
        let (at, status, cost) = (record.began, record.status.as_u16(), record.cost);
        self.refusals.push(Refusal { at, status, reason, cost, policy, ends });
    }

    /// The latest with this id.
    fn find(&self, request_id: &str) -> Option<RefusedRequest> {
        let begins = |number: usize| match number {
            0 => 0,
            _ => self.refusals[number - 1].ends[TEXTS - 1],
        };
        let id = |number: &usize| &self.words[begins(*number)..self.refusals[*number].ends[0]];
        let is_it = |number: &usize| id(number) == request_id.as_bytes();
        let found = (0..self.refusals.len()).rev().find(is_it)?;
        Some(self.refusals[found].told(&self.words, begins(found)))
    }
}

impl Refusal {
    /// In words, of which its own begin at `from`.
    fn told(&self, words: &[u8], mut from: usize) -> RefusedRequest {
        let [id, tenant, user, key, plan, route, source] = self.ends.map(|end| {
            let text = &words[from..end];
            from = end;
            (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
        });
        RefusedRequest {
            request_id: id.unwrap_or_default(),
            at: Moment(self.at),
            status: self.status,
            reason: self.reason,
            cost: self.cost,
            tenant,
            user,
            key,
            plan,
            route,
            policy: self.policy.map(|name| name.to_string()),
            source,
        }
    }
}

/// The last refusals of all workers, each kind for itself.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    of_callers: Mutex<Remembered>,
    of_strangers: Mutex<Remembered>,
}

/// At least the last [`REMEMBERED`], as they were gathered, the oldest first.
#[derive(Debug, Default)]
struct Remembered {
    gathered: VecDeque<Half>,
    many: usize,
}

impl Remembered {
    fn remember(&mut self, last: Last) {
        for half in [last.older, last.newer].into_iter().filter(|half| !half.refusals.is_empty()) {
            self.many += half.refusals.len();
            self.gathered.push_back(half);
        }
        while let Some(oldest) = self.gathered.front().map(|half| half.refusals.len())
            && self.many - oldest >= REMEMBERED
        {
            self.many -= oldest;
            self.gathered.pop_front();
        }
    }

    fn find(&self, request_id: &str) -> Option<RefusedRequest> {
        self.gathered.iter().rev().find_map(|half| half.find(request_id))
    }
}

impl Refusals {
    pub(crate) fn remember(&self, gathered: Gathered) {
        self.of_callers.lock().remember(gathered.of_callers);
        self.of_strangers.lock().remember(gathered.of_strangers);
    }

    pub(crate) fn find(&self, request_id: &str) -> Option<RefusedRequest> {
        let known = self.of_callers.lock().find(request_id);
        known.or_else(|| self.of_strangers.lock().find(request_id))
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
        half.words.extend_from_slice(id(number).as_bytes());
        let (at, reason, ends) =
            (Time::EPOCH, RefusalReason::Unauthorized, [half.words.len(); TEXTS]);
        half.refusals.push(Refusal { at, status: 401, reason, cost: 0, policy: None, ends });
    }

    #[test]
    fn the_last_ones_are_kept_whenever_it_is_handed_over() {
        let mut last = Last::default();
        for number in 0..3 * GATHERED + 7 {
            add(&mut last, number);
            let halves = [&last.older, &last.newer];
            let kept: usize = halves.iter().map(|half| half.refusals.len()).sum();
            assert!(kept >= GATHERED.min(number + 1) && kept <= 2 * GATHERED, "{kept}");
            let found = |number: usize| halves.iter().find_map(|half| half.find(&id(number)));
            for number in number + 1 - kept..=number {
                assert_eq!(found(number).unwrap().request_id, id(number));
            }
            assert!(number + 1 == kept || found(number - kept).is_none());
        }
    }

    #[test]
    fn strangers_push_no_caller_out() {
        let (mut gathered, refusals) = (Gathered::default(), Refusals::default());
        add(&mut gathered.of_callers, 0);
        for number in 1..3 * REMEMBERED {
            add(&mut gathered.of_strangers, number);
            if number % 700 == 0 {
                refusals.remember(std::mem::take(&mut gathered));
            }
        }
        refusals.remember(gathered);
        assert!(refusals.find(&id(0)).is_some());
        assert!(refusals.find(&id(1)).is_none());
        assert!(refusals.find(&id(3 * REMEMBERED - 1)).is_some());
    }
}
