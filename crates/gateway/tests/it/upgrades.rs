//! Connections that become something else.

use std::io::{Read, Write};

use crate::support::{Exchange, Raw, Served, TestGateway, eventually, header};

const REQUEST: &str = "GET /chat HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\n\
                       upgrade: websocket\r\nsec-websocket-key: x\r\n\r\n";

fn echo(exchange: &mut Exchange) -> bool {
    assert_eq!(header(&exchange.head, "upgrade"), Some("websocket"));
    assert_eq!(header(&exchange.head, "connection"), Some("upgrade"));
    if exchange.head.contains("/refused") {
        exchange.ok("no");
        return true;
    }
    exchange.write(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: y\r\n\r\nfirst",
    );
    let mut bytes = [0; 1024];
    while let Ok(read @ 1..) = exchange.reader.read(&mut bytes) {
        exchange.write(&bytes[..read]);
    }
    false
}

#[test]
fn a_web_socket_passes_both_ways_after_101() {
    let upstream = Served::new(echo);
    let mut gateway = TestGateway::new(&upstream.url());
    let mut caller = Raw::connect(gateway.address);
    let head = caller.write(REQUEST).head();
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert_eq!(header(&head, "upgrade"), Some("websocket"));
    assert_eq!(header(&head, "sec-websocket-accept"), Some("y"));
    caller.read_until("first");
    for n in 0..100 {
        let word = format!("word {n};");
        caller.write(&word);
        assert_eq!(caller.read_until(";"), word);
    }
    assert_eq!(gateway.upstream.backpressure().pending(), 0);
    assert_eq!(gateway.counts.open(), 1);
    // It counts as open until it ends, and draining waits for it.
    let stopped = gateway.stop();
    caller.write("last;");
    assert_eq!(caller.read_until(";"), "last;");
    drop(caller);
    eventually("gone", || gateway.counts.open() == 0);
    stopped.join().unwrap();
}

#[test]
fn without_101_nothing_is_switched() {
    let upstream = Served::new(echo);
    let gateway = TestGateway::new(&upstream.url());
    let mut caller = Raw::connect(gateway.address);
    let (head, body) = caller.write(REQUEST.replace("/chat", "/refused")).response();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!((body.as_str(), header(&head, "upgrade")), ("no", None));
    // Still HTTP.
    let (head, _) = caller.write(REQUEST.replace("/chat", "/refused")).response();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

#[test]
fn an_upstream_that_hangs_up_ends_the_callers_connection() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        exchange.write("HTTP/1.1 101 S\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nbye");
        exchange.reader.get_mut().flush().unwrap();
        false
    });
    let gateway = TestGateway::new(&upstream.url());
    let mut caller = Raw::connect(gateway.address);
    caller.write(REQUEST).head();
    assert_eq!(caller.rest(), "bye");
}
