//! One worker: a thread with a runtime, a listener and connections of its own.
//!
//! Nothing a request needs is shared between workers but what says so by its type: counters, upstreams' health, the
//! certificate. So nothing here is locked, and futures need not be able to move between threads.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::{HeaderValue, RETRY_AFTER};
use hyper::server::conn::http2;
use hyper_util::rt::TokioTimer;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::LocalRuntime;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;

use crate::connection;
use crate::counts::Counts;
use crate::date::Date;
use crate::fault::Fault;
use crate::forward::Forwarder;
use crate::h1::last_words;
use crate::handler::Handler;
use crate::http2::{CALLERS_WINDOW, PING_AFTER, PING_TIMEOUT, STREAM_WINDOW};
use crate::listen::ignore_newcomers;
use crate::panics::Guarded;
use crate::presence::Presence;
use crate::settings::{Limits, Settings};
use crate::ticker::Ticker;

/// What all connections of one worker share.
#[derive(Debug)]
pub(crate) struct Worker {
    /// What is in force; looked up ten times a second, so that a request need not.
    source: Arc<ArcSwap<Settings>>,
    settings: RefCell<Arc<Settings>>,
    /// How often they were changed.
    changes: Cell<u32>,
    limits: Cell<Limits>,
    counts: Arc<Counts>,
    ticker: Rc<Ticker>,
    forwarder: Forwarder,
    presence: Presence,
    phase: Cell<Phase>,
    date: Date,
    /// What heads are written into; whoever sends one at once gives it back.
    buffer: RefCell<Vec<u8>>,
}

/// How near a worker is to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// Callers are told to open another connection for their next request.
    Draining,
    /// Idle connections are closed, others after their request.
    Closing,
}

/// How long idle connections are kept when draining: a caller that was just answered may be about to send again,
/// and learns by that answer that it should not.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

/// How long connections that have begun may take to be made: a round trip.
const LAST_CALL: Duration = Duration::from_millis(200);

/// How long to let others close something when the process has no descriptor left for a connection.
const BREATH: Duration = Duration::from_millis(50);

/// Between two ticks of a handler: what it gathers may be lost with the process, and no more than a tenth of a second of it.
const HANDLER_TICK: Duration = Duration::from_millis(50);

/// The largest buffer that is kept for the next head.
const BUFFER: usize = 64 * 1024;

/// HTTP/2: what one connection may have going on at once. Each of the floods that were found in the field breaks
/// one of these or a bound that hyper sets by itself, and ends its connection.
const STREAMS: u32 = 128;
const RESETS: usize = 32;

impl Worker {
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.borrow())
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits.get()
    }

    /// How often the settings were changed: whoever made something of them sees by it whether that is stale.
    pub(crate) fn changes(&self) -> u32 {
        self.changes.get()
    }

    /// Takes over settings that were changed.
    fn refresh(&self) {
        let latest = self.source.load();
        if !Arc::ptr_eq(&latest, &self.settings.borrow()) {
            self.limits.set(latest.limits);
            self.changes.set(self.changes.get().wrapping_add(1));
            self.settings.replace(Arc::clone(&latest));
        }
    }

    /// Writes what the `Date` header says now.
    pub(crate) fn write_date(&self, output: &mut Vec<u8>) {
        self.date.write(output);
    }

    /// A buffer to write a head into.
    pub(crate) fn take_buffer(&self) -> Vec<u8> {
        self.buffer.take()
    }

    /// Gives it back, unless it has grown large.
    pub(crate) fn put_buffer(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= BUFFER {
            buffer.clear();
            self.buffer.replace(buffer);
        }
    }

    pub(crate) fn ticker(&self) -> &Rc<Ticker> {
        &self.ticker
    }

    pub(crate) fn forwarder(&self) -> &Forwarder {
        &self.forwarder
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.get()
    }

    pub(crate) fn count(&self, which: impl Fn(&Counts) -> &AtomicU64) {
        which(&self.counts).fetch_add(1, Relaxed);
    }

    pub(crate) fn acceptor(&self) -> Option<TlsAcceptor> {
        let settings = self.settings.borrow();
        let certificates = settings.certificates.as_ref()?;
        Some(TlsAcceptor::from(Arc::clone(certificates.config())))
    }

    pub(crate) fn http2(self: &Rc<Worker>) -> http2::Builder<Tasks> {
        let limits = self.limits();
        let mut builder = http2::Builder::new(Tasks(Rc::clone(self)));
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_pending_accept_reset_streams(RESETS)
            .max_local_error_reset_streams(RESETS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CALLERS_WINDOW)
            .max_send_buf_size(STREAM_WINDOW as usize)
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_TIMEOUT);
        if limits.header_bytes > 0 {
            builder.max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX));
        }
        builder
    }
}

/// Where hyper puts the requests of an HTTP/2 connection.
#[derive(Clone, Debug)]
pub(crate) struct Tasks(Rc<Worker>);

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Tasks {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(Guarded::new(&self.0, future));
    }
}

/// What a worker's thread is given.
pub(crate) struct Start {
    pub(crate) listener: std::net::TcpListener,
    pub(crate) settings: Arc<ArcSwap<Settings>>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) stop: watch::Receiver<bool>,
}

impl Start {
    /// Serves until told to stop, and then until nothing is left or it has taken too long.
    pub(crate) fn run<H: Handler>(self, handler: H) -> io::Result<()> {
        let runtime = runtime()?;
        let served = runtime.block_on(async move {
            let listener = TcpListener::from_std(self.listener)?;
            let ticker = Ticker::new();
            let presence = Presence::new(&self.counts);
            let worker = Rc::new(Worker {
                forwarder: Forwarder::new(&ticker, &presence),
                ticker,
                presence,
                changes: Cell::new(0),
                limits: Cell::new(self.settings.load().limits),
                settings: RefCell::new(self.settings.load_full()),
                source: self.settings,
                counts: self.counts,
                phase: Cell::new(Phase::Running),
                date: Date::default(),
                buffer: RefCell::default(),
            });
            let ticking = Rc::clone(&worker);
            tokio::task::spawn_local(async move {
                let tick = || {
                    ticking.forwarder.sweep();
                    ticking.refresh();
                    ticking.date.refresh();
                };
                ticking.ticker.run(tick).await;
            });
            let handler = Rc::new(handler);
            let of_ticks = Rc::clone(&handler);
            tokio::task::spawn_local(async move {
                let mut ticks = tokio::time::interval(HANDLER_TICK);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    of_ticks.tick();
                }
            });
            let acceptor = Acceptor { listener, handler, worker, stop: self.stop };
            acceptor.accept_and_drain().await;
            Ok(())
        });
        // Dropped, it would wait for whatever blocks a thread beside it: the system's resolver may take minutes to give up.
        runtime.shutdown_background();
        served
    }
}

fn runtime() -> io::Result<LocalRuntime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default())
}

struct Acceptor<H> {
    listener: TcpListener,
    handler: Rc<H>,
    worker: Rc<Worker>,
    stop: watch::Receiver<bool>,
}

impl<H: Handler> Acceptor<H> {
    async fn accept_and_drain(self) {
        let mut stop = self.stop.clone();
        let stopped = async move {
            // Nobody can tell it any more: it serves until the process ends.
            if stop.wait_for(|stop| *stop).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        self.accept_until(stopped).await;

        let worker = Rc::clone(&self.worker);
        worker.phase.set(Phase::Draining);
        let delay = worker.settings().drain_delay;
        self.accept_until(tokio::time::sleep(delay)).await;
        if let Err(error) = ignore_newcomers(&self.listener) {
            tracing::debug!(%error, "connections that begin in this moment may be reset");
        }
        self.accept_until(tokio::time::sleep(LAST_CALL)).await;
        self.empty_queue();
        drop(self);

        let timeout = worker.settings().drain_timeout;
        let drained = async {
            let _ = tokio::time::timeout(LINGER, worker.presence.none_left()).await;
            worker.phase.set(Phase::Closing);
            worker.ticker.wake_all();
            worker.presence.none_left().await;
        };
        if tokio::time::timeout(timeout, drained).await.is_err() {
            tracing::warn!("connections were still busy when the time to drain was over");
        }
    }

    async fn accept_until<T>(&self, end: impl Future<Output = T>) {
        let mut end = std::pin::pin!(end);
        loop {
            let accepted = std::future::poll_fn(|cx| match end.as_mut().poll(cx) {
                Poll::Ready(_) => Poll::Ready(None),
                Poll::Pending => self.listener.poll_accept(cx).map(Some),
            });
            match accepted.await {
                None => return,
                Some(Ok(accepted)) => self.serve(accepted),
                Some(Err(error)) => self.pause(&error).await,
            }
        }
    }

    /// Takes what waits to be accepted: whoever connected before we stopped listening is served.
    fn empty_queue(&self) {
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Ok(accepted)) = self.listener.poll_accept(&mut cx) {
            self.serve(accepted);
        }
    }

    fn serve(&self, accepted: (TcpStream, std::net::SocketAddr)) {
        let worker = &self.worker;
        worker.count(|counts| &counts.accepted);
        let (present, open) = worker.presence.enter();
        let cap = worker.limits().connections as u64;
        if cap > 0 && open > cap {
            worker.count(|counts| &counts.over_cap);
            // Best effort: the caller is told why, if it listens at once.
            let mut response = self.handler.refuse(Fault::ManyConnections);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            let _ = accepted.0.try_write(&last_words(worker, response));
            return;
        }
        let handler = Rc::clone(&self.handler);
        let served = connection::serve(handler, Rc::clone(worker), accepted, present);
        tokio::task::spawn_local(Guarded::new(worker, served));
    }

    /// Most errors concern the one connection that was not made. Those that say that the process or the machine
    /// has no room for another would come again at once.
    async fn pause(&self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
        if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
            tracing::warn!(%error, "cannot accept connections for a moment");
            tokio::time::sleep(BREATH).await;
        }
    }
}
