//! The pacer as a middleware for reqwest.

use std::sync::Arc;

use http::{Extensions, HeaderMap, Uri};
use reqwest::{Request, Response, Url};
use reqwest_middleware::{Error, Middleware, Next};
use tokio::time::Instant;

use crate::moved::{Moved, taken_along};
use crate::retry::{Call, Retry};
use crate::{Ask, Pacer, Pacers, Permit, TooLong};

/// Paces the requests of a reqwest client, and retries what is safe to retry.
///
/// A request that would have to wait too long fails with a [`TooLong`](crate::TooLong) inside
/// `reqwest_middleware::Error::Middleware`. Its [`Ask`] is taken from the request's extensions
/// (`RequestBuilder::with_extension`).
///
/// Who is asking is told by the request's own headers. Those that reqwest adds when it sends (`default_headers`) are not seen
/// here: clients that have their keys from there need [`Pacers`] of their own, one for each key.
///
/// Redirects are reqwest's to follow. Where they lead to another origin, the answer is that one's, and so its pacer learns from
/// it, under the credentials that reqwest takes along (not `Authorization`); it is no reason to ask the first one again. Where a
/// server leads to the same path of another, as from `http` to `https`, the next request to it waits for what both allow.
///
/// ```no_run
/// use reqwest_middleware::ClientBuilder;
/// use tollgate_client::{PaceMiddleware, Pacers, Settings};
///
/// # async fn example() -> reqwest_middleware::Result<()> {
/// let pacers = Pacers::new(Settings::new());
/// let client = ClientBuilder::new(reqwest::Client::new()).with(PaceMiddleware::new(pacers)).build();
/// let response = client.get("http://127.0.0.1:8080/v1/items").send().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PaceMiddleware {
    pacers: Pacers,
    moved: Arc<Moved>,
}

impl PaceMiddleware {
    /// A middleware over these pacers.
    pub fn new(pacers: Pacers) -> PaceMiddleware {
        PaceMiddleware { pacers, moved: Arc::default() }
    }

    /// The pacer of the server that a request will be led to, if the one that it goes to has moved.
    fn beyond(&self, who: &Who) -> Option<Pacer> {
        let to = self.moved.of(who.key)?;
        Some(self.pacers.pacer_for(&to, &taken_along(who.credentials.clone()), who.ask))
    }

    /// Leave of the server that a request will be led to, besides. That may take long: if the first one asks to be left alone
    /// meanwhile, it is not sent there either.
    async fn beyond_too(
        &self,
        who: &Who,
        (call, mut permit): (&mut Call, Permit),
    ) -> Result<(Permit, Option<Permit>), TooLong> {
        let Some(pacer) = self.beyond(who) else { return Ok((permit, None)) };
        loop {
            let mut beyond = None;
            let leave = async { call.also(&pacer).await.map(|leave| beyond = Some(leave)) };
            permit = permit.keep_back_until(leave).await?;
            if !permit.is_called_off() {
                return Ok((permit, beyond));
            }
            permit.never_sent();
            beyond.into_iter().for_each(Permit::never_sent);
            permit = call.begin_anew().await?;
        }
    }

    /// An answer came from another origin than was asked: it is that one's word. What was asked led there.
    fn heard_elsewhere(&self, who: &Who, sent: Sent, (asked, response): (&Url, &Response)) {
        let Sent { permit, beyond, at } = sent;
        permit.redirected();
        let to = response.url().as_str().parse::<Uri>().unwrap_or_default();
        let there = self.pacers.pacer_for(&to, &taken_along(who.credentials.clone()), who.ask);
        let permit = match beyond {
            Some(permit) if permit.is_of(&there) => permit,
            other => {
                other.into_iter().for_each(Permit::never_sent);
                there.sent_unasked(who.ask, at.elapsed())
            }
        };
        permit.heard(response.status(), response.headers());
        if response.url().path() == asked.path() {
            self.moved.note(who.key, &to);
        }
    }
}

/// Who asks for what.
struct Who {
    ask: Ask,
    key: u64,
    credentials: HeaderMap,
}

/// A request under way.
struct Sent {
    permit: Permit,
    /// Leave of the server that it will be led to.
    beyond: Option<Permit>,
    at: Instant,
}

#[async_trait::async_trait]
impl Middleware for PaceMiddleware {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response, Error> {
        let ask = extensions.get::<Ask>().copied().unwrap_or_default();
        // What reqwest accepts as a URL, `http` accepts as a URI; otherwise it is paced with others of its key.
        let uri = request.url().as_str().parse::<Uri>().unwrap_or_default();
        let credentials = self.pacers.credentials(request.headers());
        let who = Who { ask, key: self.pacers.key(&uri, &credentials, ask.operation), credentials };
        let pacer = self.pacers.pacer_for(&uri, request.headers(), ask);
        let (mut call, mut permit) = Call::begin(pacer, ask).await.map_err(Error::middleware)?;
        let (mut answered, mut retry) = (None, None);
        loop {
            let again = if call.is_last() { None } else { request.try_clone() };
            let (method, asked) = (request.method().clone(), request.url().clone());
            let beyond = match self.beyond_too(&who, (&mut call, permit)).await {
                Ok((leave, beyond)) => {
                    permit = leave;
                    beyond
                }
                // An answer is better than none: whoever may not wait so long gets the one that is there.
                Err(too_long) => return answered.ok_or_else(|| Error::middleware(too_long)),
            };
            // It may keep the connection that the next one needs.
            drop(answered.take());
            retry.take().into_iter().for_each(Retry::made);
            let at = Instant::now();
            let response = next.clone().run(request, extensions).await;
            let sent = Sent { permit, beyond, at };
            let response = match response {
                Ok(response) => response,
                Err(error) => {
                    sent.failed(&error, &asked);
                    return Err(error);
                }
            };
            if response.url().origin() != asked.origin() {
                self.heard_elsewhere(&who, sent, (&asked, &response));
                return Ok(response);
            }
            sent.beyond.into_iter().for_each(Permit::never_sent);
            let heard = sent.permit.heard(response.status(), response.headers());
            if !heard.is_refused && !response.status().is_server_error() {
                self.moved.forget(who.key);
            }
            let Some(copy) = again else { return Ok(response) };
            let leave = call.again(&method, response.status(), &heard).await;
            let Some((next_permit, allowed)) = leave else { return Ok(response) };
            (request, permit) = (copy, next_permit);
            (answered, retry) = (Some(response), Some(allowed));
        }
    }
}

impl Sent {
    /// There was no answer. If no connection could be made, nobody was asked; at least not the one it was to.
    fn failed(self, error: &Error, asked: &Url) {
        let Error::Reqwest(error) = error else { return };
        if !error.is_connect() {
            return;
        }
        self.beyond.into_iter().for_each(Permit::never_sent);
        match error.url() {
            Some(url) if url.origin() != asked.origin() => self.permit.redirected(),
            _ => self.permit.never_sent(),
        }
    }
}
