//! Who is calling and what for: what the embedding program says of a request.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use crate::head::Head;

/// What a program says of one request. It borrows from the request what it can.
///
/// ```
/// use tollgate_server::Caller;
///
/// let caller = Caller::of("acme").user("ci").operation("chat").cost(10);
/// # let _ = caller;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "it is returned to the layer, which decides by it"]
pub struct Caller<'r> {
    pub(crate) tenant: Option<Cow<'r, str>>,
    pub(crate) user: Option<Cow<'r, str>>,
    pub(crate) plan: Option<Cow<'r, str>>,
    pub(crate) operation: Option<Cow<'r, str>>,
    pub(crate) cost: Option<u64>,
    pub(crate) address: Option<IpAddr>,
}

impl<'r> Caller<'r> {
    /// A caller of the tenant with this id. Whether the policy has such a tenant, the layer finds out.
    pub fn of(tenant: impl Into<Cow<'r, str>>) -> Caller<'r> {
        Caller { tenant: Some(tenant.into()), ..Caller::default() }
    }

    /// Nobody in particular: the policy's tenant `anonymous`, counted by the [address](Caller::address).
    pub fn anonymous() -> Caller<'r> {
        Caller::default()
    }

    /// Who of the tenant's it is. Without a user it is counted by its [address](Caller::address).
    pub fn user(mut self, user: impl Into<Cow<'r, str>>) -> Caller<'r> {
        self.user = Some(user.into());
        self
    }

    /// Its own plan instead of the tenant's. One that the policy does not have changes nothing.
    pub fn plan(mut self, plan: impl Into<Cow<'r, str>>) -> Caller<'r> {
        self.plan = Some(plan.into());
        self
    }

    /// What kind of work it asks for; it goes before the route's. One that the policy does not have has no limit of its
    /// own.
    pub fn operation(mut self, operation: impl Into<Cow<'r, str>>) -> Caller<'r> {
        self.operation = Some(operation.into());
        self
    }

    /// What it costs; it goes before the route's. At 0 it meets no limit at all, nor backpressure.
    pub fn cost(mut self, cost: u64) -> Caller<'r> {
        self.cost = Some(cost);
        self
    }

    /// Where it comes from. All of whom that is not said count as one address.
    pub fn address(mut self, address: IpAddr) -> Caller<'r> {
        self.address = Some(address);
        self
    }
}

/// Says who is calling. For a type that has a name; a closure goes to [`Limits::layer`](crate::Limits::layer).
pub trait Identify {
    /// Of the request with this head. It is called once for each request and should not block.
    fn identify<'r>(&self, request: Head<'r>) -> Caller<'r>;
}

/// Identifies by a closure.
#[derive(Clone, Copy)]
pub struct ByClosure<F>(pub(crate) F);

impl<F: for<'r> Fn(Head<'r>) -> Caller<'r>> Identify for ByClosure<F> {
    #[inline]
    fn identify<'r>(&self, request: Head<'r>) -> Caller<'r> {
        (self.0)(request)
    }
}

impl<F> fmt::Debug for ByClosure<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ByClosure").finish_non_exhaustive()
    }
}

/// What becomes of a caller whose tenant the policy does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnknownTenant {
    /// It is treated as `anonymous`: counted by its address, whichever user it is. Layers further out see it by
    /// [`Verdict::is_tenant_known`](crate::Verdict::is_tenant_known), and so does the handler if the layer is
    /// [told to](crate::LimitLayer::telling_service) tell it.
    #[default]
    Anonymous,
    /// It is answered 403, or gRPC's `PERMISSION_DENIED`.
    Forbidden,
    /// It passes without any limit.
    Unlimited,
}
