//! Callers over HTTP/1.1 who do not wait, wherever their request is at that moment.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::support::{Exchange, Raw, Served, TestGateway, TestLaw, eventually};
use crate::tls::HttpsGateway;

/// One request an hour, then a line.
fn line(upstream: &Served) -> TestLaw {
    TestLaw::new(&format!(
        "
auth: {{ mode: none }}
upstreams: {{ api: {{ url: \"{}\" }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
defaults:
  client: {{ sustained: {{ rate: 1, window: hour }}, scope: global, strategy: queue, queue: {{ max_wait_ms: 86400000, max_depth: 10 }} }}
  tenant: null
",
        upstream.url()
    ))
}

#[test]
fn who_leaves_a_line_frees_the_place_with_and_without_a_body() {
    let upstream = Served::echo();
    for request in [
        "GET /waits HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
        "POST /waits HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbody".to_owned(),
        "POST /waits HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhalf".to_owned(),
        "POST /waits HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\n"
            .to_owned(),
        format!(
            "POST /waits HTTP/1.1\r\nhost: a\r\ncontent-length: 60000\r\n\r\n{}",
            "x".repeat(60_000)
        ),
    ] {
        let gateway = line(&upstream);
        let first = "GET /first HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        assert!(Raw::connect(gateway.address).write(first).rest().starts_with("HTTP/1.1 200"));
        // Nothing is left for it within the hour, so wherever it is when its caller leaves, it waits.
        Raw::connect(gateway.address).write(&request);
        eventually("it has left", || gateway.records().len() == 2);
        assert_eq!(gateway.records()[1].status.as_u16(), 499, "{request}");
    }
    assert!(upstream.heads().iter().all(|head| !head.contains("/waits")));
}

/// A piece of the body is read ahead and no more, so what ends behind it is not read to its end.
#[test]
fn who_leaves_a_line_behind_a_large_body_frees_the_place() {
    let upstream = Served::echo();
    let head = "POST /waits HTTP/1.1\r\nhost: a\r\ncontent-length: 90000000\r\n\r\n";
    for is_reset in [false, true] {
        let gateway = line(&upstream);
        let first = "GET /first HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        assert!(Raw::connect(gateway.address).write(first).rest().starts_with("HTTP/1.1 200"));
        let mut caller = Raw::connect(gateway.address);
        if is_reset {
            // As much as goes; that it is gone comes past all of it.
            caller.write(head).0.set_nonblocking(true).unwrap();
            while caller.0.write(&[b'x'; 65_536]).is_ok() {}
            socket2::SockRef::from(&caller.0).set_linger(Some(Duration::ZERO)).unwrap();
        } else {
            // More than is read ahead, and less than the kernel keeps for it.
            caller.write(head).write("x".repeat(100_000));
        }
        drop(caller);
        eventually("it has left", || gateway.records().len() == 2);
        assert_eq!(gateway.records()[1].status.as_u16(), 499, "{is_reset}");
    }
    assert!(upstream.heads().iter().all(|head| !head.contains("/waits")));
}

/// The upstream takes no more of the body, so nobody reads it.
#[test]
fn who_hangs_up_while_its_body_is_stuck_ends_the_exchange() {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let upstream = Served::new(move |_: &mut Exchange| {
        while !over.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    });
    let gateway = TestLaw::new(&format!(
        "
auth: {{ mode: none }}
upstreams: {{ api: {{ url: \"{}\", response_timeout_ms: 3600000 }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
",
        upstream.url()
    ));
    let mut caller = Raw::connect(gateway.address);
    caller.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 90000000\r\n\r\n");
    caller.0.set_nonblocking(true).unwrap();
    let mut refused = 0;
    while refused < 50 {
        if caller.0.write(&[b'x'; 65_536]).is_ok() {
            refused = 0;
        } else {
            refused += 1;
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    socket2::SockRef::from(&caller.0).set_linger(Some(Duration::ZERO)).unwrap();
    drop(caller);
    eventually("it has ended", || gateway.records().len() == 1);
    assert_eq!(gateway.records()[0].status.as_u16(), 499);
    is_over.store(true, Relaxed);
}

/// The body is read by the task of the connection to the upstream; it is the caller's that has to notice.
#[test]
fn who_hangs_up_behind_a_body_ends_an_exchange_over_http2() {
    let (is_gone, bodies) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (seen, came) = (Arc::clone(&is_gone), Arc::clone(&bodies));
    let upstream = Served::new(move |exchange: &mut Exchange| {
        assert_eq!(exchange.body(), b"body");
        came.fetch_add(1, Relaxed);
        if exchange.head.contains("/streams") {
            exchange.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n");
        }
        let ended = exchange.reader.read(&mut [0; 16]);
        seen.store(!matches!(ended, Ok(1..)), Relaxed);
        false
    });
    let between = HttpsGateway::new("hang-up", &upstream.url());
    let gateway = TestGateway::of(between.as_upstream(), |_| (), None);
    for (n, path) in ["/waits", "/streams"].into_iter().enumerate() {
        is_gone.store(false, Relaxed);
        let mut caller = Raw::connect(gateway.address);
        caller.write(format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n"));
        eventually("the upstream has the head", || {
            upstream.heads().last().is_some_and(|head| head.contains(path))
        });
        caller.write("body");
        if path == "/streams" {
            caller.read_until("hi");
        }
        eventually("the upstream has the body", || bodies.load(Relaxed) > n);
        drop(caller);
        eventually("the upstream is told", || is_gone.load(Relaxed));
    }
}

/// Whoever reads the request's body over HTTP/2 is another task than the one that waits for room to write the answer.
#[test]
fn an_answer_goes_on_when_both_directions_were_full() {
    const SIZE: usize = 48 * 1024 * 1024;
    let upstream = Served::new(|exchange: &mut Exchange| {
        exchange.write(format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n"));
        let mut piece = vec![0; 64 * 1024];
        let mut left = SIZE;
        while left > 0 {
            let Ok(read @ 1..) = exchange.reader.read(&mut piece) else { return false };
            exchange.write(&piece[..read]);
            left -= read;
        }
        true
    });
    let between = HttpsGateway::new("both-full", &upstream.url());
    let gateway = TestGateway::of(between.as_upstream(), |_| (), None);
    let mut caller = Raw::connect(gateway.address);
    caller.write(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {SIZE}\r\n\r\n"));
    let written = Arc::new(AtomicUsize::new(0));
    let (mut writer, so_far) = (caller.0.try_clone().unwrap(), Arc::clone(&written));
    let writing = std::thread::spawn(move || {
        let piece = vec![b'x'; 64 * 1024];
        for _ in 0..SIZE / piece.len() {
            writer.write_all(&piece).unwrap();
            so_far.fetch_add(piece.len(), Relaxed);
        }
    });
    // Nobody reads, so at some point nothing more goes.
    let mut before = usize::MAX;
    while written.load(Relaxed) != before {
        before = written.load(Relaxed);
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(before < SIZE, "it never was full");
    caller.head();
    let mut left = SIZE;
    let mut piece = vec![0; 64 * 1024];
    while left > 0 {
        let read = caller.0.read(&mut piece).unwrap();
        assert!(read > 0, "{left} bytes are missing");
        left -= read;
    }
    writing.join().unwrap();
}
