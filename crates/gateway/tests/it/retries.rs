//! A request is sent twice only where that cannot do harm.

use crate::ports::Port;
use crate::support::{Exchange, Raw, Served, TestGateway, get};
use tollgate_policy::shapes::Workers;

/// Answers the first request of a connection, and closes at the second without a word.
fn closes_at_second() -> Served {
    Served::new(|exchange: &mut Exchange| {
        exchange.body();
        if exchange.nth > 0 {
            return false;
        }
        exchange.ok("fine");
        true
    })
}

fn gateway(upstream: &Served) -> TestGateway {
    TestGateway::with(&[&upstream.url()], |server| server.workers = Workers::Fixed(1))
}

#[test]
fn a_bodyless_idempotent_request_is_sent_again_when_a_kept_connection_closes() {
    for method in ["GET", "HEAD", "DELETE", "PUT", "OPTIONS"] {
        let upstream = closes_at_second();
        let gateway = gateway(&upstream);
        get(gateway.address, "/warm");
        let request = format!("{method} /twice HTTP/1.1\r\nhost: a\r\n\r\n");
        let head = Raw::connect(gateway.address).write(request).head();
        assert!(head.starts_with("HTTP/1.1 200"), "{method}: {head}");
        let seen = upstream.heads().iter().filter(|head| head.contains("/twice")).count();
        assert_eq!((seen, upstream.connections()), (2, 2), "{method}");
    }
}

#[test]
fn a_request_that_might_do_harm_twice_is_not_sent_again() {
    for (method, body) in [("POST", ""), ("PATCH", ""), ("PUT", "body"), ("DELETE", "body")] {
        let upstream = closes_at_second();
        let gateway = gateway(&upstream);
        get(gateway.address, "/warm");
        let length = body.len();
        let request =
            format!("{method} /once HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{body}");
        let head = Raw::connect(gateway.address).write(request).head();
        assert!(head.starts_with("HTTP/1.1 502"), "{method}: {head}");
        let seen = upstream.heads().iter().filter(|head| head.contains("/once")).count();
        assert_eq!(seen, 1, "{method}");
        let failures = gateway.failures.lock().unwrap().clone();
        assert_eq!((failures[0].0.as_str(), failures[0].1), ("closed", false), "{method}");
    }
}

#[test]
fn nothing_is_sent_again_after_a_byte_of_a_response_or_on_a_new_connection() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        if exchange.nth == 0 && exchange.head.contains("/warm") {
            exchange.ok("fine");
            return true;
        }
        exchange.write("HTTP/1.1 2");
        false
    });
    let gateway = gateway(&upstream);
    get(gateway.address, "/warm");
    // The kept connection is there for the first, and not for the second.
    for path in ["/begun", "/new"] {
        assert!(get(gateway.address, path).0.starts_with("HTTP/1.1 502"));
        let seen = upstream.heads().iter().filter(|head| head.contains(path)).count();
        assert_eq!(seen, 1, "{path}");
    }
    let upstream = Served::new(|_: &mut Exchange| false);
    let gateway = self::gateway(&upstream);
    assert!(get(gateway.address, "/").0.starts_with("HTTP/1.1 502"));
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn a_connection_that_was_closed_while_it_was_idle_costs_nobody_a_request() {
    // Closes right after the answer, without saying so.
    let (close, closed) = std::sync::mpsc::channel::<()>();
    let close = std::sync::Mutex::new(close);
    let upstream = Served::new(move |exchange: &mut Exchange| {
        exchange.body();
        exchange.ok("fine");
        exchange.reader.get_mut().shutdown(std::net::Shutdown::Both).unwrap();
        close.lock().unwrap().send(()).unwrap();
        false
    });
    let gateway = gateway(&upstream);
    for n in 0..50 {
        let request = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbody";
        let (head, _) = Raw::connect(gateway.address).write(request).response();
        assert!(head.starts_with("HTTP/1.1 200"), "{n}: {head}");
        // On one machine the end is there as soon as it was sent, and so before the next request.
        closed.recv().unwrap();
    }
    assert_eq!(upstream.heads().len(), 50);
}

#[test]
fn a_request_that_was_never_sent_says_so() {
    let nobody = Port::take();
    let gateway = TestGateway::new(&format!("http://{}", nobody.address()));
    assert!(get(gateway.address, "/").0.starts_with("HTTP/1.1 502"));
    let failures = gateway.failures.lock().unwrap().clone();
    assert_eq!((failures[0].0.as_str(), failures[0].1), ("connect", true));
}

#[test]
fn what_is_no_http_is_a_bad_response() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        exchange.write("SSH-2.0-OpenSSH_9.2\r\n\r\n");
        false
    });
    let gateway = TestGateway::new(&upstream.url());
    assert!(get(gateway.address, "/").0.starts_with("HTTP/1.1 502"));
    assert_eq!(gateway.failures.lock().unwrap()[0].0.as_str(), "bad_response");
}
