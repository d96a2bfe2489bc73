//! Who is calling: the identities a request is counted by.

use std::net::IpAddr;

use tollgate_engine::Identity;
use tollgate_policy::Holder;
use tollgate_policy::compile::{Client, LimitId};

/// Who is calling, under one policy.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub(crate) client: Client,
    pub(crate) tenant: Identity,
    pub(crate) user: Identity,
    /// As it is counted: of IPv6 its /64.
    pub(crate) address: IpAddr,
}

impl Caller {
    /// Whose key has this plan, if it has any.
    #[must_use]
    pub fn with_plan(mut self, plan: Option<usize>) -> Caller {
        self.client = self.client.with_plan(plan);
        self
    }

    /// Whose key has this limit of its own, if it has any.
    #[must_use]
    pub fn with_limit(mut self, limit: Option<LimitId>) -> Caller {
        self.client = self.client.with_limit(limit);
        self
    }

    /// Its tenant and plan.
    pub fn client(&self) -> Client {
        self.client
    }

    /// Its address, as it is counted: of IPv6 its /64.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The same with the holder's name, which counters that are kept elsewhere are called by.
    #[inline]
    pub fn named<'a>(&'a self, holder: Holder<'a>) -> Named<'a> {
        Named { caller: self, holder: Some(holder) }
    }
}

/// Who is calling, perhaps by name. Without it, users' counters are only found in this process's limiter.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) holder: Option<Holder<'a>>,
}

impl<'a> From<&'a Caller> for Named<'a> {
    #[inline]
    fn from(caller: &'a Caller) -> Named<'a> {
        Named { caller, holder: None }
    }
}
