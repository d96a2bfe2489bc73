//! A request that is passed on, and what its response is told with.

use http::header::HeaderValue;
use http::{Extensions, Request, Response};
use tollgate_wire::{LimitHeaders, degraded_by, names};

use crate::verdict::{Outcome, Verdict};

/// What a request that is passed on leaves behind for its response. It goes wherever the response's future goes, and frameworks move that
/// several times: so it is small.
#[derive(Debug)]
pub(crate) struct Passed {
    /// The verdict alone, where it will be.
    told: Extensions,
    headers: LimitHeaders,
    mark: Mark,
}

/// What the request is to say of being degraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Whatever it says: no limit of the policy degrades anything, so nobody looks.
    Any,
    /// Which limit was skipped, by the verdict; nothing if none was, even if the caller said so.
    ByVerdict,
}

impl Passed {
    #[inline]
    pub(crate) fn new(verdict: Verdict, headers: LimitHeaders, mark: Mark) -> Passed {
        let mut told = Extensions::new();
        told.insert(verdict);
        Passed { told, headers, mark }
    }

    /// Past all limits.
    pub(crate) fn unlimited(verdict: Verdict) -> Passed {
        Passed::new(verdict, LimitHeaders::default(), Mark::ByVerdict)
    }

    /// Tells the service: the verdict only if it wants to know.
    #[inline]
    pub(crate) fn tell_request<B>(&self, request: &mut Request<B>, wants_verdict: bool) {
        if self.mark == Mark::ByVerdict {
            let headers = request.headers_mut();
            match self.degraded() {
                Some(mark) => drop(headers.insert(&names::X_RATELIMIT_DEGRADED, mark)),
                None => drop(headers.remove(&names::X_RATELIMIT_DEGRADED)),
            }
        }
        if wants_verdict && let Some(verdict) = self.told.get::<Verdict>() {
            request.extensions_mut().insert(verdict.clone());
        }
    }

    /// Tells the caller, in place of all that the service said of limits.
    #[inline]
    pub(crate) fn tell_response<A>(self, response: &mut Response<A>) {
        let mark = match self.mark {
            Mark::Any => None,
            Mark::ByVerdict => self.degraded(),
        };
        let headers = response.headers_mut();
        self.headers.put(headers);
        if let Some(mark) = mark {
            headers.insert(&names::X_RATELIMIT_DEGRADED, mark);
        }
        response.extensions_mut().extend(self.told);
    }

    /// Which limit was skipped, if any was.
    fn degraded(&self) -> Option<HeaderValue> {
        let verdict = self.told.get::<Verdict>()?;
        let by = verdict.policy().filter(|_| verdict.outcome() == Outcome::Degraded)?;
        degraded_by(by)
    }
}
