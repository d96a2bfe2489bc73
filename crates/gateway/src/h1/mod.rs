//! A caller's connection over HTTP/1.1.
//!
//! Hyper's server keeps the headers of a response in a map, and with a dozen limit headers that map costs more than
//! the decision they tell of. Here a head is written straight into the bytes that go out, and nothing stands between
//! the socket and the request's own task. Heads are still parsed by `httparse`, and kept as `http`'s types.
//!
//! ```text
//! Wire: the socket, and what was read ahead ─▶ head ─▶ Entry ─▶ respond ─▶ the next head
//!         ▲ RequestBody reads from it through the same `Wire`
//! ```

pub(crate) mod chunked;
pub(crate) mod decoder;
pub(crate) mod fields;
mod head;
mod io;
mod owned;
mod respond;
pub(crate) mod spare_map;
mod wire;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use bytes::Buf;
use http::{Method, StatusCode, Version};
use tokio::time::Instant;

use crate::entry::Entry;
use crate::fault::Fault;
use crate::handler::Handler;
use crate::stream::Stream;
use crate::ticker::Watch;
use crate::upgrade::Switch;
use crate::worker::{LINGER, Phase, Worker};
use head::{Head, Parsed};
use owned::Owned;
pub(crate) use respond::last_words;
use respond::{Exchange, respond};
pub(crate) use wire::Wire;

/// What comes next on a connection.
enum Next {
    /// It is read.
    Head,
    Fault(Fault),
    /// The caller is gone, or took too long.
    End,
}

/// Serves a connection to its end. `watch` is armed: it bounds the time in which the first head has to come.
pub(crate) async fn serve<H: Handler>(stream: Stream, entry: &Entry<H>, watch: &Watch) {
    let worker = entry.worker();
    let mut wire = Owned::new(stream);
    let mut head = Head::none();
    let mut untold = None;
    loop {
        match next((&wire, &mut head), (worker, untold), watch).await {
            Next::Head => (),
            Next::Fault(fault) => {
                let response = if head.is_addressed {
                    entry.turn_away(&head.request, fault)
                } else {
                    entry.refuse(fault)
                };
                let exchange = Exchange::last(Version::HTTP_11);
                if respond(&wire, (worker, watch), response, &exchange).await.is_ok() {
                    wire.linger(watch).await;
                }
                return;
            }
            Next::End => return,
        }
        watch.disarm();
        let mut exchange = Exchange {
            version: head.request.version(),
            is_head: head.request.method() == Method::HEAD,
            is_kept: head.is_kept,
            takes_trailers: head.takes_trailers,
        };
        let switch = head.wants_switch.then(|| Switch::offer(&mut head.request));
        wire.begin(&mut head, worker);
        let Some((response, is_last)) = answer(&wire, entry, &mut head).await else { return };
        // Said with the answer, it keeps the caller from sending its next request to nobody.
        exchange.is_kept &= !is_last && (wire.is_shared() || wire.may_be_drained());
        let is_switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        let Ok(is_kept) = respond(&wire, (worker, watch), response, &exchange).await else {
            return;
        };
        if is_switched {
            if let (Some(switch), false) = (switch, wire.is_shared()) {
                switch.take(wire.take_stream());
            }
            return;
        }
        let is_alone = wire.is_left_alone(watch).await;
        // Whoever still holds the last request's body must not read of the next.
        if wire.is_shared() {
            let Some(same) = wire.take_over() else { return };
            wire = same;
        }
        if !is_alone || !is_kept || !wire.drain(watch).await {
            return wire.linger(watch).await;
        }
        wire.rest();
        // Its answer began before anybody knew that it would be the last.
        untold = (worker.phase() >= Phase::Draining).then(|| watch.now());
        // The first request's time began with its connection; each later one's begins here, if half a head is there already.
        let limits = worker.limits();
        watch.arm(if wire.is_unheard() { limits.idle_timeout } else { limits.header_timeout });
    }
}

/// Waits for a request's head. `watch` bounds the wait; once something of the head has come, another wait begins. A caller who
/// is `untold` that we stop since its last answer, at that time, may be about to send its next request.
async fn next(
    (wire, head): (&Wire, &mut Head),
    (worker, untold): (&Worker, Option<Instant>),
    watch: &Watch,
) -> Next {
    let (limits, changes) = (worker.limits(), worker.changes());
    let mut seen = 0;
    let mut is_ending = false;
    let mut is_reading = !wire.is_unheard();
    poll_fn(|cx| {
        loop {
            let mut io = wire.io();
            if head::may_be_whole(&io.input, seen) || io.input.len() > limits.largest_head() {
                match head.read((&io.input, io.held), (&limits, changes)) {
                    Parsed::Whole(length) => {
                        io.input.advance(length);
                        return Poll::Ready(Next::Head);
                    }
                    Parsed::Bad(fault) => return Poll::Ready(Next::Fault(fault)),
                    Parsed::Partial => (),
                }
            }
            seen = io.input.len();
            if seen > 0 && !is_reading {
                is_reading = true;
                watch.arm(limits.header_timeout);
            }
            match io.poll_fill(cx) {
                Poll::Ready(Ok(1..)) => (),
                Poll::Ready(_) => return Poll::Ready(Next::End),
                Poll::Pending => {
                    if seen == 0 && !is_ending && worker.phase() >= Phase::Closing {
                        let had = untold.map_or(LINGER, |since| watch.now() - since);
                        if had >= LINGER {
                            return Poll::Ready(Next::End);
                        }
                        is_ending = true;
                        watch.arm(LINGER - had);
                    }
                    if watch.poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    if is_reading {
                        worker.count(|counts| &counts.timeouts);
                    }
                    return Poll::Ready(Next::End);
                }
            }
        }
    })
    .await
}

/// What a request is answered with; nothing if the caller hangs up meanwhile.
async fn answer<H: Handler>(
    wire: &Wire,
    entry: &Entry<H>,
    head: &mut Head,
) -> Option<(http::Response<crate::Body>, bool)> {
    let answered = {
        let mut answer = pin!(entry.answer(&mut head.request));
        poll_fn(|cx| match answer.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => wire.poll_hang_up(cx).map(|()| None),
        })
        .await
    };
    head.leave();
    answered
}
