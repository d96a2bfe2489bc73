//! The control plane, on a listener of its own.
//!
//! ```text
//! request ──guard (token)──▶ handler ──Control──▶ compile ──▶ store (durable) ──▶ put into force ──▶ answer
//!                                       │            ▲                                ▲
//!                                       └────── DataPlane: what requests are decided by ──┘
//! ```
//! Open to anybody: `/healthz` (the process lives), `/readyz` (it wants requests) and `/metrics`. Everything under `/v1`, and
//! its description at `/openapi.json`, is for whoever sends the [`AdminToken`].
//!
//! To start it: find the token, open the storage with a `watch_keys` that applies every change to the snapshot
//! which requests read, compile the first policy with what [`made`] answers, implement [`DataPlane`] over it ([`live`] does
//! the counters, [`RefusalRing`] the last refusals) and serve:
//!
//! ```no_run
//! use std::net::TcpListener;
//! use std::path::Path;
//! use std::sync::Arc;
//! use tollgate_admin::{Admin, AdminToken, DataPlane, Open};
//! use tollgate_storage::Store;
//!
//! async fn control(
//!     store: Store,
//!     plane: Arc<dyn DataPlane>,
//!     open: Open,
//! ) -> Result<(), Box<dyn std::error::Error>> {
//!     let given = std::env::var(AdminToken::VARIABLE).ok();
//!     let token = AdminToken::find(given.as_deref(), Path::new("./tollgate-data"))?;
//!     let admin = Admin::new(store, plane, token);
//!     // SIGHUP and a changed file take the same way as the API: `admin.reload("SIGHUP").await`.
//!     admin.serve(TcpListener::bind("127.0.0.1:9090")?, open, std::future::pending()).await?;
//!     Ok(())
//! }
//! ```

mod address;
mod admin;
mod answer;
mod api;
mod connections;
mod control;
mod data_plane;
mod fault;
pub mod grpc;
mod health;
mod idempotency;
mod if_match;
mod listening;
pub mod live;
mod open;
mod openapi;
mod refusals;
mod times;
mod token;

pub use address::{Exposed, check_address};
pub use admin::{Admin, ReloadError};
pub use control::made;
pub use data_plane::{ConfigInForce, ConfigText, DataPlane, NotReady, Notice, Ready};
pub use health::Health;
pub use listening::Listening;
pub use open::{Open, serve};
pub use refusals::{RefusalReason, RefusalRing, RefusedRequest};
pub use times::Moment;
pub use token::{AdminToken, TokenError};
