//! How the layer answers a request itself: in its protocol, with its own id.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Method, Response};
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
    is_head: bool,
}

impl Answer {
    pub(crate) fn to(head: Head<'_>) -> Answer {
        let id = head.headers.get(&names::X_REQUEST_ID);
        let id = id.filter(|id| id.len() <= LONGEST_ID && id.to_str().is_ok());
        let is_head = *head.method == Method::HEAD;
        Answer { request_id: id.cloned(), is_grpc: is_grpc(head.headers), is_head }
    }

    pub(crate) fn id(&self) -> &str {
        self.request_id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or_default()
    }

    pub(crate) fn refuse(&self, refused: &Refused<'_>) -> Response<Bytes> {
        self.fit(if self.is_grpc { refused.grpc() } else { refused.http() })
    }

    pub(crate) fn overloaded(&self, wait: Duration) -> Response<Bytes> {
        self.refuse(&Refused::by_backpressure(SERVICE, wait, self.id()))
    }

    pub(crate) fn problem(&self, problem: Problem) -> Response<Bytes> {
        let problem = match self.id() {
            "" => problem,
            id => problem.instance(id),
        };
        self.fit(if self.is_grpc { problem.grpc() } else { problem.http() })
    }

    /// The answer to HEAD tells how long its content would be. Over HTTP/2 hyper sends what it is given, and callers break such a
    /// stream off.
    fn fit(&self, mut response: Response<Bytes>) -> Response<Bytes> {
        if self.is_head {
            let content = std::mem::take(response.body_mut());
            response.headers_mut().insert(CONTENT_LENGTH, content.len().into());
        }
        response
    }
}
