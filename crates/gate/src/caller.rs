//! Who is calling: the identities a request is counted by.

use std::net::IpAddr;

use tollgate_engine::Identity;
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
}
