//! The client's time: the wall clock as it was at the start, moved on by the runtime's. So a test that pauses the runtime's
//! time pauses all of it.

use std::time::SystemTime;

use tokio::time::Instant;
use tollgate_core::Time;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
    wall: Time,
}

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    pub(crate) fn start() -> Clock {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Clock { origin: Instant::now(), wall: Time::EPOCH + wall }
    }

    pub(crate) fn now(&self) -> Time {
        self.wall + self.origin.elapsed()
    }
}
