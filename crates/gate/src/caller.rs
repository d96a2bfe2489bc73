//! Who is calling: the identities a request is counted by.

use std::net::IpAddr;

use tollgate_engine::Identity;
use tollgate_policy::Holder;
use tollgate_policy::compile::{Client, LimitId};

use crate::own::OwnLimit;

/// Who is calling, under one policy.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'k> {
    pub(crate) client: Client,
    pub(crate) tenant: Identity,
    pub(crate) user: Identity,
    /// As it is counted: of IPv6 its /64.
    pub(crate) address: IpAddr,
    /// Its name, which counters that are kept elsewhere are called by.
    pub(crate) holder: Option<Holder<'k>>,
    /// What its key has for itself.
    pub(crate) own: Option<&'k OwnLimit>,
}

impl<'k> Caller<'k> {
    /// Whose key has this plan, if it has any.
    #[must_use]
    pub fn with_plan(mut self, plan: Option<usize>) -> Caller<'k> {
        self.client = self.client.with_plan(plan);
        self
    }

    /// Whose key has this limit of its own, if it has any.
    #[must_use]
    pub fn with_limit(mut self, limit: Option<LimitId>) -> Caller<'k> {
        self.client = self.client.with_limit(limit);
        self
    }

    /// Whose key has a limit of its own that no policy knows, if it has any.
    #[must_use]
    pub fn with_own(mut self, own: Option<&'k OwnLimit>) -> Caller<'k> {
        if own.is_some() {
            self.client = self.client.with_limit_elsewhere();
            self.own = own;
        }
        self
    }

    /// Its tenant and plan.
    pub fn client(&self) -> Client {
        self.client
    }

    /// Its name, while it is known.
    pub fn holder(&self) -> Option<Holder<'k>> {
        self.holder
    }

    /// Its address, as it is counted: of IPv6 its /64.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The same without its name, for whoever keeps it longer than that: counters of users that are kept elsewhere
    /// cannot be found by it before it is [named](Caller::named) again.
    #[must_use]
    pub fn unnamed(self) -> Caller<'static> {
        Caller { holder: None, own: None, ..self }
    }

    /// The same, held by this one.
    #[must_use]
    pub fn named<'n>(&self, holder: Holder<'n>) -> Caller<'n>
    where
        'k: 'n,
    {
        Caller { holder: Some(holder), ..*self }
    }
}
