//! Stopping loses nothing.

use std::io::{ErrorKind, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::support::{Exchange, Raw, Served, TestGateway, eventually, get, header};
use tollgate_policy::shapes::Workers;

/// How long a caller has for its next request while the gateway stops.
const SECOND: Duration = Duration::from_secs(1);

/// Callers with connections that they keep, until the gateway says `close` or is gone. A request that came too late may be lost.
fn hammer(gateway: &TestGateway, answered: &Arc<AtomicUsize>) -> Vec<std::thread::JoinHandle<()>> {
    let call = |_| {
        let (address, answered) = (gateway.address, Arc::clone(answered));
        std::thread::spawn(move || {
            #[allow(clippy::disallowed_methods, reason = "the second is real")]
            let now = Instant::now;
            loop {
                let mut since = now();
                let Ok(stream) = std::net::TcpStream::connect(address) else { return };
                stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                let mut caller = Raw(stream);
                loop {
                    let sent = caller.0.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n");
                    let was_quick = since.elapsed() < SECOND;
                    // Before the answer from which the gateway counts the next second.
                    since = now();
                    if sent.is_err() || is_closed(&caller) {
                        assert!(!was_quick, "a request was lost");
                        break;
                    }
                    let (head, _) = caller.response();
                    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
                    answered.fetch_add(1, Relaxed);
                    if header(&head, "connection") == Some("close") {
                        break;
                    }
                }
            }
        })
    };
    (0..8).map(call).collect()
}

/// Whether it was closed where an answer was to come.
fn is_closed(caller: &Raw) -> bool {
    match caller.0.peek(&mut [0]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn draining_under_load_loses_no_request() {
    for delay in [0, 300] {
        let upstream = Served::echo();
        let mut gateway =
            TestGateway::with(&[&upstream.url()], |server| server.drain_delay_ms = delay);
        let answered = Arc::new(AtomicUsize::new(0));
        let callers = hammer(&gateway, &answered);
        eventually("load", || answered.load(Relaxed) > 200);
        gateway.stop().join().unwrap();
        for caller in callers {
            caller.join().unwrap();
        }
        assert_eq!(upstream.heads().len(), answered.load(Relaxed), "delay {delay}");
    }
}

#[test]
fn what_is_in_flight_is_finished_and_idle_connections_are_closed() {
    let go = Arc::new(AtomicBool::new(false));
    let may = Arc::clone(&go);
    let upstream = Served::new(move |exchange: &mut Exchange| {
        eventually("told to", || may.load(Relaxed) || exchange.head.contains("/quick"));
        exchange.ok("done");
        true
    });
    let mut gateway =
        TestGateway::with(&[&upstream.url()], |server| server.drain_timeout_ms = 20_000);
    let mut idle = Raw::connect(gateway.address);
    idle.write("GET /quick HTTP/1.1\r\nhost: a\r\n\r\n").response();
    let mut busy = Raw::connect(gateway.address);
    busy.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    eventually("in flight", || upstream.heads().len() == 2);
    let stopped = gateway.stop();
    assert_eq!(idle.rest(), "");
    assert!(!stopped.is_finished());
    eventually("no longer listening", || std::net::TcpStream::connect(gateway.address).is_err());
    go.store(true, Relaxed);
    let (head, body) = busy.response();
    assert_eq!((header(&head, "connection"), body.as_str()), (Some("close"), "done"));
    stopped.join().unwrap();
}

#[test]
fn draining_ends_after_its_timeout() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        exchange.lines();
        false
    });
    let mut gateway =
        TestGateway::with(&[&upstream.url()], |server| server.drain_timeout_ms = 1500);
    let mut busy = Raw::connect(gateway.address);
    busy.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    eventually("in flight", || upstream.heads().len() == 1);
    gateway.stop().join().unwrap();
    assert_eq!(busy.rest(), "");
}

/// Once it stopped when its handle was dropped, which promises not to.
#[test]
fn a_gateway_whose_handle_was_dropped_serves_on() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        exchange.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        true
    });
    let address = crate::support::forgotten(&upstream.url());
    for _ in 0..3 {
        let head = Raw::connect(address).write("GET / HTTP/1.1\r\nhost: a\r\n\r\n").head();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    }
}

/// The system's resolver may block a thread for minutes.
#[test]
fn a_blocked_thread_does_not_hold_up_the_end() {
    let mut gateway = TestGateway::new(&Served::echo().url());
    assert_eq!(get(gateway.address, "/blocks").1, "a thread is blocked");
    let stopped = gateway.stop();
    eventually("it has stopped", || stopped.is_finished());
}

/// It was waited for as long as its first byte may take.
#[test]
fn a_connection_that_has_said_nothing_does_not_hold_up_the_end() {
    let mut gateway = TestGateway::with(&[&Served::echo().url()], |server| {
        server.caps.header_timeout_ms = 600_000;
        server.drain_timeout_ms = 600_000;
    });
    let mut silent = Raw::connect(gateway.address);
    eventually("it is accepted", || gateway.counts.open() == 1);
    let stopped = gateway.stop();
    eventually("it has stopped", || stopped.is_finished());
    assert_eq!(silent.rest(), "");
    assert_eq!(gateway.counts.timeouts(), 0);
}

/// It was closed at the end of that answer, and lost the request that its caller sent then.
#[test]
fn a_caller_that_was_not_told_to_close_may_send_once_more() {
    eventually("a caller used the second that it has", sends_once_more_while_stopping);
}

/// Whether the caller was as quick as it has to be; a busy machine may hold it up.
fn sends_once_more_while_stopping() -> bool {
    let (go, may) = std::sync::mpsc::channel();
    let may = std::sync::Mutex::new(may);
    let upstream = Served::new(move |exchange: &mut Exchange| {
        if exchange.head.contains("/slow") {
            exchange.write("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n");
            may.lock().unwrap().recv().unwrap();
            exchange.write("done");
        } else {
            exchange.ok("fine");
        }
        true
    });
    let mut gateway = TestGateway::with(&[&upstream.url()], |server| {
        server.workers = Workers::Fixed(1);
        server.drain_timeout_ms = 600_000;
    });
    let quick = "GET /quick HTTP/1.1\r\nhost: a\r\n\r\n";
    let mut callers = [(); 2].map(|()| Raw::connect(gateway.address));
    for caller in &mut callers {
        let head = caller.write("GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").head();
        assert_eq!(header(&head, "connection"), None, "{head}");
    }
    let mut idle = Raw::connect(gateway.address);
    idle.write(quick).response();
    let stopped = gateway.stop();
    assert_eq!(idle.rest(), "", "it is closed once all that are idle are");
    #[allow(clippy::disallowed_methods, reason = "the second is real")]
    let began = Instant::now();
    for _ in &callers {
        go.send(()).unwrap();
    }
    let [mut sends, mut is_silent] = callers;
    sends.read_until("done");
    is_silent.read_until("done");
    let is_sent = sends.0.write_all(quick.as_bytes()).is_ok();
    let was_quick = is_sent && began.elapsed() < SECOND;
    let answer = sends.rest();
    assert_eq!(is_silent.rest(), "");
    eventually("it has stopped", || stopped.is_finished());
    assert_eq!(gateway.counts.timeouts(), 0);
    if was_quick || !answer.is_empty() {
        assert_eq!(header(&answer, "connection"), Some("close"), "{answer:?}");
        assert!(answer.ends_with("\r\n\r\nfine"), "{answer:?}");
    }
    !answer.is_empty()
}
