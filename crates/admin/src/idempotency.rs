//! `Idempotency-Key`: a POST that is sent again is answered again, and done once.
//!
//! What was answered is stored together with what was done, in one step, where what is done is stored. A counter's reset and a reload
//! are not: their answer is stored right after them, before the next has its turn. A secret is never part of it: a replayed issue
//! of a key tells everything but the key.

use axum::body::Bytes;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_core::Time;
use tollgate_policy::Sha256;
use tollgate_storage::{Change, IdempotentAnswer};

use crate::answer::{Answer, json, with_etag};
use crate::control::Control;
use crate::fault::Fault;

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const LONGEST: usize = 255;

/// An answer that may be given again.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    status: StatusCode,
    rest: Rest,
}

/// What is remembered of an answer beside its status.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Rest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    location: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    body: Option<Value>,
}

impl Told {
    /// Without a body.
    pub(crate) fn nothing() -> Told {
        Told { status: StatusCode::NO_CONTENT, rest: Rest::default() }
    }

    pub(crate) fn new(status: StatusCode, body: &impl Serialize) -> Told {
        let body = serde_json::to_value(body).ok();
        Told { status, rest: Rest { body, ..Rest::default() } }
    }

    /// Something was made: where it is, and at which version if that is known.
    pub(crate) fn made(location: String, etag: Option<String>, body: &impl Serialize) -> Told {
        let mut told = Told::new(StatusCode::CREATED, body);
        (told.rest.location, told.rest.etag) = (Some(location), etag);
        told
    }

    /// The same with what is told once and not remembered.
    pub(crate) fn with_secret(mut self, name: &str, secret: &str) -> Told {
        if let Some(Value::Object(body)) = &mut self.rest.body {
            body.insert(name.to_owned(), secret.into());
        }
        self
    }

    pub(crate) fn response(self) -> Response {
        let Rest { location, etag, body } = self.rest;
        let mut response = match body {
            Some(body) => json(self.status, &body),
            None => self.status.into_response(),
        };
        if let Some(location) = location.and_then(|text| HeaderValue::from_str(&text).ok()) {
            response.headers_mut().insert(LOCATION, location);
        }
        match etag {
            Some(etag) => with_etag(response, etag),
            None => response,
        }
    }
}

/// What tells a request from others.
#[derive(Clone, Debug)]
pub(crate) struct Idempotency {
    key: Option<String>,
    fingerprint: Sha256,
}

impl Idempotency {
    /// Of a request that does `what` with this body.
    pub(crate) fn of(headers: &HeaderMap, what: &str, body: &Bytes) -> Result<Idempotency, Fault> {
        let key = headers.get(IDEMPOTENCY_KEY).map(|value| {
            let text = value.to_str().ok().filter(|text| (1..=LONGEST).contains(&text.len()));
            text.map(str::to_owned).ok_or_else(|| {
                Fault::bad_request("`Idempotency-Key` is 1 to 255 ASCII characters.")
            })
        });
        let request = [what.as_bytes(), b"\n", body].concat();
        Ok(Idempotency { key: key.transpose()?, fingerprint: Sha256::of(&request) })
    }

    /// Does it, unless it has been answered before.
    ///
    /// What refuses it may be the same request, which was sent before and has been done meanwhile, here or by another node: a
    /// tenant that is there already, a key that is replaced. So whoever is refused looks again for that one's answer.
    pub(crate) async fn once(
        &self,
        control: &Control,
        work: impl Future<Output = Answer>,
    ) -> Answer {
        if let Some(earlier) = self.replay(control).await? {
            return Ok(earlier);
        }
        match work.await {
            Ok(done) => Ok(done),
            Err(why) => self.replay(control).await?.ok_or(why),
        }
    }

    /// Remembers what was answered to something that is done already, and answers it. It is done even if it cannot be remembered.
    pub(crate) async fn done(&self, control: &Control, told: Told) -> Response {
        let mut changes = Vec::new();
        self.remember(&mut changes, &told, control.now());
        if !changes.is_empty()
            && let Err(why) = control.store.commit(changes).await
        {
            tracing::warn!("the answer to an `Idempotency-Key` is not remembered: {why}");
        }
        told.response()
    }

    /// What was answered to the same request before. Whoever does what nothing refuses the second time asks for it in a turn.
    pub(crate) async fn replay(&self, control: &Control) -> Result<Option<Response>, Fault> {
        let Some(key) = &self.key else { return Ok(None) };
        let earlier = control.store.answer_to(key, control.now()).await?;
        earlier.map(|answer| self.again(&answer)).transpose()
    }

    /// The same answer again, if the request is the same.
    fn again(&self, answer: &IdempotentAnswer) -> Result<Response, Fault> {
        if answer.fingerprint != self.fingerprint {
            return Err(Fault::invalid(
                "this `Idempotency-Key` was sent with another request",
                "use a new one for each request, and the same only to repeat one",
            ));
        }
        let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
        let rest: Rest = serde_json::from_str(&answer.body).unwrap_or_default();
        let mut response = Told { status, rest }.response();
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        Ok(response)
    }

    /// Adds to `changes` that this is the answer. It must hold no secret.
    pub(crate) fn remember(&self, changes: &mut Vec<Change>, told: &Told, at: Time) {
        let Some(key) = &self.key else { return };
        changes.push(Change::Remember(Box::new(IdempotentAnswer {
            key: key.clone(),
            fingerprint: self.fingerprint,
            status: told.status.as_u16(),
            body: serde_json::to_string(&told.rest).unwrap_or_default(),
            at,
        })));
    }
}
