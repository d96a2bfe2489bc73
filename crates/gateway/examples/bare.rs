//! Forwards everything and decides nothing: what a request costs before any limit.
//!
//! `cargo run --release --example bare -- 127.0.0.1:8080 http://127.0.0.1:3000`

use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use http::Response;
use tollgate_gateway::{
    Body, Connection, Forwarder, Gateway, Handler, Received, Settings, Trust, Upstream,
};
use tollgate_policy::shapes::{self, Server, Workers};
use tollgate_wire::HeadLines;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Bare(Arc<Upstream>);

impl Handler for Bare {
    async fn handle(
        &self,
        request: &mut Received,
        connection: &Connection,
        forwarder: &Forwarder,
    ) -> Response<Body> {
        match forwarder.forward(&self.0, request, HeadLines::default(), connection).await {
            Ok(response) => response,
            Err(error) => {
                let mut response = Response::new(Body::from(error.to_string()));
                *response.status_mut() = error.status();
                response
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(listen), Some(url)) = (args.next(), args.next()) else {
        return Err("usage: bare <address to listen on> <upstream's URL>".into());
    };
    let server =
        Server { listen: listen.parse()?, workers: Workers::Fixed(1), ..Server::default() };
    let upstream = shapes::Upstream {
        url: Some(url.parse()?),
        urls: None,
        backpressure: shapes::Backpressure::default(),
        connect_timeout_ms: 2000,
        response_timeout_ms: 60_000,
        rate_limit: None,
    };
    let upstream = Upstream::new(&upstream, Trust::system)?;
    let gateway = Gateway::bind(Settings::new(&server))?;
    writeln!(std::io::stdout(), "{}", gateway.address())?;
    gateway.start(move || Bare(Arc::clone(&upstream)))?.wait()?;
    Ok(())
}
