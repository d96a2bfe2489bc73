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
    pub cost: u64,
    /// Before whom it goes.
    pub priority: Priority,
}

impl Default for Ask {
    fn default() -> Ask {
        Ask { cost: 1, priority: Priority::Normal }
    }
}

impl From<Priority> for Ask {
    fn from(priority: Priority) -> Ask {
        Ask { priority, ..Ask::default() }
    }
}
