//! What a program decides about its waiting and retrying.

use std::time::Duration;

/// How long requests may wait, how many, and what is retried.
///
/// ```
/// use std::time::Duration;
/// use tollgate_client::Settings;
///
/// let settings = Settings::new().max_wait(Duration::from_secs(5)).max_attempts(2);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub(crate) max_wait: Duration,
    pub(crate) max_waiting: usize,
    pub(crate) max_attempts: u32,
    pub(crate) retry_ratio: f64,
    pub(crate) longest_silence: Duration,
}

impl Settings {
    /// 30 s of waiting, 10,000 requests that wait, 3 attempts, retries for a tenth of the requests; however long a
    /// server wants to be left alone, it is asked again after 5 minutes.
    pub const fn new() -> Settings {
        Settings {
            max_wait: Duration::from_secs(30),
            max_waiting: 10_000,
            max_attempts: 3,
            retry_ratio: 0.1,
            longest_silence: Duration::from_secs(300),
        }
    }

    /// How long a request may wait before it fails with [`TooLong`](crate::TooLong), its retries included. One whose wait is
    /// known to be longer fails at once.
    #[must_use]
    pub const fn max_wait(mut self, wait: Duration) -> Settings {
        self.max_wait = wait;
        self
    }

    /// How many requests may wait for one server and key.
    #[must_use]
    pub const fn max_waiting(mut self, requests: usize) -> Settings {
        self.max_waiting = requests;
        self
    }

    /// How often a request is sent at most; 1: no retries.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Settings {
        self.max_attempts = attempts;
        self
    }

    /// Retries for each request, on average. Beyond that a failing server is not asked more than it would be anyway.
    #[must_use]
    pub const fn retry_ratio(mut self, ratio: f64) -> Settings {
        self.retry_ratio = ratio;
        self
    }

    /// How long a server is left alone at most, whatever it says; then one request finds out.
    #[must_use]
    pub const fn longest_silence(mut self, silence: Duration) -> Settings {
        self.longest_silence = silence;
        self
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::new()
    }
}
