//! The data plane: takes requests over HTTP/1.1 and HTTP/2 and forwards them to upstreams.
//!
//! ```text
//! caller ──▶ connection ──▶ entry ──▶ Handler::handle ──▶ Forwarder::forward ──▶ upstream
//!            bounded        no faults  decides             own connections
//! ```
//! A [`Gateway`] is bound to an address and started with a [`Handler`], which decides every request in one function.
//! Each worker is a thread with a runtime, a listener and upstream connections of its own.

mod body;
mod caller;
mod connection;
mod counts;
mod date;
mod entry;
mod fault;
mod forward;
mod gateway;
mod h1;
mod handler;
mod http2;
pub mod law;
mod listen;
mod panics;
mod presence;
mod received;
mod request_body;
mod settings;
mod socket;
mod stream;
mod ticker;
mod tls;
mod upgrade;
mod upstream;
mod watched;
mod worker;

pub use body::Body;
pub use caller::caller_address;
pub use connection::Connection;
pub use counts::Counts;
pub use fault::Fault;
pub use forward::{ForwardCause, ForwardError, Forwarder};
pub use gateway::{Gateway, Running, Stop, Tuning};
pub use handler::Handler;
pub use received::Received;
pub use request_body::{RequestBody, RequestBodyError};
pub use settings::Settings;
pub use tls::{Certificates, TlsError, Trust};
pub use upstream::Upstream;
