//! The last refusals, so that "why was this request refused?" has an answer.

use std::collections::VecDeque;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;

use crate::times::Moment;

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    /// A limit or quota; `policy` and `source` say which.
    Limit,
    /// No key, or none that is good.
    Unauthorized,
    /// Bad keys too often from one address: `auth.failures`.
    TooManyFailures,
    /// Too much was pending at its upstream: backpressure.
    Overloaded,
    /// Where it is counted did not work, and it may not pass uncounted.
    Uncountable,
}

/// A request that was refused.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RefusedRequest {
    /// Its id, as the caller saw it.
    pub request_id: String,
    /// When it came.
    pub at: Moment,
    /// The status it was answered with.
    pub status: u16,
    /// Why, in one word.
    pub reason: RefusalReason,
    /// Its tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Its user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The id of its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Its route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The limit that refused it, as headers name it; nothing if it was no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Where that limit stands: `tenant:acme`, `plan:free`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What the request would have cost.
    pub cost: u64,
}

/// The last refusals of a worker, so many and no more.
///
/// ```
/// use tollgate_admin::{Moment, RefusalReason, RefusalRing, RefusedRequest};
/// use tollgate_core::Time;
///
/// let ring = RefusalRing::new(1);
/// for id in ["first", "second"] {
///     ring.remember(RefusedRequest {
///         request_id: id.to_owned(), at: Moment(Time::EPOCH), status: 429, cost: 1, tenant: None, user: None,
///         key: None, plan: None, route: None, policy: None, source: None, reason: RefusalReason::Limit,
///     });
/// }
/// assert!(ring.find("first").is_none());
/// assert_eq!(ring.find("second").unwrap().status, 429);
/// ```
#[derive(Debug)]
pub struct RefusalRing {
    room: usize,
    last: Mutex<VecDeque<RefusedRequest>>,
}

impl RefusalRing {
    /// A ring that remembers so many.
    pub fn new(room: usize) -> RefusalRing {
        RefusalRing { room, last: Mutex::new(VecDeque::new()) }
    }

    /// Remembers one, and forgets the oldest if there is no room.
    pub fn remember(&self, refused: RefusedRequest) {
        let mut last = self.last.lock();
        if last.len() >= self.room {
            last.pop_front();
        }
        if self.room > 0 {
            last.push_back(refused);
        }
    }

    /// The latest with this id.
    pub fn find(&self, request_id: &str) -> Option<RefusedRequest> {
        self.last.lock().iter().rev().find(|refused| refused.request_id == request_id).cloned()
    }
}
