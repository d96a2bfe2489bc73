//! The pacer as a middleware for reqwest.

use http::{Extensions, Uri};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};

use crate::retry::Call;
use crate::{Ask, Pacers};

/// Paces the requests of a reqwest client, and retries what is safe to retry.
///
/// A request that would have to wait too long fails with a [`TooLong`](crate::TooLong) inside
/// `reqwest_middleware::Error::Middleware`. Its [`Ask`] is taken from the request's extensions
/// (`RequestBuilder::with_extension`).
///
/// Who is asking is told by the request's own headers. Those that reqwest adds when it sends (`default_headers`) are not seen
/// here: clients that have their keys from there need [`Pacers`] of their own, one for each key.
///
/// Redirects are reqwest's to follow. Where they lead to another origin, the answer is that one's: the pacer of the
/// server that was asked learns nothing from it, and it is no reason to ask that one again.
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
        let (mut call, mut permit) = Call::begin(pacer, ask).await.map_err(Error::middleware)?;
        loop {
            let again = if call.is_last() { None } else { request.try_clone() };
            let method = request.method().clone();
            let asked = request.url().origin();
            let response = match next.clone().run(request, extensions).await {
                Ok(response) => response,
                Err(error) => {
                    if matches!(&error, Error::Reqwest(error) if error.is_connect()) {
                        permit.never_sent();
                    }
                    return Err(error);
                }
            };
            if response.url().origin() != asked {
                return Ok(response);
            }
            let heard = permit.heard(response.status(), response.headers());
            let Some(copy) = again else { return Ok(response) };
            let next_permit = call.again(&method, response.status(), &heard).await;
            let Some(next_permit) = next_permit else { return Ok(response) };
            (request, permit) = (copy, next_permit);
        }
    }
}
