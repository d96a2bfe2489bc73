//! What a program can show of its pace.

use std::time::Duration;

/// How things stand with one server and key.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The limits that the server has told of.
    pub limits: Vec<LimitStatus>,
    /// Requests that are on their way.
    pub in_flight: u64,
    /// Requests that wait.
    pub waiting: usize,
    /// When the next request may go; zero: now.
    pub next_in: Duration,
}

/// One limit, as last heard of.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitStatus {
    /// What the server calls it; empty where it names none.
    pub name: String,
    /// How much it admits, if the server says so.
    pub limit: Option<u64>,
    /// How much was left, after what is in flight.
    pub remaining: u64,
    /// Until it is full again or its window ends, if the server says so.
    pub reset_after: Option<Duration>,
    /// How many clients seem to share it, this one included.
    pub sharers: f64,
}
