//! What requests cost, counted in both ways in which limits count.

/// What was sent, is on its way, or waits: what it costs, and how many requests it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) cost: u64,
    /// Those that cost anything: others are charged to no limit.
    pub(crate) requests: u64,
}

impl Load {
    /// Of one request.
    pub(crate) fn of(cost: u64) -> Load {
        Load { cost, requests: cost.min(1) }
    }

    pub(crate) fn plus(self, other: Load) -> Load {
        let cost = self.cost.saturating_add(other.cost);
        Load { cost, requests: self.requests.saturating_add(other.requests) }
    }

    pub(crate) fn minus(self, other: Load) -> Load {
        let cost = self.cost.saturating_sub(other.cost);
        Load { cost, requests: self.requests.saturating_sub(other.requests) }
    }
}
