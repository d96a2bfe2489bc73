//! A request that is passed on, and what its response is told with.

use http::{HeaderValue, Request, Response};
use tollgate_gate::Lines;
use tollgate_wire::names;

use crate::verdict::Verdict;

/// What a request that is passed on leaves behind for its response.
#[derive(Debug)]
pub(crate) struct Passed {
    verdict: Verdict,
    /// Boxed, because the future that holds it is moved several times on its way.
    lines: Option<Box<Lines<'static>>>,
    /// Which limit was skipped.
    mark: Option<HeaderValue>,
}

impl Passed {
    pub(crate) fn new(
        verdict: Verdict,
        lines: Option<Lines<'static>>,
        mark: Option<HeaderValue>,
    ) -> Passed {
        Passed { verdict, lines: lines.map(Box::new), mark }
    }

    /// Past all limits.
    pub(crate) fn unlimited(verdict: Verdict) -> Passed {
        Passed::new(verdict, None, None)
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
        if let Some(lines) = self.lines {
            lines.report().write(headers);
        }
        if let Some(mark) = self.mark {
            headers.insert(&names::X_RATELIMIT_DEGRADED, mark);
        }
        response.extensions_mut().insert(self.verdict);
    }
}
