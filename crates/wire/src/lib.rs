//! What callers of a rate-limited service see, written and read in one place.
//!
//! **Writing.** A [`Line`] is what a caller may know of one limit, a [`Report`] the lines of its chain: it
//! [writes](Report::write) the limit headers. A request that may not pass is [`Refused`], with a problem body
//! or, to a gRPC call ([`is_grpc`]), a status. Everything else that goes wrong is a [`Problem`].
//!
//! **Reading.** [`read`](read::read) understands what servers say about their limits, ours and others': the
//! IETF's fields in their drafts, `X-RateLimit-*` in its dialects, `Retry-After` in all its forms.
//!
//! The headers of a response go out with every request, so writing them costs one buffer, of which each value is
//! a slice. Nothing that is read can panic, and absurd values are left out.

mod form;
mod grpc;
mod head_lines;
mod ink;
mod json;
mod lasting;
mod limit_headers;
mod limit_text;
mod line;
mod moment;
pub mod names;
mod page;
mod problem;
mod protobuf;
pub mod read;
mod refusal;
mod refusal_form;
mod report;

pub use grpc::{Code, is_grpc};
pub use head_lines::HeadLines;
pub use limit_headers::LimitHeaders;
pub use limit_text::LimitText;
pub use line::Line;
pub use problem::{JSON_PROBLEM, Problem};
pub use refusal::Refused;
pub use report::Report;

use http::HeaderValue;
use tollgate_core::PolicyName;

/// The value of [`X_RATELIMIT_DEGRADED`](names::X_RATELIMIT_DEGRADED): which limit was skipped.
pub fn degraded_by(name: PolicyName) -> Option<HeaderValue> {
    let mut page = page::Page::with_capacity(32);
    page.name(name);
    HeaderValue::try_from(page.finish()).ok()
}
