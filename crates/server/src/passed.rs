//! A request that is passed on, and what its response is told with.

use http::header::{Entry, HeaderMap, HeaderValue};
use http::{Request, Response};
use tollgate_wire::names;

use crate::verdict::Verdict;

/// What a request that is passed on leaves behind for its response.
#[derive(Debug)]
pub(crate) struct Passed {
    verdict: Verdict,
    /// The limit headers as of the decision.
    headers: HeaderMap,
    mark: Mark,
    /// Whether the service is to know the verdict.
    tells_service: bool,
}

/// What the request is to say of being degraded.
#[derive(Debug)]
pub(crate) enum Mark {
    /// Whatever it says: no limit of the policy degrades anything, so nobody looks.
    Any,
    /// Nothing, even if the caller said so.
    Off,
    /// Which limit was skipped.
    By(HeaderValue),
}

impl Passed {
    pub(crate) fn new(verdict: Verdict, headers: HeaderMap, mark: Mark) -> Passed {
        Passed { verdict, headers, mark, tells_service: false }
    }

    /// Past all limits.
    pub(crate) fn unlimited(verdict: Verdict) -> Passed {
        Passed::new(verdict, HeaderMap::new(), Mark::Off)
    }

    pub(crate) fn telling_service(mut self, tells: bool) -> Passed {
        self.tells_service = tells;
        self
    }

    /// Tells the service.
    pub(crate) fn tell_request<B>(&self, request: &mut Request<B>) {
        let headers = request.headers_mut();
        match &self.mark {
            Mark::By(mark) => drop(headers.insert(&names::X_RATELIMIT_DEGRADED, mark.clone())),
            Mark::Off => drop(headers.remove(&names::X_RATELIMIT_DEGRADED)),
            Mark::Any => {}
        }
        if self.tells_service {
            request.extensions_mut().insert(self.verdict.clone());
        }
    }

    /// Tells the caller, in place of all that the service said of limits: only one of both can speak for them.
    pub(crate) fn tell_response<A>(self, response: &mut Response<A>) {
        let headers = response.headers_mut();
        names::strip_limits(headers);
        overlay(headers, self.headers);
        if let Mark::By(mark) = self.mark {
            headers.insert(&names::X_RATELIMIT_DEGRADED, mark);
        }
        response.extensions_mut().insert(self.verdict);
    }
}

/// Puts `ours`, each of which is there once, over `theirs`. The fewer are moved to the more: a service has often but one or two.
fn overlay(theirs: &mut HeaderMap, mut ours: HeaderMap) {
    if ours.is_empty() {
        return;
    }
    if theirs.len() > ours.len() {
        for (name, value) in ours.into_iter().filter_map(|(name, value)| Some((name?, value))) {
            let _ = theirs.try_insert(name, value);
        }
        return;
    }
    std::mem::swap(theirs, &mut ours);
    let (all, services) = (theirs, ours);
    let mut services = services.into_iter();
    let mut next = services.next();
    while let Some((Some(name), value)) = next {
        let mut kept = match all.entry(name) {
            Entry::Vacant(place) => Some(place.insert_entry(value)),
            Entry::Occupied(_) => None,
        };
        // Only the first value of several has the name with it.
        next = loop {
            match (services.next(), &mut kept) {
                (Some((None, value)), Some(kept)) => kept.append(value),
                (Some((None, _)), None) => {}
                (next, _) => break next,
            }
        };
    }
}
