//! The pacer as a middleware for reqwest.

use http::{Extensions, Uri};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};

use crate::retry::is_safe;
use crate::{Ask, Pacers};

/// Paces the requests of a reqwest client, and retries what is safe to retry.
///
/// A request that would have to wait too long fails with a [`TooLong`](crate::TooLong) inside
/// `reqwest_middleware::Error::Middleware`. Its [`Ask`] is taken from the request's extensions
/// (`RequestBuilder::with_extension`).
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
}

impl PaceMiddleware {
    /// A middleware over these pacers.
    pub fn new(pacers: Pacers) -> PaceMiddleware {
        PaceMiddleware { pacers }
    }
}

#[async_trait::async_trait]
impl Middleware for PaceMiddleware {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let ask = extensions.get::<Ask>().copied().unwrap_or_default();
        // What reqwest accepts as a URL, `http` accepts as a URI; otherwise it is paced with others of its key.
        let uri = request.url().as_str().parse::<Uri>().unwrap_or_default();
        let pacer = self.pacers.pacer_for(&uri, request.headers(), ask);
        let mut permit = pacer.acquire(ask).await.map_err(Error::middleware)?;
        let mut attempts = 1;
        loop {
            let again =
                if attempts < pacer.settings().max_attempts { request.try_clone() } else { None };
            let method = request.method().clone();
            let response = next.clone().run(request, extensions).await?;
            let heard = permit.heard(response.status(), response.headers());
            let safe = is_safe(&method, response.status(), heard.is_refused, &heard.said);
            let Some(copy) = again.filter(|_| safe && pacer.may_retry()) else {
                return Ok(response);
            };
            let Ok(next_permit) = pacer.acquire(ask).await else { return Ok(response) };
            (request, permit) = (copy, next_permit);
            attempts += 1;
        }
    }
}
