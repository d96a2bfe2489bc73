//! What the gateway answers itself, in the caller's protocol.

use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderValue, Response, StatusCode};
use tollgate_core::{PolicyName, Refusal, Scope, Span, Standing};
use tollgate_engine::Time;
use tollgate_gate::{Lines, Passage};
use tollgate_wire::{HeadLines, Line, Problem, Refused, Report};

use super::plane::Plane;
use super::request_id::RequestId;
use crate::body::Body;

/// Room for the headers of a refusal and its body, in bytes.
const USUAL_LINES: usize = 2048;

/// Answers one request.
#[derive(Debug)]
pub(crate) struct Answer {
    request_id: RequestId,
    is_grpc: bool,
}

impl Answer {
    pub(crate) fn new(request_id: RequestId, is_grpc: bool) -> Answer {
        Answer { request_id, is_grpc }
    }

    /// To a request of which nothing is known.
    pub(crate) fn plain(request_id: RequestId) -> Answer {
        Answer { request_id, is_grpc: false }
    }

    fn id(&self) -> &str {
        self.request_id.as_str()
    }

    fn finish(&self, response: Response<Bytes>) -> Response<Body> {
        response.map(Body::from)
    }

    fn problem(&self, problem: Problem) -> Response<Body> {
        let problem = problem.instance(self.id());
        self.finish(if self.is_grpc { problem.grpc() } else { problem.http() })
    }

    /// Something is wrong.
    pub(crate) fn fault(&self, status: StatusCode, detail: &str) -> Response<Body> {
        self.problem(Problem::new(status).detail(detail))
    }

    /// No key, or none that is good.
    pub(crate) fn unauthorized(&self) -> Response<Body> {
        self.problem(Problem::unauthorized())
    }

    /// A limit refused.
    pub(crate) fn refused(&self, passage: &Passage<'_>) -> Response<Body> {
        Lines::then(passage, |lines| {
            let refused = Refused::by_limit(&lines.report(), self.id());
            self.refuse(&refused.limit_headers(passage.shows_headers()))
        })
    }

    /// Where it is counted does not work, and it may not pass uncounted.
    pub(crate) fn unavailable(&self, what: &str) -> Response<Body> {
        let mut response = self.fault(StatusCode::SERVICE_UNAVAILABLE, what);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        response
    }

    /// Too much is pending.
    pub(crate) fn overloaded(&self, source: &str, wait: Duration) -> Response<Body> {
        self.refuse(&Refused::by_backpressure(source, wait, self.id()))
    }

    /// Bad keys too often.
    pub(crate) fn too_many_failures(
        &self,
        plane: &Plane,
        wait: Duration,
        now: Time,
    ) -> Response<Body> {
        let limit = plane.failures().limit();
        let standing = Standing { limit: limit.capacity(), remaining: 0, reset_after: wait };
        let wait = Refusal::Wait(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX - 1).max(1));
        let lines = [Line::new(PolicyName::new(Scope::Ip, Span::Second), standing)
            .source("auth.failures")
            .seconds(limit.window_secs())
            .refusal(Some(wait))];
        let report = Report::refused(&lines, 0, now);
        self.refuse(&Refused::by_limit(&report, self.id()))
    }

    fn refuse(&self, refused: &Refused<'_>) -> Response<Body> {
        if self.is_grpc {
            return self.finish(refused.grpc());
        }
        let mut lines = HeadLines::with_capacity(USUAL_LINES);
        let status = refused.http_lines(&mut lines);
        let mut response = Response::new(Body::behind(lines));
        *response.status_mut() = status;
        response
    }
}
