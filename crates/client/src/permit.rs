//! One request on its way, and what its answer means.

use http::{HeaderMap, StatusCode};
use tollgate_wire::names::{GRPC_STATUS, X_RATELIMIT_DEGRADED};
use tollgate_wire::read::{Said, read};

use crate::Pacer;
use crate::pace::{Outcome, Ticket};

/// Leave to send one request. It wants to hear of the answer.
#[derive(Debug)]
#[must_use = "it stands for one request that is being sent"]
pub struct Permit {
    pacer: Pacer,
    ticket: Option<Ticket>,
    /// The request is known not to be on its way yet: whoever gives it up now has not sent it.
    is_kept_back: bool,
}

/// What an answer meant.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Whether a limit refused the request.
    pub is_refused: bool,
    /// What the server said about its limits.
    pub said: Said,
}

impl Permit {
    pub(crate) fn new(pacer: Pacer, ticket: Ticket) -> Permit {
        Permit { pacer, ticket: Some(ticket), is_kept_back: false }
    }

    /// Waits for what has to be there before the request can be sent. If that fails or is given up, it was never sent.
    pub(crate) async fn keep_back_until<E>(
        mut self,
        ready: impl Future<Output = Result<(), E>>,
    ) -> Result<Permit, E> {
        self.is_kept_back = true;
        ready.await?;
        self.is_kept_back = false;
        let now = self.pacer.now();
        if let Some(ticket) = &mut self.ticket {
            ticket.leaves_at(now);
        }
        Ok(self)
    }

    /// Whether the server has asked to be left alone since leave was given.
    pub(crate) fn is_called_off(&self) -> bool {
        self.ticket.is_some_and(|ticket| self.pacer.calls_off(ticket))
    }

    /// The answer's status and headers, or a gRPC call's trailers. Dropped without, the permit counts as a request that was
    /// never answered, but may have been charged for.
    pub fn heard(mut self, status: StatusCode, headers: &HeaderMap) -> Heard {
        let now = self.pacer.now();
        let said = read(headers, now);
        let is_refused = is_refused(status, headers, &said);
        let outcome = match is_refused {
            true => Outcome::Refused,
            false if status.is_server_error() => Outcome::Failed,
            false if status.is_client_error() => Outcome::Excused,
            false if headers.contains_key(&X_RATELIMIT_DEGRADED) => Outcome::Excused,
            false => Outcome::Passed,
        };
        if let Some(ticket) = self.ticket.take() {
            self.pacer.learn(|pace| pace.heard(now, ticket, &said, outcome));
        }
        Heard { is_refused, said }
    }

    /// The request was never sent, say because no connection could be made: no limit was charged for it. What may have been sent
    /// is better dropped without a word.
    pub fn never_sent(mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.pacer.learn(|pace| pace.never_sent(ticket));
        }
    }

    /// Whether it is leave of this pacer.
    #[cfg(feature = "reqwest")]
    pub(crate) fn is_of(&self, pacer: &Pacer) -> bool {
        self.pacer.is(pacer)
    }

    /// The server led elsewhere, where the request was answered.
    #[cfg(feature = "reqwest")]
    pub(crate) fn redirected(mut self) {
        let now = self.pacer.now();
        if let Some(ticket) = self.ticket.take() {
            self.pacer.learn(|pace| pace.redirected(now, ticket));
        }
    }

    /// A gRPC call's head, which does not say how it ends. Its pacer wants to hear of that.
    pub(crate) fn begun(mut self, head: &HeaderMap) -> Option<(Pacer, Ticket)> {
        let now = self.pacer.now();
        let said = read(head, now);
        let ticket = self.ticket.take()?;
        self.pacer.learn(|pace| pace.heard(now, ticket, &said, Outcome::Begun));
        Some((self.pacer.clone(), ticket))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let is_kept_back = self.is_kept_back;
        if let Some(ticket) = self.ticket.take() {
            self.pacer.learn(|pace| match is_kept_back {
                true => pace.never_sent(ticket),
                false => pace.lost(ticket),
            });
        }
    }
}

/// 429; 503 of a server that says when to come back; gRPC's `RESOURCE_EXHAUSTED`; and 403 of a server that says when to come
/// back or that nothing is left, as GitHub does.
pub(crate) fn is_refused(status: StatusCode, headers: &HeaderMap, said: &Said) -> bool {
    match status {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::FORBIDDEN => {
            said.retry_after.is_some() || said.limits.iter().any(|seen| seen.remaining == Some(0))
        }
        StatusCode::SERVICE_UNAVAILABLE => said.retry_after.is_some(),
        _ => headers.get(&GRPC_STATUS).is_some_and(|code| code == "8"),
    }
}
