//! How the layer answers a request itself: in its protocol, with its own id.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response};
use tollgate_wire::{Problem, Refused, is_grpc, names};

use crate::head::Head;

/// Where too much is pending, as refusals name it.
const SERVICE: &str = "service";

/// Ids that are longer are not repeated to the caller.
const LONGEST_ID: usize = 128;

/// What of a request an answer depends on.
#[derive(Debug)]
pub(crate) struct Answer {
    request_id: Option<HeaderValue>,
    is_grpc: bool,
}

impl Answer {
    pub(crate) fn to(head: Head<'_>) -> Answer {
        let id = head.headers.get(&names::X_REQUEST_ID);
        let id = id.filter(|id| id.len() <= LONGEST_ID && id.to_str().is_ok());
        Answer { request_id: id.cloned(), is_grpc: is_grpc(head.headers) }
    }

    pub(crate) fn id(&self) -> &str {
        self.request_id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or_default()
    }

    pub(crate) fn refuse(&self, refused: &Refused<'_>) -> Response<Bytes> {
        if self.is_grpc { refused.grpc() } else { refused.http() }
    }

    pub(crate) fn overloaded(&self, wait: Duration) -> Response<Bytes> {
        self.refuse(&Refused::by_backpressure(SERVICE, wait, self.id()))
    }

    pub(crate) fn problem(&self, problem: Problem) -> Response<Bytes> {
        let problem = match self.id() {
            "" => problem,
            id => problem.instance(id),
        };
        if self.is_grpc { problem.grpc() } else { problem.http() }
    }
}
