//! Exchanges with an HTTP/2 upstream: many over one connection, which has a task of its own.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use http::Response;
use http::header::HOST;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};

use super::answered::Answered;
use super::error::{ForwardCause, ForwardError};
use super::outbound::Outbound;
use super::pool::Pool;
use super::upload::{Patience, Upload};
use super::{Failed, head};
use crate::body::Body;
use crate::http2::{CONNECTION_WINDOW, PING_AFTER, PING_TIMEOUT, STREAM_WINDOW};
use crate::stream::Stream;
use crate::ticker::Ticker;

/// A connection that several requests share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    sender: http2::SendRequest<Upload>,
    state: Rc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Requests under way.
    streams: Cell<usize>,
    /// A response has come.
    is_heard: Cell<bool>,
}

/// Above so many, another connection is opened: many servers allow a hundred or a little more.
const STREAMS: usize = 100;

impl Shared {
    /// A new connection, and the task that serves it.
    pub(crate) async fn new(stream: Stream) -> Result<Shared, ForwardError> {
        let (sender, driver) = http2::Builder::new(Local)
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(STREAM_WINDOW as usize)
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_TIMEOUT)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| ForwardError::unsent(ForwardCause::Connect).with(error))?;
        tokio::task::spawn_local(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "an HTTP/2 connection to an upstream ended");
            }
        });
        Ok(Shared { sender, state: Rc::default() })
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    fn has_room(&self) -> bool {
        self.is_open() && self.state.streams.get() < STREAMS
    }

    /// One with room for another request.
    pub(crate) fn of(pool: &Pool) -> Option<Shared> {
        pool.shared.borrow().iter().find(|shared| shared.has_room()).cloned()
    }

    /// Sends a request and waits for the response to begin.
    pub(crate) async fn exchange(
        mut self,
        outbound: &mut Outbound<'_>,
        (pool, ticker, timeout): (&Pool, &Rc<Ticker>, Duration),
    ) -> Result<Response<Body>, Failed> {
        let uri = outbound.request.uri().clone();
        let mut request = outbound.take();
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
                self.state.is_heard.set(true);
                let (mut parts, incoming) = response.into_parts();
                head::strip_hop_by_hop(&mut parts.headers);
                let answered = Answered::shared(incoming, Some(under_way));
                Ok(Response::from_parts(parts, Body::upstream(answered)))
            }
            Some(Err(mut error)) => {
                let unsent = error.take_message();
                let error = ForwardError::of_exchange(error.into_error(), unsent.is_some());
                let may_repeat = unsent.is_some();
                if let Some(request) = unsent {
                    let mut request = request.map(Upload::into_body);
                    *request.uri_mut() = uri;
                    if let Some(host) = host {
                        request.headers_mut().insert(HOST, host);
                    }
                    **outbound.request = request;
                }
                Err(Failed::new(error, may_repeat, !self.state.is_heard.get()))
            }
            None => {
                let error = ForwardError::sent(ForwardCause::ResponseTimeout);
                Err(Failed::new(error, false, false))
            }
        }
    }
}

/// A request under way on a shared connection: until its response and its body have come to their ends.
#[derive(Debug)]
pub(crate) struct UnderWay(Rc<State>);

impl UnderWay {
    fn new(state: &Rc<State>) -> UnderWay {
        state.streams.set(state.streams.get() + 1);
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
