//! Bodies pass as they come, however large, and end where somebody hangs up.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;

use crate::support::{ChildGateway, Exchange, Raw, Served, TestGateway, curl, eventually, header};
use crate::tls::HttpsGateway;

/// Some servers write all sizes in the same width.
#[test]
fn any_number_of_padded_chunks_passes() {
    const CHUNKS: usize = 20_000;
    let upstream = Served::new(|exchange: &mut Exchange| {
        let chunks = "1  \r\nx\r\n".repeat(CHUNKS);
        exchange.write(format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0  \r\n\r\n"
        ));
        true
    });
    let gateway = TestGateway::new(&upstream.url());
    assert_eq!(curl(&[&gateway.url("/")]), "x".repeat(CHUNKS));
}

#[test]
fn each_event_arrives_before_the_next_is_sent() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let upstream = Served::new(move |exchange: &mut Exchange| {
        exchange.write(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        );
        for n in 0..3 {
            exchange.write(format!("9\r\ndata: {n}\n\n\r\n"));
            wait.lock().unwrap().recv().unwrap();
        }
        exchange.write("0\r\n\r\n");
        true
    });
    let gateway = TestGateway::new(&upstream.url());
    let mut caller = Raw::connect(gateway.address);
    caller.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    for n in 0..3 {
        caller.read_until(&format!("data: {n}\n\n"));
        go.send(()).unwrap();
    }
    caller.read_until("0\r\n\r\n");
}

#[test]
fn a_body_reaches_the_upstream_before_it_is_complete() {
    let (saw, seen) = mpsc::channel();
    let saw = Mutex::new(saw);
    let upstream = Served::new(move |exchange: &mut Exchange| {
        let mut half = [0; 4];
        exchange.reader.read_exact(&mut half).unwrap();
        saw.lock().unwrap().send(half).unwrap();
        exchange.reader.read_exact(&mut half).unwrap();
        exchange.ok("both");
        true
    });
    let gateway = TestGateway::new(&upstream.url());
    let mut caller = Raw::connect(gateway.address);
    caller.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 8\r\n\r\nhalf");
    assert_eq!(seen.recv().unwrap(), *b"half");
    assert_eq!(caller.write("half").response().1, "both");
}

#[test]
fn trailers_pass_both_ways() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        let chunks = exchange.lines();
        exchange.write(format!(
            "HTTP/1.1 200 OK\r\ntrailer: x-down\r\nx-saw: {}\r\ntransfer-encoding: chunked\r\n\r\n\
             2\r\nhi\r\n0\r\nx-down: 2\r\n\r\n",
            chunks.contains("x-up: 1")
        ));
        true
    });
    let gateway = TestGateway::new(&upstream.url());
    let request = "POST / HTTP/1.1\r\nhost: a\r\nte: trailers\r\ntrailer: x-up\r\n\
                   transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-up: 1\r\n\r\n";
    let mut caller = Raw::connect(gateway.address);
    assert_eq!(header(&caller.write(request).head(), "x-saw"), Some("true"));
    caller.read_until("0\r\nx-down: 2\r\n\r\n");
}

/// A list may stand in several lines (RFC 9110, 5.3).
#[test]
fn trailers_may_be_named_in_several_lines() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        let chunks = exchange.lines();
        let seen = ["x-a: 1", "x-b: 2", "x-c: 3"].map(|line| chunks.contains(line));
        exchange.write(format!(
            "HTTP/1.1 200 OK\r\ntrailer: x-d\r\nx-saw: {seen:?}\r\ntrailer: x-e,, x-f\r\n\
             transfer-encoding: chunked\r\n\r\n\
             2\r\nhi\r\n0\r\nx-d: 4\r\nx-e: 5\r\nx-f: 6\r\nx-unnamed: 7\r\n\r\n",
        ));
        true
    });
    // Straight to the upstream, and over HTTP/2 to another gateway.
    let between = HttpsGateway::new("trailers", &upstream.url());
    for gateway in
        [TestGateway::new(&upstream.url()), TestGateway::of(between.as_upstream(), |_| (), None)]
    {
        assert_trailers_pass(&gateway);
    }
}

fn assert_trailers_pass(gateway: &TestGateway) {
    let request = "POST / HTTP/1.1\r\nhost: a\r\nte: trailers\r\ntrailer: x-a\r\nx-other: y\r\n\
                   trailer: X-B , x-c\r\ntransfer-encoding: chunked\r\n\r\n\
                   2\r\nhi\r\n0\r\nx-a: 1\r\nx-b: 2\r\nx-c: 3\r\n\r\n";
    let mut caller = Raw::connect(gateway.address);
    let head = caller.write(request).head();
    assert_eq!(header(&head, "x-saw"), Some("[true, true, true]"));
    assert!(head.contains("trailer: x-d\r\n") && head.contains("trailer: x-e,, x-f\r\n"), "{head}");
    caller.read_until("hi\r\n0\r\n");
    assert_eq!(caller.head(), "x-d: 4\r\nx-e: 5\r\nx-f: 6\r\n\r\n");
}

#[test]
fn the_body_is_asked_for_only_when_it_is_forwarded() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        assert_eq!(header(&exchange.head, "expect"), None);
        let body = exchange.body();
        exchange.ok(&String::from_utf8(body).unwrap());
        true
    });
    let gateway = TestGateway::new(&upstream.url());
    let head = |path| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n"
        )
    };
    let mut caller = Raw::connect(gateway.address);
    assert_eq!(caller.write(head("/")).head(), "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(caller.write("body").response().1, "body");
    let refused = Raw::connect(gateway.address).write(head("/refuse")).head();
    assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn a_caller_that_hangs_up_ends_the_exchange() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_gone);
    let upstream = Served::new(move |exchange: &mut Exchange| {
        if exchange.head.contains("/streams") {
            exchange.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n");
        }
        let ended = exchange.reader.read(&mut [0; 16]);
        seen.store(!matches!(ended, Ok(1..)), Relaxed);
        false
    });
    let gateway = TestGateway::new(&upstream.url());
    for path in ["/waits", "/streams"] {
        is_gone.store(false, Relaxed);
        let mut caller = Raw::connect(gateway.address);
        caller.write(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
        if path == "/streams" {
            caller.read_until("hi");
        }
        eventually("the upstream has it", || {
            upstream.heads().last().is_some_and(|head| head.contains(path))
        });
        drop(caller);
        eventually("the upstream is told", || is_gone.load(Relaxed));
    }
    assert_eq!(gateway.upstream.backpressure().pending(), 0);
}

#[test]
fn an_upstream_that_breaks_off_is_no_complete_response() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        exchange.write(match exchange.head.as_bytes()[5] {
            b'1' => "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n",
            b'2' => "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
            b'3' => "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            _ => "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        });
        false
    });
    let gateway = TestGateway::new(&upstream.url());
    for path in ["/1", "/2", "/3", "/4"] {
        let mut caller = Raw::connect(gateway.address);
        let answer = caller.write(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")).rest();
        // Hyper throws away what it has not yet written when a body breaks off; either way the caller can tell.
        assert!(!answer.ends_with("0\r\n\r\n") && !answer.contains("length: 0"), "{answer}");
        let output = std::process::Command::new("curl")
            .args(["--silent", "--http2-prior-knowledge", &gateway.url(path)])
            .output()
            .unwrap();
        assert!(!output.status.success(), "{path} looks complete over HTTP/2");
    }
}

#[test]
fn large_bodies_take_little_memory() {
    const SIZE: usize = 512 * 1024 * 1024;
    let upstream = Served::new(|exchange: &mut Exchange| {
        let chunk = vec![b'x'; 256 * 1024];
        if exchange.head.starts_with("GET") {
            exchange.write(format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n"));
            (0..SIZE / chunk.len()).for_each(|_| exchange.write(&chunk));
        } else {
            let length: u64 = header(&exchange.head, "content-length").unwrap().parse().unwrap();
            let mut body = (&mut exchange.reader).take(length);
            let read = std::io::copy(&mut body, &mut std::io::sink()).unwrap();
            exchange.ok(&read.to_string());
        }
        true
    });
    let gateway = ChildGateway::new(&upstream.url());
    let before = gateway.resident();
    let most = before + 16 * 1024 * 1024;
    for protocol in ["--http1.1", "--http2-prior-knowledge"] {
        let size = curl(&[
            protocol,
            "--output",
            "/dev/null",
            "--write-out",
            "%{size_download}",
            &gateway.url("/"),
        ]);
        assert_eq!(size, SIZE.to_string());
        assert!(gateway.resident() < most, "{protocol}: {} B", gateway.resident());
    }
    let mut caller = Raw::connect(gateway.address);
    caller.write(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {SIZE}\r\n\r\n"));
    let chunk = vec![b'x'; 256 * 1024];
    (0..SIZE / chunk.len()).for_each(|_| caller.0.write_all(&chunk).unwrap());
    assert_eq!(caller.response().1, SIZE.to_string());
    assert!(gateway.resident() < most, "upload: {} B", gateway.resident());
}
