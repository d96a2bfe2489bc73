//! `/v1/refusals/{request_id}`: why was this request refused?

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use crate::answer::{Answer, Id, json};
use crate::control::Control;
use crate::fault::Fault;

pub(super) async fn read(State(control): State<Arc<Control>>, Id(id): Id) -> Answer {
    let asked = id.clone();
    match control.ask(move |plane| plane.refusal(&asked)).await? {
        Some(refused) => Ok(json(StatusCode::OK, &refused)),
        None => Err(Fault::not_found(&format!("refusal of request {id:?} among the last ones"))),
    }
}
