//! A limit that one key has for itself.

use std::sync::Arc;

use tollgate_engine::{Clock, Rule};
use tollgate_policy::compile::KeyLimit;

use crate::elsewhere::Keeper;
use crate::gate::Gate;

/// The limit of a key that the API issued, bound to its counters. It is in force under whatever policy is.
#[derive(Debug)]
pub struct OwnLimit {
    pub(crate) limit: KeyLimit,
    pub(crate) rule: Arc<Rule>,
    /// Who keeps its counters, if not the limiter.
    pub(crate) keeper: Option<Arc<dyn Keeper>>,
}

impl<C: Clock> Gate<C> {
    /// Binds the limit of a key. The counters of an earlier one of its line keep their tokens, under the new figures.
    pub fn own_limit(&self, limit: KeyLimit) -> OwnLimit {
        let placed = limit.placed();
        let rule = self.limiter().define(placed.counter(), placed.limit().clone());
        let keeper = self.keeper(placed, &rule);
        OwnLimit { limit, rule, keeper }
    }
}
