//! Answers that are not a limit's: who are you, no such route, the upstream is down. Problem details
//! (RFC 9457) for HTTP, a status for gRPC; the control plane answers its faults with them too.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::grpc::{self, Code};
use crate::head_lines::set;
use crate::names;

/// The media type of problem details.
pub const JSON_PROBLEM: HeaderValue = HeaderValue::from_static(JSON_PROBLEM_TEXT);

pub(crate) const JSON_PROBLEM_TEXT: &str = "application/problem+json";

/// How a caller may show who it is.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"tollgate\"");

/// One fault, as HTTP or gRPC tells it.
///
/// ```
/// use http::StatusCode;
/// use tollgate_wire::Problem;
///
/// let response = Problem::new(StatusCode::NOT_FOUND)
///     .detail("No route matches GET /nowhere.")
///     .instance("req-1")
///     .http();
/// assert_eq!(response.status(), 404);
/// assert_eq!(
///     response.body(),
///     r#"{"type":"about:blank","title":"Not Found","status":404,"detail":"No route matches GET /nowhere.","instance":"req-1"}"#
/// );
/// ```
#[derive(Clone, Debug)]
#[must_use = "it is answered by `http` or `grpc`"]
pub struct Problem {
    status: StatusCode,
    kind: Option<String>,
    title: Option<String>,
    detail: Option<String>,
    instance: Option<String>,
    members: Map<String, Value>,
}

impl Problem {
    /// A fault that its status describes.
    pub fn new(status: StatusCode) -> Problem {
        let members = Map::new();
        Problem { status, kind: None, title: None, detail: None, instance: None, members }
    }

    /// A missing, unknown, expired or revoked key: one and the same answer, so that nobody learns which.
    pub fn unauthorized() -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED).detail("A valid API key is needed.")
    }

    /// A URI that tells this kind of fault from others; `about:blank` if unsaid.
    pub fn kind(mut self, uri: impl Into<String>) -> Problem {
        self.kind = Some(uri.into());
        self
    }

    /// What such faults have in common; the status's own name if unsaid.
    pub fn title(mut self, title: impl Into<String>) -> Problem {
        self.title = Some(title.into());
        self
    }

    /// What is wrong here, and what would be right.
    pub fn detail(mut self, detail: impl Into<String>) -> Problem {
        self.detail = Some(detail.into());
        self
    }

    /// The request's id, which also becomes the response's `X-Request-Id`.
    pub fn instance(mut self, request_id: impl Into<String>) -> Problem {
        self.instance = Some(request_id.into());
        self
    }

    /// A member of your own. What cannot be written as JSON is left out.
    pub fn member(mut self, name: &str, value: impl Serialize) -> Problem {
        if let Ok(value) = serde_json::to_value(value) {
            self.members.insert(name.to_owned(), value);
        }
        self
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    fn shown_title(&self) -> &str {
        let reason = || self.status.canonical_reason().unwrap_or("Error");
        self.title.as_deref().unwrap_or_else(reason)
    }

    /// The body alone.
    pub fn body(&self) -> Value {
        let mut body = Map::new();
        body.insert("type".into(), self.kind.as_deref().unwrap_or("about:blank").into());
        body.insert("title".into(), self.shown_title().into());
        body.insert("status".into(), self.status.as_u16().into());
        if let Some(detail) = &self.detail {
            body.insert("detail".into(), detail.as_str().into());
        }
        if let Some(instance) = &self.instance {
            body.insert("instance".into(), instance.as_str().into());
        }
        // The standard members are not to be overwritten.
        for (name, value) in &self.members {
            body.entry(name.clone()).or_insert_with(|| value.clone());
        }
        Value::Object(body)
    }

    /// As HTTP.
    pub fn http(&self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(self.body().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        set(headers, CONTENT_TYPE, JSON_PROBLEM);
        // An intermediary may cache a 404 unless told not to (RFC 9110, 15.1).
        set(headers, CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::UNAUTHORIZED {
            set(headers, WWW_AUTHENTICATE, CHALLENGE);
        }
        if let Some(id) = self.instance.as_deref().and_then(request_id_value) {
            set(headers, &names::X_REQUEST_ID, id);
        }
        response
    }

    /// As gRPC: the code that stands for the status, in trailers only.
    pub fn grpc(&self) -> Response<Bytes> {
        let message = self.detail.as_deref().unwrap_or_else(|| self.shown_title());
        let mut response = grpc::response(Code::of(self.status), message, None);
        let headers = response.headers_mut();
        if let Some(id) = self.instance.as_deref().and_then(request_id_value) {
            set(headers, &names::X_REQUEST_ID, id);
        }
        response
    }
}

/// A request id as a header; `None` for text that no header can hold.
fn request_id_value(id: &str) -> Option<HeaderValue> {
    if id.is_empty() { None } else { HeaderValue::from_str(id).ok() }
}

/// Whether a header can hold a text, and it holds something.
pub(crate) fn is_request_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte == b'\t' || (byte >= 32 && byte != 127))
}
