//! What a request asks of its pacer.

/// Who goes first where requests wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// After all others.
    Low,
    /// As usual.
    #[default]
    Normal,
    /// Before all others.
    High,
}

/// What a request asks of the pacer. Put into a request's extensions, the middleware finds it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What the server will charge for it, where that is known; 1 is a good guess where it is not.
    ///
    /// Limits that count requests whatever they cost, as quotas do, are found out by what passes, as far as that shows it for certain: one
    /// that this client shares with others, one that comes back all the time or every few seconds, and one that fills up as a bucket of
    /// costs would, may be taken for one of costs for good. Of such a limit what is less than one cost is left over.
    ///
    /// What costs more than a limit ever admits does not wait for it: the server says that it will not do. But only one such request is on
    /// its way at a time until the limit is found to count requests, and what is refused for good again and again waits ever longer.
    ///
    /// What costs 0 waits for no limit and behind nobody, only for a server that wants to be left alone.
    pub cost: u64,
    /// Before whom it goes.
    pub priority: Priority,
    /// What kind of work it asks for, where the server limits kinds of work apart from each other: each has a pacer of its own,
    /// so one that is exhausted does not hold up the others. A limit that they have in common is shared like one of several programs.
    /// Without, all requests to a server under a key keep to all of its limits.
    pub operation: Option<&'static str>,
}

impl Ask {
    /// No limit is charged for it, so it has nothing to wait for that others wait for.
    pub(crate) fn is_free(&self) -> bool {
        self.cost == 0
    }
}

impl Default for Ask {
    fn default() -> Ask {
        Ask { cost: 1, priority: Priority::Normal, operation: None }
    }
}

impl From<Priority> for Ask {
    fn from(priority: Priority) -> Ask {
        Ask { priority, ..Ask::default() }
    }
}
