//! `Idempotency-Key`: a POST that is sent again is answered again, and done once.
//!
//! What was answered is stored together with what was done, in one step. A secret is never part of it: a replayed
//! issue of a key tells everything but the key.

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::Value;
use tollgate_core::Time;
use tollgate_policy::Sha256;
use tollgate_storage::{Change, IdempotentAnswer};

use crate::answer::{Answer, json};
use crate::control::Control;
use crate::fault::Fault;

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const LONGEST: usize = 255;

/// What tells a request from others.
#[derive(Debug)]
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

    /// What was answered to the same request before.
    async fn replay(&self, control: &Control) -> Result<Option<Response>, Fault> {
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
        let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let mut response = json(status, &body);
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        Ok(response)
    }

    /// Adds to `changes` that this is the answer. It must hold no secret.
    pub(crate) fn remember(
        &self,
        changes: &mut Vec<Change>,
        answer: (StatusCode, &Value),
        at: Time,
    ) {
        let Some(key) = &self.key else { return };
        changes.push(Change::Remember(Box::new(IdempotentAnswer {
            key: key.clone(),
            fingerprint: self.fingerprint,
            status: answer.0.as_u16(),
            body: answer.1.to_string(),
            at,
        })));
    }
}
