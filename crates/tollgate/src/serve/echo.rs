//! The built-in upstream: tells a caller what arrived.

use std::io;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use serde_json::{Map, Value, json};
use tollgate_gateway::{
    Body, Connection, Forwarder, Gateway, Handler, Received, Running, Settings,
};
use tollgate_policy::shapes::{Server, Workers};

struct Echo;

impl Handler for Echo {
    async fn handle(
        &self,
        request: &mut Received,
        _: &Connection,
        _: &Forwarder,
    ) -> Response<Body> {
        let headers: Map<String, Value> = request
            .headers()
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.to_string(), Value::String(value))
            })
            .collect();
        let seen = json!({
            "method": request.method().as_str(),
            "path": request.uri().path(),
            "query": request.uri().query(),
            "headers": headers,
        });
        let mut response = Response::new(Body::from(format!("{seen:#}\n")));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// Starts it on a free port of the loopback.
pub(crate) fn start() -> io::Result<Running> {
    let server = Server {
        listen: "127.0.0.1:0".parse().map_err(io::Error::other)?,
        workers: Workers::Fixed(1),
        drain_timeout_ms: 1000,
        ..Server::default()
    };
    Gateway::bind(Settings::new(&server))?.start(|| Echo)
}
