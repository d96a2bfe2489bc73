//! A client that slows down before it is refused.
//!
//! It reads what servers say about their limits in every answer, whoever they are ([`tollgate_wire::read`]), and sends no
//! faster than they allow. Near a limit it spreads what remains over the time that remains. Where others use the same key, it
//! notices by how fast the limit goes down and keeps to its share. A server that says nothing it gets to know by its
//! refusals.
//!
//! - [`PaceLayer`] goes around any tower service; with the feature `reqwest`, `PaceMiddleware` into a reqwest client.
//! - [`Pacers`] holds a [`Pacer`] for each server and key, and for each [operation](Ask::operation) that a program tells apart. Whoever has another HTTP client takes a pacer's [`Permit`] before
//!   sending and tells it of the answer.
//! - Requests wait in order of [`Priority`], as long as [`Settings`] allow; then they fail with [`TooLong`], which says how long
//!   it would have been. [`Pacer::status`] is something to show.
//!
//! ```
//! use std::convert::Infallible;
//! use http::{Request, Response};
//! use tollgate_client::{Pacers, PaceLayer, Settings};
//! use tower_layer::Layer;
//! use tower_service::Service;
//!
//! # #[derive(Clone)]
//! # struct Http;
//! # impl Service<Request<()>> for Http {
//! #     type Response = Response<()>;
//! #     type Error = Infallible;
//! #     type Future = std::future::Ready<Result<Response<()>, Infallible>>;
//! #     fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
//! #         std::task::Poll::Ready(Ok(()))
//! #     }
//! #     fn call(&mut self, _: Request<()>) -> Self::Future {
//! #         std::future::ready(Ok(Response::new(())))
//! #     }
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # let http = Http;
//! let pacers = Pacers::new(Settings::new());
//! let mut paced = PaceLayer::new(pacers).retrying().layer(http);
//!
//! let request = Request::get("https://api.example.com/v1/items").body(()).unwrap();
//! let response = paced.call(request).await.unwrap();
//! # assert_eq!(response.status(), 200);
//! # }
//! ```

mod ask;
mod body;
mod clock;
mod error;
mod layer;
#[cfg(feature = "reqwest")]
mod moved;
mod pace;
mod pacer;
mod pacers;
mod permit;
#[cfg(feature = "reqwest")]
mod reqwest;
mod retry;
mod room;
mod settings;
mod status;

pub use ask::{Ask, Priority};
pub use body::PacedBody;
pub use error::{Error, TooLong};
pub use layer::{Cloned, Once, PaceLayer, Paced, Replay};
pub use pacer::Pacer;
pub use pacers::Pacers;
pub use permit::{Heard, Permit};
#[cfg(feature = "reqwest")]
pub use reqwest::PaceMiddleware;
pub use settings::Settings;
pub use status::{LimitStatus, Status};

#[cfg(test)]
mod simulation;
