//! What may be sent again.

use http::{Method, StatusCode};
use tollgate_wire::read::Said;

/// Retries that may still be made: every request adds a part of one.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    left: f64,
    ratio: f64,
}

/// What a client that has sent little may retry.
const AT_FIRST: f64 = 5.0;
/// What a client that has sent much may retry at once.
const MOST: f64 = 50.0;

impl Budget {
    pub(crate) fn new(ratio: f64) -> Budget {
        Budget { left: AT_FIRST, ratio: ratio.clamp(0.0, 1.0) }
    }

    pub(crate) fn earn(&mut self) {
        self.left = (self.left + self.ratio).min(MOST);
    }

    pub(crate) fn spend(&mut self) -> bool {
        let is_enough = self.left >= 1.0;
        if is_enough {
            self.left -= 1.0;
        }
        is_enough
    }
}

/// Whether the same request may be sent again after this answer.
///
/// A request that a limit refused was not begun, so it may, whatever it does. One that met a server in trouble may have
/// been carried out: only what is idempotent may be repeated. What a server says about it goes first.
pub(crate) fn is_safe(method: &Method, status: StatusCode, is_refused: bool, said: &Said) -> bool {
    if said.should_retry == Some(false) {
        return false;
    }
    let is_idempotent = method.is_idempotent();
    match status.as_u16() {
        // Most of what is forbidden stays so. A limit that says when it will not is a limit.
        403 => is_refused && is_idempotent && said.retry_after.is_some(),
        502..=504 => is_idempotent,
        _ => is_refused,
    }
}
