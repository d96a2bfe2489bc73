//! A service of which few calls may be under way at once.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};
use tollgate_server::{Caller, Limits};
use tower_layer::Layer;
use tower_service::Service;

use crate::strategies::PausedClock;
use crate::support::{ask, policy, text};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Serves as many at once as it has slots, as long as `x-takes-secs` says. Whoever made it ready has a slot.
struct Slots {
    all: Arc<Semaphore>,
    coming: Option<Boxed<OwnedSemaphorePermit>>,
    slot: Option<OwnedSemaphorePermit>,
}

impl Slots {
    fn new(count: usize) -> Slots {
        Slots { all: Arc::new(Semaphore::new(count)), coming: None, slot: None }
    }
}

impl Clone for Slots {
    fn clone(&self) -> Slots {
        Slots { all: Arc::clone(&self.all), coming: None, slot: None }
    }
}

impl Service<Request<()>> for Slots {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Boxed<Result<Response<Full<Bytes>>, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.slot.is_none() {
            let all = &self.all;
            let coming = self.coming.get_or_insert_with(|| {
                let slot = Arc::clone(all).acquire_owned();
                Box::pin(async move { slot.await.unwrap() })
            });
            self.slot = Some(ready!(coming.as_mut().poll(cx)));
            self.coming = None;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let slot = self.slot.take().expect("called without being ready");
        let takes = text(request.headers(), "x-takes-secs").parse().unwrap_or(0);
        Box::pin(async move {
            if takes > 0 {
                sleep(Duration::from_secs(takes)).await;
            }
            drop(slot);
            Ok(Response::default())
        })
    }
}

const POLICY: &str = "
plans:
  slow: { rate_limit: { sustained: { rate: 1 }, strategy: queue, queue: { max_wait_ms: 5000 } } }
  quick: { rate_limit: { sustained: { rate: 1000 } } }
tenants: [ { id: acme, plan: slow }, { id: other, plan: quick } ]
";

fn of(tenant: &str, takes_secs: u64) -> Request<()> {
    let request = Request::get("/").header("x-tenant", tenant).header("x-takes-secs", takes_secs);
    request.body(()).unwrap()
}

/// With the one slot of the service in its hand it would hold up everybody for as long as it waits.
#[tokio::test(start_paused = true)]
async fn whoever_stands_in_line_leaves_its_slot_to_those_who_need_not() {
    let began = Instant::now();
    let limits = Limits::with_clock(policy(POLICY), PausedClock(began));
    let layer = limits.layer(|request| Caller::of(text(request.headers, "x-tenant")).user("ada"));
    let service = layer.layer(Slots::new(1));
    let asking = |request| {
        let mut service = service.clone();
        async move {
            let answer = ask(&mut service, request).await;
            (answer.status.as_u16(), began.elapsed().as_secs())
        }
    };
    assert_eq!(asking(of("acme", 0)).await, (200, 0));
    let waits = tokio::spawn(asking(of("acme", 0)));
    // Alone on this thread, it has gone as far as it can before this goes on.
    yield_now().await;
    assert_eq!(asking(of("other", 0)).await, (200, 0));

    // Admitted after a second, it waits for the slot that another has by then.
    assert_eq!(asking(of("other", 3)).await, (200, 3));
    assert_eq!(waits.await.unwrap(), (200, 3));
}
