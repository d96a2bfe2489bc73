//! What a caller may know of one limit.

use std::cmp::Reverse;
use std::time::Duration;

use tollgate_core::{Limit, PolicyName, Refusal, Scope, Standing};

use crate::limit_text::LimitText;

/// One limit of a request's chain as its caller may see it.
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::{Limit, Rate, Scope, Standing};
/// use tollgate_wire::Line;
///
/// # fn main() -> Result<(), tollgate_core::LimitError> {
/// let limit = Limit::token_bucket(Rate::per_second(10)).burst(100).build()?;
/// let standing =
///     Standing { limit: 100, remaining: 47, reset_after: Duration::from_millis(5_300) };
/// let line = Line::of(&limit, Scope::User, standing).source("plan:free").cost(10);
/// assert_eq!(line.name().to_string(), "user-second");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    name: PolicyName,
    source: &'a str,
    cost: u64,
    standing: Standing,
    seconds: Option<u64>,
    refusal: Option<Refusal>,
    text: Option<&'a LimitText>,
}

impl<'a> Line<'a> {
    /// A limit by its name and where it stands after the decision. What is not said further: it costs 1, has
    /// no `w`, comes from nowhere, and does not refuse.
    pub fn new(name: PolicyName, standing: Standing) -> Line<'a> {
        Line { name, source: "", cost: 1, standing, seconds: None, refusal: None, text: None }
    }

    /// A limit by its figures. Whoever writes many responses works out [`Limit::window_secs`] and the name once
    /// and calls [`new`](Line::new).
    pub fn of(limit: &Limit, scope: Scope, standing: Standing) -> Line<'a> {
        Line::new(PolicyName::new(scope, limit.span()), standing).seconds(limit.window_secs())
    }

    /// Which such limit of its chain it is, counted from 1.
    #[must_use]
    pub fn nth(mut self, nth: u16) -> Line<'a> {
        self.name = self.name.nth(nth);
        self
    }

    /// Where the limit stands in the configuration: `tenant:acme`, `plan:free`.
    #[must_use]
    pub fn source(mut self, source: &'a str) -> Line<'a> {
        self.source = source;
        self
    }

    /// What this request costs it.
    #[must_use]
    pub fn cost(mut self, cost: u64) -> Line<'a> {
        self.cost = cost;
        self
    }

    /// Its `w`, as [`Limit::window_secs`] tells.
    #[must_use]
    pub fn seconds(mut self, seconds: Option<u64>) -> Line<'a> {
        self.seconds = seconds;
        self
    }

    /// Why it refused, if it did.
    #[must_use]
    pub fn refusal(mut self, refusal: Option<Refusal>) -> Line<'a> {
        self.refusal = refusal;
        self
    }

    /// What is told of it in the same words every time, so that it need not be written anew. Where it is of another limit it
    /// changes nothing.
    #[must_use]
    pub fn text(mut self, text: Option<&'a LimitText>) -> Line<'a> {
        self.text = text;
        self
    }

    /// The same without its source, which only refusals tell: it may outlive the configuration.
    #[must_use]
    pub fn detached(self) -> Line<'static> {
        let Line { name, source: _, cost, standing, seconds, refusal, text: _ } = self;
        Line { name, source: "", cost, standing, seconds, refusal, text: None }
    }

    /// What callers know it by.
    pub fn name(&self) -> PolicyName {
        self.name
    }

    /// Where it stands in the configuration; empty if unsaid.
    pub fn shown_source(&self) -> &'a str {
        self.source
    }

    pub(crate) fn shown_cost(&self) -> u64 {
        self.cost
    }

    /// Where it stands.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    pub(crate) fn window_seconds(&self) -> Option<u64> {
        self.seconds
    }

    pub(crate) fn in_words(&self) -> Option<&'a LimitText> {
        self.text
    }

    pub(crate) fn refused(&self) -> Option<Refusal> {
        self.refusal
    }

    /// Orders lines, tightest first: fewest further requests of this cost, then longer to full.
    pub(crate) fn tightness(&self) -> (u64, Reverse<Duration>) {
        (self.standing.remaining / self.cost.max(1), Reverse(self.standing.reset_after))
    }
}
