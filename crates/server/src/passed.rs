//! A request that is passed on, and what its response is told with.

use http::header::{HeaderName, HeaderValue};
use http::{Extensions, Request, Response};
use tollgate_wire::{LimitHeaders, degraded_by, names};

use crate::verdict::{Outcome, Verdict};

/// What a request that is passed on leaves behind for its response. It goes wherever the response's future goes, and frameworks move that
/// several times: so it is small.
#[derive(Debug)]
pub(crate) struct Passed {
    /// The verdict alone, where it will be; nothing if nobody wants to know it.
    told: Extensions,
    headers: LimitHeaders,
    tells: Tells,
}

/// Who is told the verdict. To put it among extensions takes three allocations, which is a fifth of all that the layer adds to a request:
/// so who wants to know it with requests says so, and who wants it nowhere may say that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tells {
    /// The service, with the request.
    pub(crate) service: bool,
    /// Layers further out, with the response.
    pub(crate) layers: bool,
    /// The service is also told what others have marked, who stand before it.
    pub(crate) trusts_marks: bool,
}

/// Among a request's extensions: a layer of ours has marked it. No caller can put that there.
#[derive(Clone, Copy, Debug)]
struct Marked;

impl Default for Tells {
    fn default() -> Tells {
        Tells { service: false, layers: true, trusts_marks: false }
    }
}

impl Tells {
    pub(crate) fn anybody(self) -> bool {
        self.service || self.layers
    }
}

impl Passed {
    /// Whoever has no verdict says that nobody wants to know it, and that no limit was skipped.
    #[inline]
    pub(crate) fn new(verdict: Option<Verdict>, headers: LimitHeaders, tells: Tells) -> Passed {
        let mut told = Extensions::new();
        if let Some(verdict) = verdict {
            told.insert(verdict);
        }
        Passed { told, headers, tells }
    }

    /// Past all limits.
    pub(crate) fn unlimited(verdict: Verdict, tells: Tells) -> Passed {
        Passed::new(tells.anybody().then_some(verdict), LimitHeaders::default(), tells)
    }

    /// Tells the service: the verdict only if it wants to know.
    #[inline]
    pub(crate) fn tell_request<B>(&self, request: &mut Request<B>) {
        // Nobody marks himself. To look at a dozen names takes a quarter of what it takes to hash this one.
        let is_mark = |name: &HeaderName| *name == names::X_RATELIMIT_DEGRADED;
        match self.degraded() {
            Some(mark) => {
                request.headers_mut().insert(&names::X_RATELIMIT_DEGRADED, mark);
                request.extensions_mut().insert(Marked);
            }
            None if self.tells.trusts_marks || !request.headers().keys().any(is_mark) => {}
            None if request.extensions().get::<Marked>().is_some() => {}
            None => drop(request.headers_mut().remove(&names::X_RATELIMIT_DEGRADED)),
        }
        if self.tells.service
            && let Some(verdict) = self.told.get::<Verdict>()
        {
            request.extensions_mut().insert(verdict.clone());
        }
    }

    /// Tells the caller, in place of all that the service said of limits, and layers further out.
    #[inline]
    pub(crate) fn tell_response<A>(self, response: &mut Response<A>) {
        let mark = self.degraded();
        let headers = response.headers_mut();
        self.headers.put(headers);
        if let Some(mark) = mark {
            headers.insert(&names::X_RATELIMIT_DEGRADED, mark);
        }
        if self.tells.layers {
            response.extensions_mut().extend(self.told);
        }
    }

    /// Which limit was skipped, if any was.
    fn degraded(&self) -> Option<HeaderValue> {
        let verdict = self.told.get::<Verdict>()?;
        let by = verdict.policy().filter(|_| verdict.outcome() == Outcome::Degraded)?;
        degraded_by(by)
    }
}
