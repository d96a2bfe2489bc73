//! Exchanges with an HTTP/2 upstream: many over one connection, which has a task of its own.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use http::header::HOST;
use http::{Request, Response};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::time::Instant;

use super::answered::Answered;
use super::ended::{Ended, Tried};
use super::error::{ForwardCause, ForwardError};
use super::h1::LARGEST_HEAD;
use super::outbound::Outbound;
use super::pool::Pool;
use super::upload::{Patience, Upload};
use super::{Failed, head};
use crate::body::Body;
use crate::http2::{PING_TIMEOUT, PING_UPSTREAM_AFTER, STREAM_WINDOW, UPSTREAMS_WINDOW};
use crate::request_body::RequestBody;
use crate::stream::Stream;
use crate::ticker::Ticker;

/// A connection that several requests share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    sender: http2::SendRequest<Upload>,
    state: Rc<State>,
}

type Driver = http2::Connection<TokioIo<Stream>, Upload, Local>;

#[derive(Debug)]
struct State {
    /// Which of its pool's connections it is.
    number: u64,
    /// Requests under way.
    streams: Cell<usize>,
    /// When nothing was first seen to be under way, if nothing is.
    idle_since: Cell<Option<Instant>>,
    /// A response has come.
    is_heard: Cell<bool>,
    /// Until it has ended. Its task polls it, but only it knows how many streams the upstream allows, which changes without waking anybody.
    driver: RefCell<Option<Driver>>,
}

impl State {
    /// How many streams it has room for. An upstream that allows none for now is asked all the same, one at a time: it would allow
    /// none on another connection either.
    fn most(&self) -> usize {
        let driver = self.driver.borrow();
        let allowed = driver.as_ref().map_or(STREAMS, Driver::current_max_send_streams);
        allowed.clamp(1, STREAMS)
    }
}

/// Who polls a connection. However that ends, by a panic too or with the runtime, the connection ends with it: nobody would poll it
/// any more, and it would look open for ever.
struct Task(Rc<State>);

impl Task {
    async fn run(self) {
        let ended = poll_fn(|cx| match self.0.driver.borrow_mut().as_mut() {
            Some(driver) => Pin::new(driver).poll(cx),
            None => Poll::Ready(Ok(())),
        })
        .await;
        if let Err(error) = ended {
            tracing::debug!(%error, "an HTTP/2 connection to an upstream ended");
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // With it goes what was never sent, back to who wanted to send it.
        let driver = self.0.driver.try_borrow_mut().ok().and_then(|mut driver| driver.take());
        drop(driver);
    }
}

/// Above so many, another connection is opened: many servers allow a hundred or a little more. Above what the server
/// allows too: who waits there for a stream may wait for ever.
pub(crate) const STREAMS: usize = 100;

impl Shared {
    /// A new connection, and the task that serves it.
    pub(crate) async fn new(stream: Stream, number: u64) -> Result<Shared, ForwardError> {
        if let Err(error) = stream.keep_watch() {
            tracing::debug!(%error, "an upstream that vanishes may be noticed late");
        }
        let (sender, driver) = http2::Builder::new(Local)
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(UPSTREAMS_WINDOW)
            .max_send_buf_size(STREAM_WINDOW as usize)
            .max_header_list_size(LARGEST_HEAD as u32)
            .keep_alive_interval(PING_UPSTREAM_AFTER)
            .keep_alive_timeout(PING_TIMEOUT)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| ForwardError::unsent(ForwardCause::Connect).with(error))?;
        let state = Rc::new(State {
            number,
            streams: Cell::new(0),
            idle_since: Cell::new(None),
            is_heard: Cell::new(false),
            driver: RefCell::new(Some(driver)),
        });
        tokio::task::spawn_local(Task(Rc::clone(&state)).run());
        Ok(Shared { sender, state })
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// For how long nothing was under way, since that was first asked.
    pub(crate) fn idle_for(&self, now: Instant) -> Duration {
        let idle_since = &self.state.idle_since;
        if self.state.streams.get() == 0 {
            idle_since.set(idle_since.get().or(Some(now)));
        }
        idle_since.get().map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Before a connection is heard nobody knows how many streams are allowed there, and what its address allowed `before` holds.
    fn room(&self, before: usize) -> usize {
        // One that is not open cannot be asked.
        if !self.is_open() {
            return 0;
        }
        let most = self.state.most();
        let most = if self.state.is_heard.get() { most } else { most.min(before) };
        most.saturating_sub(self.state.streams.get())
    }

    /// One with room for another request, which has not `tried` it.
    pub(crate) fn of(pool: &Pool, tried: Tried) -> Option<Shared> {
        let all = pool.shared.borrow();
        let mut left = all.iter().filter(|shared| tried.leaves(shared.state.number));
        left.find(|shared| shared.room(pool.allowed.get()) > 0).cloned()
    }

    /// How many requests another connection will have room for, by what is known of the others.
    pub(crate) fn expected(pool: &Pool) -> usize {
        let all = pool.shared.borrow();
        let newest = all.iter().rev().find(|shared| shared.is_open());
        newest.map_or(STREAMS, |shared| shared.state.most()).min(pool.allowed.get())
    }

    /// Sends a request and waits for the response to begin.
    pub(crate) async fn exchange(
        mut self,
        outbound: &mut Outbound<'_>,
        (pool, ticker, timeout): (&Pool, &Rc<Ticker>, Duration),
    ) -> Result<Response<Body>, Failed> {
        let uri = outbound.request.uri().clone();
        let is_repeatable = outbound.is_repeatable();
        let mut request = outbound.take();
        // Hyper gives back only what it has not looked at yet.
        let kept = is_repeatable.then(|| head_of(&request));
        let host = request.headers().get(HOST).cloned();
        head::for_http2(&mut request, &pool.target.origin);
        let under_way = Rc::new(UnderWay::new(&self.state));
        let patience = Patience::new(ticker, timeout, request.body());
        let request = request.map(|body| Upload::new(body, &patience, &under_way));
        let mut answer = pin!(self.sender.try_send_request(request));
        let answered = poll_fn(|cx| match answer.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => patience.poll(cx).map(|()| None),
        })
        .await;
        patience.end();
        match answered {
            Some(Ok(response)) => {
                if !self.state.is_heard.replace(true) {
                    pool.allowed.set(self.state.most());
                }
                let (mut parts, incoming) = response.into_parts();
                head::strip_hop_by_hop(&mut parts.headers);
                let answered = Answered::shared(incoming, Some(under_way));
                Ok(Response::from_parts(parts, Body::upstream(answered)))
            }
            Some(Err(mut error)) => {
                let unsent = error.take_message().map(|request| {
                    let mut request = request.map(Upload::into_body);
                    *request.uri_mut() = uri;
                    if let Some(host) = host {
                        request.headers_mut().insert(HOST, host);
                    }
                    request
                });
                let (error, is_heard) = (error.into_error(), self.state.is_heard.get());
                let ended = Ended::of(&error);
                let is_untouched = unsent.is_some() || ended.is_unprocessed();
                let may_repeat = is_untouched || (ended == Ended::Gone && is_heard);
                let again = unsent.or(kept.filter(|_| may_repeat));
                let is_unproven = !is_heard && ended.is_with_connection();
                let error = ForwardError::of_exchange(error, is_untouched);
                let error = match patience.fault() {
                    Some(fault) => error.because_of(fault),
                    None => error,
                };
                let failed = Failed::new(error, again.is_some(), is_unproven);
                if let Some(again) = again {
                    **outbound.request = again;
                }
                Err(failed.over(match ended {
                    Ended::Refused => Tried::One(self.state.number),
                    _ => Tried::UpTo(pool.opened.get()),
                }))
            }
            None => {
                let error = ForwardError::sent(ForwardCause::ResponseTimeout);
                Err(Failed::new(error, false, false))
            }
        }
    }
}

/// The head of a request without a body, to be sent again.
fn head_of(request: &Request<RequestBody>) -> Request<RequestBody> {
    let mut same = Request::new(RequestBody::empty());
    *same.method_mut() = request.method().clone();
    *same.uri_mut() = request.uri().clone();
    *same.version_mut() = request.version();
    *same.headers_mut() = request.headers().clone();
    same
}

/// A request under way on a shared connection: until its response and its body have come to their ends.
#[derive(Debug)]
pub(crate) struct UnderWay(Rc<State>);

impl UnderWay {
    fn new(state: &Rc<State>) -> UnderWay {
        state.streams.set(state.streams.get() + 1);
        state.idle_since.set(None);
        UnderWay(Rc::clone(state))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.streams.set(self.0.streams.get() - 1);
    }
}

/// Tasks of this worker.
#[derive(Clone, Copy, Debug)]
struct Local;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

#[cfg(test)]
mod tests;
