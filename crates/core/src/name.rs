//! What a limit is called where callers and operators see it.

use std::fmt;

use crate::{Period, Window};

/// Whose requests share one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Everybody's.
    Global,
    /// A tenant's.
    Tenant,
    /// A user's inside a tenant.
    User,
    /// An IP address's; of IPv6, a /64's.
    Ip,
    /// A route's.
    Route,
}

impl Scope {
    /// The name used in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Global => "global",
            Scope::Tenant => "tenant",
            Scope::User => "user",
            Scope::Ip => "ip",
            Scope::Route => "route",
        }
    }
}

/// What a limit is counted in: a rate's window or a quota's period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Span {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// A week.
    Week,
    /// A month.
    Month,
    /// A year.
    Year,
}

impl Span {
    /// Every span, shortest first.
    pub const ALL: [Span; 7] =
        [Span::Second, Span::Minute, Span::Hour, Span::Day, Span::Week, Span::Month, Span::Year];

    /// The name used in configuration files and policy names.
    pub const fn name(self) -> &'static str {
        match self {
            Span::Second => "second",
            Span::Minute => "minute",
            Span::Hour => "hour",
            Span::Day => "day",
            Span::Week => "week",
            Span::Month => "month",
            Span::Year => "year",
        }
    }
}

impl From<Window> for Span {
    fn from(window: Window) -> Span {
        match window {
            Window::Second => Span::Second,
            Window::Minute => Span::Minute,
            Window::Hour => Span::Hour,
            Window::Day => Span::Day,
        }
    }
}

impl From<Period> for Span {
    fn from(period: Period) -> Span {
        match period {
            Period::Day => Span::Day,
            Period::Week => Span::Week,
            Period::Month => Span::Month,
            Period::Year => Span::Year,
        }
    }
}

/// A limit's name within one request: `user-second`, and `user-second-2` for the second such one of its chain.
///
/// ```
/// use tollgate_core::{PolicyName, Scope, Span};
///
/// assert_eq!(PolicyName::new(Scope::User, Span::Second).to_string(), "user-second");
/// assert_eq!(PolicyName::new(Scope::Tenant, Span::Month).nth(2).to_string(), "tenant-month-2");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyName {
    scope: Scope,
    span: Span,
    nth: u16,
}

impl PolicyName {
    /// The name of a chain's first limit with this scope and span.
    pub const fn new(scope: Scope, span: Span) -> PolicyName {
        PolicyName { scope, span, nth: 1 }
    }

    /// The name of its `nth` such limit, counted from 1.
    #[must_use]
    pub const fn nth(mut self, nth: u16) -> PolicyName {
        self.nth = nth;
        self
    }

    /// Whose requests share one counter.
    pub const fn scope(self) -> Scope {
        self.scope
    }

    /// What it is counted in.
    pub const fn span(self) -> Span {
        self.span
    }

    /// Which such limit of its chain it is, counted from 1.
    pub const fn ordinal(self) -> u16 {
        self.nth
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.scope.name(), self.span.name())?;
        if self.nth > 1 { write!(f, "-{}", self.nth) } else { Ok(()) }
    }
}
