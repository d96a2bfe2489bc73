//! The policy: what a person writes becomes what every request pays.
//!
//! [`Policy`](compile::Policy) is what a file amounts to; [`compile`] tells how it is made and asked. [`load`] takes bytes to a [`File`](shapes::File) in four steps, each of which
//! tells all faults it finds with their line and column:
//!
//! ```text
//! bytes ──source──▶ text ──parse──▶ tree of nodes ──validate──▶ valid tree ──de──▶ shapes ──compile──▶ Policy
//!                                                      ▲
//!                                  shapes ──schema──▶ rules
//! ```
//!
//! The shapes are the only place where a field is described. Their JSON Schema is what [`schema`] prints for
//! editors and what the validator checks by, so neither can accept what the other refuses.
//!
//! Shapes carry no places. A later check, such as whether a tenant's parent exists, names its place by a
//! [`Path`] and asks the [`Document`] where that stands.

mod api_key;
pub mod compile;
mod de;
mod diagnostic;
mod document;
mod doubts;
mod explain;
mod identity;
mod load;
mod node;
mod parse;
mod path;
mod render;
pub mod routes;
mod scalar;
mod schema;
mod secret;
pub mod shapes;
mod source;
mod text;
mod tree;
mod validate;
mod words;

pub use api_key::{ApiKey, fill_base62};
pub use diagnostic::{Diagnostic, Diagnostics, Record, Severity};
pub use document::Document;
pub use explain::{Explanation, Link, Question, Unexplained};
pub use identity::{Caller, Holder, counted_address};
pub use load::{Loaded, load, load_fragment};
pub use node::{Entry, Map, Node, Value};
pub use path::{Path, Segment};
pub use render::Style;
pub use schema::{schema, schema_of};
pub use source::{MAX_BYTES, Position, Source, Span};
pub use text::{
    AccessLog, Cidr, FilePath, HeaderName, Host, HttpUrl, Instant, KeyId, Label, ListenAddress,
    Method, OperationName, PlanName, RedisPrefix, RedisUrl, RoutePath, Sha256, TenantId, TextError,
    UpstreamName, UserName, ZoneName,
};
