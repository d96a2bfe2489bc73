//! `tollgate.admin.v1.Admin`: the configuration over gRPC, on the port of the REST API and by its code path, and the reflection
//! that describes it.
//!
//! ```no_run
//! use tollgate_admin::grpc::v1::GetConfigRequest;
//! use tollgate_admin::grpc::v1::admin_client::AdminClient;
//! use tonic::metadata::AsciiMetadataValue;
//!
//! # async fn show(channel: tonic::transport::Channel, bearer: AsciiMetadataValue) -> Result<(), tonic::Status> {
//! let mut admin = AdminClient::new(channel);
//! let mut request = tonic::Request::new(GetConfigRequest {});
//! request.metadata_mut().insert("authorization", bearer);
//! println!("{}", admin.get_config(request).await?.into_inner().text);
//! # Ok(())
//! # }
//! ```
//!
//! The code of [`v1`] is made from `proto/` by `cargo xtask proto` and checked in, so that nothing is generated in a build.

mod service;
mod status;
mod tiers;

/// Messages, client and server, as `cargo xtask proto` makes them.
#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!("generated/tollgate.admin.v1.rs");
}

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use tonic::Status;
use tonic::codegen::Service;
use tonic::server::NamedService;
use tonic_reflection::server::Builder;

use crate::control::Control;
use service::Configuration;
use v1::admin_server::AdminServer;

/// What reflection tells, comments included.
const DESCRIPTORS: &[u8] = include_bytes!("generated/tollgate.admin.v1.bin");

/// Beside the text, a request has a version.
const ROOM: usize = 1024;

/// Every gRPC service, without its guard.
pub(crate) fn routes(control: &Arc<Control>) -> Router {
    let admin = AdminServer::new(Configuration::new(Arc::clone(control)))
        .max_decoding_message_size(tollgate_policy::MAX_BYTES + ROOM)
        .max_encoding_message_size(tollgate_policy::MAX_BYTES + ROOM);
    let reflection = || Builder::configure().register_encoded_file_descriptor_set(DESCRIPTORS);
    let readable = "the descriptors were made by `cargo xtask proto`";
    let router = Router::new().fallback(|| async {
        Status::unimplemented("There is no such method: reflection tells which there are.")
            .into_http::<Body>()
    });
    // Many clients still ask by the older name.
    let router = with(router, reflection().build_v1alpha().expect(readable));
    let router = with(router, reflection().build_v1().expect(readable));
    with(router, admin)
}

fn with<S, B>(router: Router, service: S) -> Router
where
    S: Service<Request, Response = axum::http::Response<B>, Error = Infallible>,
    S: NamedService + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    axum::http::Response<B>: axum::response::IntoResponse,
{
    router.route_service(&format!("/{}/{{method}}", S::NAME), service)
}
