//! One request, one connection, one answer.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, USER_AGENT};
use http::{HeaderValue, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::answer::Answer;
use super::args::At;
use super::ask::Ask;
use super::connect::{NoConnection, connect};
use super::place::Gateway;
use crate::exit::Failure;

/// How long an answer may take: a year's usage is summed up in seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// The largest answer that is read.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// Asks one gateway.
#[derive(Debug)]
pub(crate) struct Client {
    gateway: Gateway,
    may_be_plain: bool,
    runtime: Runtime,
}

impl Client {
    pub(crate) fn find(at: &At) -> Result<Client, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Client { gateway: Gateway::find(at)?, may_be_plain: at.plain_http, runtime })
    }

    /// What was answered, if it was what was asked for; else why not, in words.
    pub(crate) fn ask(&self, ask: Ask) -> Result<Answer, Failure> {
        let answer = self.exchange(ask)?;
        if answer.is_good() { Ok(answer) } else { Err(Failure::Failed(answer.in_words())) }
    }

    /// What was answered, whatever it is.
    pub(crate) fn exchange(&self, ask: Ask) -> Result<Answer, Failure> {
        let answer = self.runtime.block_on(self.send(ask))?;
        if answer.status == 401 {
            return Err(Failure::Failed(format!(
                "{} does not accept this admin token (from {}): it is the one in the gateway's environment, else the one in \
                 its data folder",
                self.gateway.url, self.gateway.token_from
            )));
        }
        Ok(answer)
    }

    async fn send(&self, ask: Ask) -> Result<Answer, Failure> {
        let body_name = ask.body_name.clone();
        let request = self.request(ask)?;
        let stream = match connect(&self.gateway, self.may_be_plain).await {
            Ok(stream) => stream,
            Err(NoConnection::Other(failure)) => return Err(failure),
            Err(NoConnection::Unreachable(why)) => return Err(self.not_there(&why)),
        };
        let url = &self.gateway.url;
        let broken = |why: &dyn std::fmt::Display| {
            Failure::Failed(format!("{url} does not answer as an admin API does: {why}"))
        };
        let (mut sender, connection) =
            http1::handshake(stream).await.map_err(|why| broken(&why))?;
        // It moves the bytes. How it ends is told by whoever waits for them; after the answer it does not matter.
        let moving = tokio::spawn(connection);
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|why| broken(&why))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, MAX_BYTES).collect().await.map_err(|why| broken(&why))?;
            Ok(Answer {
                status: head.status.as_u16(),
                headers: head.headers,
                body: body.to_bytes(),
                body_name,
                url: url.to_string(),
            })
        };
        let answer = timeout(PATIENCE, exchange).await.unwrap_or_else(|_| {
            Err(Failure::Failed(format!("{url} has not answered for {} s", PATIENCE.as_secs())))
        });
        moving.abort();
        answer
    }

    fn request(&self, ask: Ask) -> Result<Request<Full<Bytes>>, Failure> {
        // The error would be about the token's characters, and must not show them.
        let mut token = HeaderValue::from_str(&format!("Bearer {}", self.gateway.token.reveal()))
            .map_err(|_| {
            let from = &self.gateway.token_from;
            Failure::Failed(format!("the admin token (from {from}) has characters that none has"))
        })?;
        token.set_sensitive(true);
        let target = format!("{}{}", self.gateway.url.path(), ask.target);
        let mut request = Request::builder()
            .method(ask.method)
            .uri(target)
            .header(HOST, self.gateway.url.authority())
            .header(USER_AGENT, concat!("tollgate/", env!("CARGO_PKG_VERSION")))
            .header(AUTHORIZATION, token);
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        request
            .body(Full::new(ask.body))
            .map_err(|why| Failure::Usage(format!("this cannot be sent: {why}")))
    }

    fn not_there(&self, why: &str) -> Failure {
        let Gateway { url, url_from, .. } = &self.gateway;
        Failure::Failed(format!(
            "no gateway answers at {url} (from {url_from}): {why}. Start it with `tollgate serve`, or say where it is: \
             --admin URL, TOLLGATE_ADMIN, or its folder with --data"
        ))
    }
}
