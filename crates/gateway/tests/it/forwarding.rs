//! A request reaches the upstream as it should, and its response the caller.

use crate::support::{Exchange, Raw, Served, TestGateway, curl, eventually, get, header};
use tollgate_policy::shapes::Server;

#[test]
fn requests_and_responses_pass_with_their_bodies() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        let body = exchange.body();
        exchange.ok(&format!("got {}", String::from_utf8_lossy(&body)));
        true
    });
    let gateway = TestGateway::new(&upstream.url());
    for protocol in ["--http1.1", "--http2-prior-knowledge", "--http1.0"] {
        assert_eq!(curl(&[protocol, "--data", "some", &gateway.url("/a?b=c")]), "got some");
    }
    for head in upstream.heads() {
        assert!(head.starts_with("POST /a?b=c HTTP/1.1\r\n"), "{head}");
        let host = gateway.address.to_string();
        assert_eq!(header(&head, "host"), Some(&*host));
        assert_eq!(header(&head, "content-length"), Some("4"));
        assert_eq!(header(&head, "x-forwarded-for"), Some("127.0.0.1"));
        assert_eq!(header(&head, "x-forwarded-proto"), Some("http"));
        assert_eq!(header(&head, "x-forwarded-host"), Some(&*host));
    }
}

#[test]
fn statuses_headers_and_lengths_of_heads_pass() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        if exchange.head.starts_with("HEAD") {
            exchange
                .write("HTTP/1.1 200 OK\r\ncontent-length: 1234\r\nx-one: 1\r\nx-one: 2\r\n\r\n");
        } else if exchange.head.contains("/304") {
            exchange.write("HTTP/1.1 304 Not Modified\r\netag: \"x\"\r\n\r\n");
        } else {
            exchange.write("HTTP/1.1 418 Teapot\r\ncontent-length: 0\r\n\r\n");
        }
        true
    });
    let gateway = TestGateway::new(&upstream.url());
    let head = Raw::connect(gateway.address).write("HEAD / HTTP/1.1\r\nhost: a\r\n\r\n").head();
    assert!(
        head.starts_with("HTTP/1.1 200") && head.contains("content-length: 1234\r\n"),
        "{head}"
    );
    assert!(head.contains("x-one: 1\r\n") && head.contains("x-one: 2\r\n"));
    assert!(get(gateway.address, "/304").0.starts_with("HTTP/1.1 304"));
    assert!(get(gateway.address, "/").0.starts_with("HTTP/1.1 418"));
}

#[test]
fn connections_to_the_upstream_are_used_again() {
    let upstream = Served::echo();
    let gateway = TestGateway::with(&[&upstream.url()], |server| {
        server.workers = tollgate_policy::shapes::Workers::Fixed(1);
    });
    for _ in 0..20 {
        assert!(get(gateway.address, "/").0.starts_with("HTTP/1.1 200"));
    }
    assert_eq!((upstream.heads().len(), upstream.connections()), (20, 1));
}

#[test]
fn an_exchange_that_was_not_finished_is_not_pooled() {
    // The upstream answers before the body has come, and keeps the connection.
    let upstream = Served::new(|exchange: &mut Exchange| {
        exchange.ok("early");
        true
    });
    let gateway = TestGateway::with(&[&upstream.url()], |server| {
        server.workers = tollgate_policy::shapes::Workers::Fixed(1);
    });
    let mut caller = Raw::connect(gateway.address);
    caller.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf");
    assert_eq!(caller.response().1, "early");
    drop(caller);
    assert_eq!(get(gateway.address, "/").1, "early");
    assert_eq!(upstream.connections(), 2);
    assert!(upstream.heads()[1].starts_with("GET"), "{:?}", upstream.heads());
}

#[test]
fn paths_of_the_upstream_stand_before_the_requests() {
    let upstream = Served::echo();
    let gateway = TestGateway::new(&format!("{}/base/", upstream.url()));
    assert!(get(gateway.address, "/x?y").1.starts_with("GET /base/x?y HTTP/1.1\r\n"));
    assert!(curl(&["--http2-prior-knowledge", &gateway.url("/z")]).starts_with("GET /base/z "));
}

#[test]
fn several_addresses_take_turns_and_a_dead_one_is_left_out() {
    let (one, two) = (Served::echo(), Served::echo());
    let dead = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let gateway = TestGateway::with(&[&one.url(), &dead, &two.url()], |server| {
        server.workers = tollgate_policy::shapes::Workers::Fixed(1);
    });
    for _ in 0..30 {
        assert!(get(gateway.address, "/").0.starts_with("HTTP/1.1 200"));
    }
    let (one, two) = (one.heads().len(), two.heads().len());
    assert_eq!(one + two, 30);
    assert!(one >= 10 && two >= 10, "{one} and {two}");
    assert!(gateway.failures.lock().unwrap().is_empty());
}

#[test]
fn names_are_resolved() {
    let upstream = Served::echo();
    let gateway = TestGateway::new(&format!("http://localhost:{}", upstream.address.port()));
    for _ in 0..5 {
        assert!(get(gateway.address, "/").0.starts_with("HTTP/1.1 200"));
    }
    let gateway = TestGateway::new("http://no-such-host.invalid");
    assert!(get(gateway.address, "/").0.starts_with("HTTP/1.1 502"));
    assert_eq!(gateway.failures.lock().unwrap()[0].0.as_str(), "resolve");
}

#[test]
fn pending_counts_requests_that_are_not_yet_answered() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let upstream = Served::new(move |exchange: &mut Exchange| {
        wait.lock().unwrap().recv().unwrap();
        // The head ends the wait, however long the body takes.
        exchange.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n1");
        wait.lock().unwrap().recv().unwrap();
        exchange.write("2");
        true
    });
    let gateway = TestGateway::new(&upstream.url());
    let mut caller = Raw::connect(gateway.address);
    caller.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    eventually("pending", || gateway.upstream.backpressure().pending() == 1);
    go.send(()).unwrap();
    assert!(caller.head().starts_with("HTTP/1.1 200"));
    eventually("answered", || gateway.upstream.backpressure().pending() == 0);
    go.send(()).unwrap();
    assert_eq!(caller.read_until("12"), "12");
}

#[test]
fn a_panic_ends_one_connection_and_is_counted() {
    let upstream = Served::echo();
    let gateway = TestGateway::with(&[&upstream.url()], |server| {
        server.workers = tollgate_policy::shapes::Workers::Fixed(1);
    });
    let mut other = Raw::connect(gateway.address);
    other.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n").response();
    assert_eq!(
        Raw::connect(gateway.address).write("GET /panic HTTP/1.1\r\nhost: a\r\n\r\n").rest(),
        ""
    );
    eventually("counted", || gateway.counts.panics() == 1);
    assert!(other.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n").head().starts_with("HTTP/1.1 200"));
}

/// Who is trusted is a setting like any other: it is in force for connections that are open already.
#[test]
fn a_proxy_that_is_no_longer_trusted_is_not_believed_over_an_open_connection() {
    let upstream = Served::echo();
    let trusting = Server { trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()], ..server() };
    let gateway = TestGateway::with(&[&upstream.url()], |server| *server = trusting.clone());
    let mut caller = Raw::connect(gateway.address);
    let mut seen = || {
        let request = "GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 203.0.113.7\r\n\r\n";
        caller.write(request).response().1
    };
    assert!(seen().contains("203.0.113.7"));
    gateway.change(&server());
    eventually("it is not believed", || !seen().contains("203.0.113.7"));
    gateway.change(&trusting);
    eventually("it is believed again", || seen().contains("203.0.113.7"));
}

fn server() -> Server {
    Server {
        listen: "127.0.0.1:0".parse().unwrap(),
        workers: tollgate_policy::shapes::Workers::Fixed(1),
        ..Server::default()
    }
}
