//! What became of a request, for handlers and for layers further out.

use std::time::Duration;

use tollgate_engine::{self as engine, PolicyName, Standing};
use tollgate_gate::Passage;
use tollgate_wire::Report;

use crate::source::Source;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It passed.
    Admitted,
    /// It passed although a limit was used up, whose strategy is `degrade`: do less for it.
    Degraded,
    /// A limit refused it.
    Refused,
    /// Too much was pending.
    Overloaded,
    /// It is not certain which route its path is for.
    Malformed,
    /// Where it is counted did not answer, and it may not pass uncounted.
    Unavailable,
    /// Its tenant is [not known](crate::UnknownTenant::Forbidden).
    Forbidden,
}

/// What became of a request: in the extensions of every response, unless the layer goes
/// [without](crate::LimitLayer::without_verdicts), and then of refusals; and of requests that a layer passes on which
/// [tells the service](crate::LimitLayer::telling_service).
///
/// ```
/// use tollgate_server::Verdict;
///
/// fn is_nearly_used_up(extensions: &http::Extensions) -> bool {
///     let verdict = extensions.get::<Verdict>();
///     verdict.and_then(Verdict::remaining).is_some_and(|remaining| remaining < 10)
/// }
/// # assert!(!is_nearly_used_up(&http::Extensions::new()));
/// ```
#[derive(Clone, Debug)]
pub struct Verdict {
    outcome: Outcome,
    reported: Option<Reported>,
    retry_after: Option<Duration>,
    is_tenant_known: bool,
}

/// The limit that a verdict tells of.
#[derive(Clone, Debug)]
struct Reported {
    policy: PolicyName,
    source: Source,
    standing: Standing,
}

impl Verdict {
    /// Of a request that met no limit.
    pub(crate) fn unlimited(outcome: Outcome) -> Verdict {
        Verdict { outcome, reported: None, retry_after: None, is_tenant_known: true }
    }

    /// Of a request that limits let pass.
    #[inline]
    pub(crate) fn admitted(report: &Report<'_>, is_tenant_known: bool) -> Verdict {
        let reported = report.reported().map(|line| Reported {
            policy: line.name(),
            source: Source::of(line.shown_source()),
            standing: *line.standing(),
        });
        Verdict { outcome: Outcome::Admitted, reported, retry_after: None, is_tenant_known }
    }

    pub(crate) fn of(passage: &Passage<'_>, report: &Report<'_>, is_tenant_known: bool) -> Verdict {
        let at = |place: usize| Reported {
            policy: passage.name(place),
            source: Source::of(passage.limit(place).source()),
            standing: passage.chain().standing(place),
        };
        let (outcome, reported) = match passage.verdict() {
            engine::Verdict::Admitted => return Verdict::admitted(report, is_tenant_known),
            engine::Verdict::Degraded { by } => (Outcome::Degraded, Some(at(by))),
            engine::Verdict::Refused { by, .. } | engine::Verdict::Queued { by, .. } => {
                (Outcome::Refused, Some(at(by)))
            }
        };
        let retry_after = passage.refusal().and_then(engine::Refusal::retry_after);
        Verdict { outcome, reported, retry_after, is_tenant_known }
    }

    pub(crate) fn overloaded(retry_after: Duration) -> Verdict {
        Verdict { retry_after: Some(retry_after), ..Verdict::unlimited(Outcome::Overloaded) }
    }

    pub(crate) fn with_tenant_known(mut self, is_known: bool) -> Verdict {
        self.is_tenant_known = is_known;
        self
    }

    /// What became of it.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether it was passed on.
    pub fn is_admitted(&self) -> bool {
        matches!(self.outcome, Outcome::Admitted | Outcome::Degraded)
    }

    /// The limit that decided: the one that refused or was skipped, else the tightest. `None` if it met none.
    pub fn policy(&self) -> Option<PolicyName> {
        self.reported.as_ref().map(|reported| reported.policy)
    }

    /// Where that limit stands in the policy: `plan:free`, `tenant:acme`.
    pub fn source(&self) -> Option<&str> {
        self.reported.as_ref().map(|reported| reported.source.as_str())
    }

    /// The largest cost that would still have passed that limit.
    pub fn remaining(&self) -> Option<u64> {
        self.reported.as_ref().map(|reported| reported.standing.remaining)
    }

    /// When that limit is full again, or its window ends.
    pub fn reset_after(&self) -> Option<Duration> {
        self.reported.as_ref().map(|reported| reported.standing.reset_after)
    }

    /// How long until such a request would pass; `None` if it did, or never can.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether the policy has the tenant that the program named.
    pub fn is_tenant_known(&self) -> bool {
        self.is_tenant_known
    }
}
