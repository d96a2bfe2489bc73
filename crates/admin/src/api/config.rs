//! `/v1/config`: the configuration file.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;

use super::Actor;
use crate::answer::{Answer, Text, json, text_of, with_etag};
use crate::control::{Control, NewConfig, Replaced, config_tag};
use crate::data_plane::{DataPlane, Notice};
use crate::fault::Fault;
use crate::idempotency::{Idempotency, Told};
use crate::if_match::{IfMatch, must_match};

const YAML: HeaderValue = HeaderValue::from_static("application/yaml");

/// A configuration that is in force since this request.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InForceTold {
    /// What deserves a look.
    pub(crate) warnings: Vec<Notice>,
}

pub(super) async fn read(State(control): State<Arc<Control>>) -> Answer {
    let config = control.ask(DataPlane::config).await?;
    let tag = config_tag(&config.text);
    Ok(with_etag(text_of(StatusCode::OK, YAML, config.text.to_string()), tag))
}

pub(super) async fn replace(
    State(control): State<Arc<Control>>,
    Extension(Actor(actor)): Extension<Actor>,
    headers: HeaderMap,
    body: Text,
) -> Answer {
    let Ok(text) = String::from_utf8(body.0.to_vec()) else {
        return Err(Fault::invalid("the configuration is not UTF-8", "save it as UTF-8"));
    };
    let expected = IfMatch::of(&headers)?.ok_or_else(must_match)?;
    let Replaced { version, warnings } =
        control.replace_config(&actor, NewConfig { text, expected }).await?;
    Ok(with_etag(json(StatusCode::OK, &InForceTold { warnings }), version))
}

pub(super) async fn reload(
    State(control): State<Arc<Control>>,
    Extension(Actor(actor)): Extension<Actor>,
    headers: HeaderMap,
) -> Answer {
    let idempotency = Idempotency::of(&headers, "POST /v1/config/reload", &Bytes::new())?;
    let reload = |control: Arc<Control>| async move {
        if let Some(earlier) = idempotency.replay(&control).await? {
            return Ok(earlier);
        }
        let warnings = control.reload(&actor).await?;
        let told = Told::new(StatusCode::OK, &InForceTold { warnings });
        Ok(idempotency.done(&control, told).await)
    };
    control.in_turn(reload).await
}
