//! A request that is passed on, and what its response is told with.

use http::{HeaderMap, HeaderValue, Request, Response};
use tollgate_wire::names;

use crate::verdict::Verdict;

/// What a request that is passed on leaves behind for its response.
#[derive(Debug)]
pub(crate) struct Passed {
    verdict: Verdict,
    /// The limit headers as of the decision.
    headers: HeaderMap,
    /// Which limit was skipped.
    mark: Option<HeaderValue>,
}

impl Passed {
    pub(crate) fn new(verdict: Verdict, headers: HeaderMap, mark: Option<HeaderValue>) -> Passed {
        Passed { verdict, headers, mark }
    }

    /// Past all limits.
    pub(crate) fn unlimited(verdict: Verdict) -> Passed {
        Passed::new(verdict, HeaderMap::new(), None)
    }

    /// Tells the service. What the caller itself said of being degraded is removed.
    pub(crate) fn tell_request<B>(&self, request: &mut Request<B>) {
        let headers = request.headers_mut();
        match &self.mark {
            Some(mark) => drop(headers.insert(&names::X_RATELIMIT_DEGRADED, mark.clone())),
            None => drop(headers.remove(&names::X_RATELIMIT_DEGRADED)),
        }
        request.extensions_mut().insert(self.verdict.clone());
    }

    /// Tells the caller, in place of what the service said under the same names.
    pub(crate) fn tell_response<A>(self, response: &mut Response<A>) {
        let headers = response.headers_mut();
        overlay(headers, self.headers);
        if let Some(mark) = self.mark {
            headers.insert(&names::X_RATELIMIT_DEGRADED, mark);
        }
        response.extensions_mut().insert(self.verdict);
    }
}

/// Puts `ours`, each of which is there once, over `theirs`. The fewer are moved to the more: a service has often but one or two.
fn overlay(theirs: &mut HeaderMap, mut ours: HeaderMap) {
    if theirs.len() > ours.len() {
        for (name, value) in ours.into_iter().filter_map(|(name, value)| Some((name?, value))) {
            let _ = theirs.try_insert(name, value);
        }
        return;
    }
    std::mem::swap(theirs, &mut ours);
    let (all, services) = (theirs, ours);
    let mut kept = None;
    for (name, value) in services {
        // Only the first value of several has the name with it.
        if let Some(name) = name {
            kept = (!all.contains_key(&name)).then_some(name);
        }
        if let Some(name) = &kept {
            let _ = all.try_append(name.clone(), value);
        }
    }
}
