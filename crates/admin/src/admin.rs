//! The control plane put together: who may ask, what is answered, and where it listens.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tollgate_storage::Store;
use tollgate_wire::is_grpc;
use tonic::Status;
use tower_service::Service;

use crate::answer::json;
use crate::api::{self, Actor};
use crate::connections::{self, Peer};
use crate::control::Control;
use crate::data_plane::{DataPlane, Notice};
use crate::fault::Fault;
use crate::grpc;
use crate::listening::Listening;
use crate::open::{Open, open_routes};
use crate::openapi::openapi;
use crate::token::AdminToken;

/// The control plane. Clones are handles to the same.
#[derive(Clone)]
pub struct Admin {
    control: Arc<Control>,
    token: AdminToken,
}

impl Admin {
    /// The control plane over a storage and a data plane, for whoever has the token.
    pub fn new(store: Store, plane: Arc<dyn DataPlane>, token: AdminToken) -> Admin {
        Admin { control: Arc::new(Control::new(store, plane)), token }
    }

    /// Everything it answers, the open endpoints included.
    pub fn router(&self, open: Open) -> Router {
        let guarded = api::routes()
            .route("/openapi.json", get(|| async { json(StatusCode::OK, &openapi()) }))
            .route_layer(from_fn_with_state(self.token.clone(), guard))
            .with_state(Arc::clone(&self.control));
        let grpc = grpc::routes(&self.control).layer(from_fn_with_state(self.token.clone(), guard));
        open_routes(open)
            .merge(guarded)
            .fallback(|| async { Fault::not_found("such resource: see /openapi.json") })
            .method_not_allowed_fallback(|| async {
                Fault::new(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "This resource has other methods: see `Allow`.",
                )
            })
            .layer(from_fn_with_state(grpc, apart))
    }

    /// Serves on `listening` until `stop` is done. What is under way then is finished, unless it takes too long.
    ///
    /// # Errors
    ///
    /// If the listener cannot be used.
    pub async fn serve(
        &self,
        listening: impl Into<Listening>,
        open: Open,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        connections::serve(listening.into(), self.router(open), stop).await
    }

    /// Reads the configuration file again and puts it into force with everything that the API made, as
    /// `POST /v1/config/reload` does. `actor` is whom the audit names: a signal, a watched file.
    ///
    /// # Errors
    ///
    /// The problem, as the API would tell it; nothing has changed then.
    pub async fn reload(&self, actor: &str) -> Result<Vec<Notice>, ReloadError> {
        let actor = actor.to_owned();
        let done = self.control.in_turn(|control| async move { control.reload(&actor).await });
        done.await.map_err(|fault| ReloadError::of(&fault))
    }

    /// Puts into force what other nodes have made of tenants and plans, together with the configuration in force. To be called
    /// when a storage that is shared says that they have changed.
    ///
    /// # Errors
    ///
    /// The problem, as the API would tell it; nothing has changed then.
    pub async fn refresh(&self) -> Result<Vec<Notice>, ReloadError> {
        let done = self.control.in_turn(|control| async move { control.refresh().await });
        done.await.map_err(|fault| ReloadError::of(&fault))
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("token", &self.token).finish_non_exhaustive()
    }
}

/// Why a configuration was not put into force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadError {
    why: String,
    is_passing: bool,
}

impl ReloadError {
    fn of(fault: &Fault) -> ReloadError {
        let is_passing = fault.status() == StatusCode::SERVICE_UNAVAILABLE;
        ReloadError { why: fault.to_string(), is_passing }
    }

    /// Whether it was not the configuration's fault: the storage did not work, and may again.
    pub fn is_passing(&self) -> bool {
        self.is_passing
    }
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for ReloadError {}

/// Sends gRPC calls another way: their paths, answers and faults are of another kind.
async fn apart(State(mut grpc): State<Router>, request: Request, next: Next) -> Response {
    if is_grpc(request.headers()) {
        let answered: Result<Response, Infallible> = grpc.call(request).await;
        return answered.unwrap_or_else(|never| match never {});
    }
    next.run(request).await
}

/// Lets in whoever has the token, before anything of the body is read.
async fn guard(State(token): State<AdminToken>, mut request: Request, next: Next) -> Response {
    if !bearer(request.headers()).is_some_and(|sent| token.is(sent)) {
        let fault = Fault::unauthorized();
        return if is_grpc(request.headers()) {
            Status::from(&fault).into_http()
        } else {
            fault.into_response()
        };
    }
    let peer = request.extensions().get::<ConnectInfo<Peer>>();
    if let Some(ConnectInfo(peer)) = peer {
        peer.trust();
    }
    let actor = peer.map_or_else(|| "admin".to_owned(), |peer| format!("admin@{}", peer.0.0.ip()));
    request.extensions_mut().insert(Actor(actor));
    next.run(request).await
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}
