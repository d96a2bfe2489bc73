//! A service inside that has little room: who waits for a limit takes none of it.

use std::convert::Infallible;
use std::future::{Future, Ready, poll_fn, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{HeaderMap, Request, Response, StatusCode, Uri};
use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tollgate_client::{Ask, Cloned, PaceLayer, Paced, Pacers, Settings};
use tower_layer::Layer;
use tower_service::Service;

use crate::headers;

type Place = OwnedSemaphorePermit;
type Coming = Pin<Box<dyn Future<Output = Result<Place, AcquireError>> + Send>>;

/// Has one place, which is kept from being ready until the response is dropped. Answers by a script, then with 200.
struct Narrow {
    places: Arc<Semaphore>,
    coming: Option<Coming>,
    place: Option<Place>,
    script: Arc<Mutex<Vec<Response<()>>>>,
}

impl Clone for Narrow {
    fn clone(&self) -> Narrow {
        let (places, script) = (self.places.clone(), self.script.clone());
        Narrow { places, script, coming: None, place: None }
    }
}

impl Service<Request<()>> for Narrow {
    type Response = Response<Place>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Place>, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.place.is_none() {
            let places = self.places.clone();
            let coming = self.coming.get_or_insert_with(|| Box::pin(places.acquire_owned()));
            self.place = Some(ready!(coming.as_mut().poll(cx)).unwrap());
            self.coming = None;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let place = self.place.take().expect("it was made ready");
        let response = self.script.lock().pop().unwrap_or_default();
        ready(Ok(response.map(|()| place)))
    }
}

fn refusal(retry_after: (&str, &str)) -> Response<()> {
    let mut refusal = Response::new(());
    *refusal.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    *refusal.headers_mut() = headers(&[retry_after]);
    refusal
}

/// With leave to retry, around a service that begins with these answers, the last of them first.
fn paced(script: Vec<Response<()>>, pacers: &Pacers) -> Paced<Narrow, Cloned> {
    let (places, script) = (Arc::new(Semaphore::new(1)), Arc::new(Mutex::new(script)));
    let narrow = Narrow { places, script, coming: None, place: None };
    PaceLayer::new(pacers.clone()).retrying().layer(narrow)
}

const ONE: &str = "http://one.example.com/";
const OTHER: &str = "http://other.example.com/";

/// As tower's callers do: only a service that is ready is called.
async fn status(mut paced: Paced<Narrow, Cloned>, uri: &str) -> u16 {
    poll_fn(|cx| paced.poll_ready(cx)).await.unwrap();
    let response = paced.call(Request::get(uri).body(()).unwrap()).await.unwrap();
    response.status().as_u16()
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_one_server_keeps_nobody_from_another() {
    let pacers = Pacers::new(Settings::new().max_attempts(1));
    let paced = paced(vec![refusal(("retry-after", "20"))], &pacers);
    assert_eq!(status(paced.clone(), ONE).await, 429);
    let waits = tokio::spawn(status(paced.clone(), ONE));
    let pacer = pacers.pacer(&Uri::from_static(ONE), &HeaderMap::new());
    while pacer.status().waiting == 0 {
        tokio::task::yield_now().await;
    }
    let other = timeout(Duration::from_secs(5), status(paced, OTHER)).await;
    assert_eq!((other, waits.is_finished()), (Ok(200), false));
    assert_eq!(waits.await.unwrap(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_retry_does_not_wait_for_the_place_that_its_own_answer_keeps() {
    let script = vec![refusal(("retry-after-ms", "20"))];
    let paced = paced(script, &Pacers::new(Settings::new()));
    assert_eq!(timeout(Duration::from_secs(5), status(paced, ONE)).await, Ok(200));
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_before_there_is_room_was_charged_nothing() {
    let pacers = Pacers::new(Settings::new().max_attempts(1));
    let pacer = pacers.pacer(&Uri::from_static(ONE), &HeaderMap::new());
    let left = headers(&[
        ("x-ratelimit-limit", "60"),
        ("x-ratelimit-remaining", "59"),
        ("x-ratelimit-reset", "3600"),
    ]);
    pacer.try_acquire(Ask::default()).unwrap().heard(StatusCode::OK, &left);
    let mut paced = paced(Vec::new(), &pacers);
    // Its answer keeps the place.
    let other = paced.call(Request::get(OTHER).body(()).unwrap()).await;
    assert!(timeout(Duration::from_secs(5), status(paced, ONE)).await.is_err());
    let status = pacer.status();
    assert_eq!((status.in_flight, status.limits[0].remaining), (0, 59));
    drop(other);
}

/// Five have leave to send, and wait for the place. The first of them is refused.
#[tokio::test(start_paused = true)]
async fn who_waits_for_room_heeds_a_refusal_that_comes_meanwhile() {
    let pacers = Pacers::new(Settings::new().max_attempts(1));
    let pacer = pacers.pacer(&Uri::from_static(ONE), &HeaderMap::new());
    let script = vec![refusal(("retry-after", "20")), Response::default(), Response::default()];
    let mut paced = paced(script, &pacers);
    assert_eq!(status(paced.clone(), ONE).await, 200);
    let other = paced.call(Request::get(OTHER).body(()).unwrap()).await;
    let began = Instant::now();
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let call = status(paced.clone(), ONE);
            tokio::spawn(async move { (call.await, began.elapsed().as_secs()) })
        })
        .collect();
    while pacer.status().in_flight < 5 {
        tokio::task::yield_now().await;
    }
    drop(other);
    let mut soon = Vec::new();
    for call in calls {
        let (status, after) = call.await.unwrap();
        soon.extend((after < 20).then_some(status));
    }
    assert_eq!(soon, [429]);
}

/// Its one place is taken by the first call for good.
#[derive(Clone)]
struct Once(Arc<Mutex<u32>>);

impl Service<Request<()>> for Once {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if *self.0.lock() == 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        *self.0.lock() += 1;
        ready(Ok(refusal(("retry-after-ms", "20"))))
    }
}

/// Leave to send it again was given, but there was no room for it before everybody lost patience.
#[tokio::test(start_paused = true)]
async fn a_retry_that_is_given_up_before_it_is_sent_is_not_spent() {
    let pacers = Pacers::new(Settings::new().retry_ratio(0.0));
    let layer = PaceLayer::new(pacers.clone()).retrying();
    for _ in 0..10 {
        let mut once = layer.layer(Once(Arc::default()));
        let call = once.call(Request::get(ONE).body(()).unwrap());
        assert!(timeout(Duration::from_secs(5), call).await.is_err());
    }
    let script = vec![refusal(("retry-after-ms", "20"))];
    assert_eq!(status(paced(script, &pacers), ONE).await, 200);
}
