//! What one caller can take: headers, bodies, time, connections.

use std::time::{Duration, Instant};

use crate::support::{Exchange, Raw, Served, TestGateway, eventually, get, one_tells};
use tollgate_gateway::{Trust, Upstream};

#[test]
fn too_many_or_too_large_headers_are_431() {
    let upstream = Served::echo();
    let gateway = TestGateway::with(&[&upstream.url()], |server| {
        server.caps.headers = 10;
        server.caps.header_bytes = 8192;
    });
    let with = |count: usize, size: usize| {
        let value = "v".repeat(size);
        let headers: String = (0..count).map(|n| format!("x-{n}: {value}\r\n")).collect();
        let request = format!("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}\r\n");
        Raw::connect(gateway.address).write(request).rest()
    };
    assert!(with(8, 10).starts_with("HTTP/1.1 200"));
    assert!(with(9, 10).starts_with("HTTP/1.1 431"));
    assert!(with(8, 900).starts_with("HTTP/1.1 200"));
    assert!(with(8, 1100).starts_with("HTTP/1.1 431"));
    assert_eq!(upstream.heads().len(), 2);
}

#[test]
fn more_headers_than_can_be_held_are_431_whatever_the_caps_say() {
    let upstream = Served::echo();
    let gateway = TestGateway::with(&[&upstream.url()], |server| {
        server.caps.headers = 0;
        server.caps.header_bytes = 0;
    });
    let with = |count: usize| {
        let headers = "a:\r\n".repeat(count);
        let request = format!("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}\r\n");
        Raw::connect(gateway.address).write(request).rest()
    };
    assert!(with(25_000).starts_with("HTTP/1.1 431"), "no answer");
    assert!(with(40_000).starts_with("HTTP/1.1 431"), "no answer");
    assert_eq!(upstream.heads().len(), 0);
}

#[test]
fn too_large_a_body_is_413_whether_announced_or_not() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        while !exchange.lines().is_empty() {}
        false
    });
    let gateway = TestGateway::with(&[&upstream.url()], |server| server.caps.body_bytes = 1000);
    let announced = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1001\r\n\r\n";
    let answer = Raw::connect(gateway.address).write(announced).rest();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert_eq!(upstream.heads().len(), 0);
    let chunk = format!("258\r\n{}\r\n", "x".repeat(600));
    let chunked =
        format!("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n{chunk}{chunk}");
    let head = Raw::connect(gateway.address).write(chunked).head();
    assert!(head.starts_with("HTTP/1.1 413"), "{head}");
    assert_eq!(gateway.failures.lock().unwrap()[0].0.as_str(), "request_too_large");
}

#[test]
fn half_a_request_and_an_idle_connection_are_closed_in_time() {
    let upstream = Served::echo();
    let gateway = TestGateway::with(&[&upstream.url()], |server| {
        // A whole request has to come and be answered within it.
        server.caps.header_timeout_ms = 2000;
        server.caps.idle_timeout_ms = 3000;
    });
    let whole = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let mut idle = Raw::connect(gateway.address);
    idle.write(whole).response();
    // The second request of a connection is bounded like the first.
    let mut second = Raw::connect(gateway.address);
    second.write(whole).response();
    second.write("GET / HT");
    // Nothing at all, the first byte, most of a head.
    let halves = ["", "G", "GET / HTTP/1.1\r\nhost: a\r\n"];
    let mut callers = halves.map(|half| (half, Raw::connect(gateway.address)));
    for (half, caller) in &mut callers {
        caller.write(*half);
    }
    for (half, caller) in &mut callers {
        assert_eq!(caller.rest(), "", "{half:?}");
    }
    assert_eq!(second.rest(), "");
    assert_eq!(idle.rest(), "");
    eventually("all closed", || gateway.counts.open() == 0);
    assert_eq!(gateway.counts.timeouts(), 4, "who is idle said nothing that waits for its rest");
}

/// What came with the request before it has no longer than what comes alone.
#[test]
fn half_a_head_behind_a_request_is_bounded_like_any_other() {
    let upstream = Served::echo();
    let gateway =
        TestGateway::with(&[&upstream.url()], |server| server.caps.header_timeout_ms = 2000);
    let mut caller = Raw::connect(gateway.address);
    let (head, _) = caller.write("GET / HTTP/1.1\r\nhost: a\r\n\r\nG").response();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(caller.rest(), "");
    assert_eq!(gateway.counts.timeouts(), 1);
}

/// The second in which the rest of a body is waited for is not the time of the head behind it.
#[test]
fn half_a_head_behind_a_body_that_nobody_read_has_its_own_time() {
    one_tells(half_a_head_behind_a_body_that_nobody_read);
}

fn half_a_head_behind_a_body_that_nobody_read() -> bool {
    let upstream = Served::echo();
    let gateway = TestGateway::new(&upstream.url());
    #[allow(clippy::disallowed_methods, reason = "the second is real")]
    let began = Instant::now();
    let mut caller = Raw::connect(gateway.address);
    let (head, _) =
        caller.write("POST /refuse HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n").response();
    assert!(head.starts_with("HTTP/1.1 429"), "{head}");
    let is_sent = std::io::Write::write_all(&mut caller.0, b"bodyGET / HT").is_ok();
    if began.elapsed() >= Duration::from_secs(1) {
        return false;
    }
    assert!(is_sent, "it was not waited for");
    std::thread::sleep(Duration::from_millis(1500));
    let (head, _) = caller.write("TP/1.1\r\nhost: a\r\n\r\n").response();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    true
}

#[test]
fn a_connection_that_rested_serves_as_before() {
    let upstream = Served::echo();
    let mut gateway = TestGateway::with(&[&upstream.url()], |server| {
        server.caps.idle_timeout_ms = 4000;
    });
    let mut caller = Raw::connect(gateway.address);
    for path in ["/first", "/second", "/third"] {
        let (head, seen) =
            caller.write(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")).response();
        assert!(head.starts_with("HTTP/1.1 200") && seen.starts_with(&format!("GET {path} ")));
        // Longer than hyper is left to wait, and shorter than the idle timeout.
        std::thread::sleep(Duration::from_millis(1800));
    }
    // Half a request after a rest is no rest.
    let mut half = Raw::connect(gateway.address);
    half.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n").response();
    assert_eq!(caller.rest(), "", "the idle timeout ends a rest");
    half.write("G");
    // Stopping ends one too.
    let mut idle = Raw::connect(gateway.address);
    idle.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n").response();
    std::thread::sleep(Duration::from_millis(1500));
    let stopped = gateway.stop();
    assert_eq!(idle.rest(), "");
    drop(half);
    stopped.join().unwrap();
}

#[test]
fn a_slow_answer_does_not_make_a_connection_idle() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        std::thread::sleep(Duration::from_millis(3000));
        exchange.ok("late");
        true
    });
    let gateway = TestGateway::with(&[&upstream.url()], |server| {
        server.caps.header_timeout_ms = 2000;
        server.caps.idle_timeout_ms = 2000;
    });
    assert_eq!(get(gateway.address, "/").1, "late");
}

#[test]
fn a_body_that_stops_coming_is_408() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        while !exchange.lines().is_empty() {}
        false
    });
    let gateway = TestGateway::with(&[&upstream.url()], |server| server.caps.body_timeout_ms = 200);
    let request = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf";
    let head = Raw::connect(gateway.address).write(request).head();
    assert!(head.starts_with("HTTP/1.1 408"), "{head}");
    assert_eq!(gateway.failures.lock().unwrap()[0].0.as_str(), "request_too_slow");
}

#[test]
fn a_caller_that_does_not_read_is_hung_up_on() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        exchange.write("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n");
        let chunk = vec![b'x'; 1_000_000];
        (0..1000).for_each(|_| exchange.write(&chunk));
        false
    });
    let gateway =
        TestGateway::with(&[&upstream.url()], |server| server.caps.idle_timeout_ms = 1000);
    let prefaces = ["", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"];
    for (preface, hung_up_on) in prefaces.into_iter().zip(1..) {
        let mut deaf = Raw::connect(gateway.address);
        if preface.is_empty() {
            deaf.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
        } else {
            // Settings with the largest window, room for all streams, and a GET.
            deaf.write(preface).write(b"\0\0\x06\x04\0\0\0\0\0\0\x04\x7f\xff\xff\xff");
            deaf.write(b"\0\0\x04\x08\0\0\0\0\0\x7f\xff\0\0");
            deaf.write(b"\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01a");
        }
        eventually("hung up on", || gateway.counts.timeouts() == hung_up_on);
        eventually("closed", || gateway.counts.open() == 0);
    }
    assert_eq!(gateway.counts.timeouts(), 2);
}

#[test]
fn above_the_cap_connections_are_refused() {
    let upstream = Served::echo();
    let gateway = TestGateway::with(&[&upstream.url()], |server| server.caps.connections = 3);
    let mut held: Vec<_> = (0..3).map(|_| Raw::connect(gateway.address)).collect();
    for caller in &mut held {
        caller.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n").response();
    }
    let answer = Raw::connect(gateway.address).rest();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert_eq!(gateway.counts.over_cap(), 1);
    held.pop();
    eventually("room again", || gateway.counts.open() == 2);
    assert!(get(gateway.address, "/").0.starts_with("HTTP/1.1 200"));
}

#[test]
fn an_upstream_that_does_not_answer_in_time_is_504() {
    let (stay, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let upstream = Served::new(move |_: &mut Exchange| wait.lock().unwrap().recv().is_ok());
    let mut shape = crate::support::upstream(&[&upstream.url()]);
    shape.response_timeout_ms = 200;
    let gateway = TestGateway::of(Upstream::new(&shape, Trust::system).unwrap(), |_| (), None);
    assert!(get(gateway.address, "/").0.starts_with("HTTP/1.1 504"));
    let failures = gateway.failures.lock().unwrap().clone();
    assert_eq!((failures[0].0.as_str(), failures[0].1), ("response_timeout", false));
    drop(stay);
}

#[test]
fn an_address_belongs_to_one_gateway() {
    let upstream = Served::echo();
    let gateway = TestGateway::new(&upstream.url());
    let server = tollgate_policy::shapes::Server {
        listen: gateway.address.to_string().parse().unwrap(),
        ..Default::default()
    };
    let second = tollgate_gateway::Gateway::bind(tollgate_gateway::Settings::new(&server));
    assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
}
