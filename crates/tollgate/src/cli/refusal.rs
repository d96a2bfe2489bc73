//! `tollgate explain --request-id`: why was this request refused?

use super::args::At;
use super::ask::Ask;
use super::client::Client;
use super::shown::one;
use crate::exit::Failure;

/// What a gateway remembers of a request that it refused lately.
pub(crate) fn explain(at: &At, request_id: &str) -> Result<(), Failure> {
    one(at, &Client::find(at)?.ask(Ask::get("/v1/refusals").segment(request_id))?)
}
