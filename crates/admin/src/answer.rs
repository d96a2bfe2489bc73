//! Answers, and what every request may bring: a body, an id in its path, a page of a list.

use std::error::Error as _;
use std::str::FromStr;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tollgate_policy::load_fragment;
use tollgate_storage::PageOf;

use crate::fault::Fault;

pub(crate) type Answer = Result<Response, Fault>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// An answer of JSON. Nobody may keep it: it may hold a secret, and it may change at once.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_string(body) {
        Ok(text) => text_of(status, JSON, text),
        Err(why) => Fault::new(StatusCode::INTERNAL_SERVER_ERROR, why.to_string()).into_response(),
    }
}

pub(crate) fn text_of(status: StatusCode, kind: HeaderValue, text: String) -> Response {
    (status, [(CONTENT_TYPE, kind), (CACHE_CONTROL, NO_STORE)], text).into_response()
}

pub(crate) fn with_etag(mut response: Response, version: impl std::fmt::Display) -> Response {
    if let Ok(value) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert(ETAG, value);
    }
    response
}

/// A body, whole, whose media type is one that is read here.
#[derive(Debug)]
pub(crate) struct Text(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for Text {
    type Rejection = Fault;

    async fn from_request(request: Request, state: &S) -> Result<Text, Fault> {
        let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        if !kind.is_none_or(is_readable) {
            let right =
                "Send JSON (`Content-Type: application/json`) or YAML (`application/yaml`).";
            return Err(Fault::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, right));
        }
        Bytes::from_request(request, state).await.map(Text).map_err(|why| match why {
            BytesRejection::FailedToBufferBody(_)
                if why.status() == StatusCode::PAYLOAD_TOO_LARGE =>
            {
                Fault::new(StatusCode::PAYLOAD_TOO_LARGE, "The body is too large.")
            }
            _ => Fault::bad_request("The body did not arrive whole."),
        })
    }
}

fn is_readable(kind: &[u8]) -> bool {
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let kinds: [&[u8]; 4] =
        [b"application/json", b"application/yaml", b"application/x-yaml", b"text/yaml"];
    kinds.iter().any(|known| kind.eq_ignore_ascii_case(known))
}

impl Text {
    /// The shape it has, by the rules of the file.
    pub(crate) fn read<T: JsonSchema + DeserializeOwned>(&self) -> Result<T, Fault> {
        Ok(load_fragment::<T>("body", &self.0)?.value)
    }
}

/// The last part of a path, which names something.
#[derive(Debug)]
pub(crate) struct Id(pub(crate) String);

impl Id {
    /// As a name. What is no name is nobody's.
    pub(crate) fn name<T: FromStr>(&self, what: &str) -> Result<T, Fault> {
        self.0.parse().map_err(|_| Fault::not_found(&format!("{what} of that name")))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Id, Fault> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        path.map(|Path(id)| Id(id)).map_err(|why| Fault::bad_request(why.body_text()))
    }
}

/// What stands behind the `?`.
#[derive(Debug)]
pub(crate) struct Asked<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Asked<T>, Fault> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(asked)| Asked(asked)).map_err(|why| misread(&why))
    }
}

/// Why a query is not understood. All its values are text, so it is the name of one that is wrong.
fn misread(why: &QueryRejection) -> Fault {
    let reason = why.source().map_or_else(|| why.body_text(), ToString::to_string);
    if let Some((_, rest)) = reason.split_once("unknown field ") {
        let (name, known) = rest.split_once(", expected ").unwrap_or((rest, "no parameter"));
        let known = known.trim_start_matches("one of ");
        return Fault::bad_request(format!("There is no parameter {name}: there is {known}."));
    }
    match reason.split_once("duplicate field ") {
        Some((_, name)) => Fault::bad_request(format!("The parameter {name} is written twice.")),
        None => Fault::bad_request("What stands behind the `?` is not `name=value&…`."),
    }
}

/// Which page of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageAsked {
    pub(crate) cursor: Option<String>,
    pub(crate) limit: Option<String>,
}

/// Rows of a page unless said otherwise.
const ROWS: usize = 100;

/// How many rows are told where `limit` was asked for.
pub(crate) fn rows(limit: Option<&str>, (usual, most): (usize, usize)) -> Result<usize, Fault> {
    let Some(text) = limit else { return Ok(usual) };
    let rows = text.parse().ok().filter(|rows| (1..=most).contains(rows));
    rows.ok_or_else(|| {
        Fault::bad_request(format!(
            "`limit` is a whole number from 1 to {most}: leave it out for {usual}."
        ))
    })
}

impl PageAsked {
    pub(crate) fn rows(&self) -> Result<usize, Fault> {
        rows(self.limit.as_deref(), (ROWS, PageOf::MOST))
    }

    pub(crate) fn page(&self) -> Result<PageOf, Fault> {
        let after = self.cursor.as_deref().map(str::parse).transpose()?;
        Ok(PageOf { after, limit: self.rows()? })
    }
}

/// A page of a list, as an answer has it.
#[derive(Debug, Serialize)]
pub(crate) struct PageTold<T> {
    /// The rows.
    pub(crate) items: Vec<T>,
    /// What to send as `cursor` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}
