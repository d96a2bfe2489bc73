//! The control plane, on a listener of its own.
//!
//! So far what needs no token: `/healthz` (the process lives), `/readyz` (it wants requests) and `/metrics`.

mod health;
mod open;

pub use health::Health;
pub use open::{Open, serve};
