//! What is no proper HTTP is refused before an upstream could read it in another way.

use crate::support::{Exchange, Raw, Served, TestGateway, header};

#[test]
fn faulty_requests_are_refused_and_never_forwarded() {
    let upstream = Served::echo();
    let gateway = TestGateway::new(&upstream.url());
    let rows: &[(&str, &str, &str)] = &[
        ("no host", "GET / HTTP/1.1\r\n\r\n", "400"),
        ("two hosts", "GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n", "400"),
        ("a host with a login", "GET / HTTP/1.1\r\nhost: a@b\r\n\r\n", "400"),
        ("a list of hosts", "GET / HTTP/1.1\r\nhost: a, b\r\n\r\n", "400"),
        ("a host with a path", "GET / HTTP/1.1\r\nhost: a/b\r\n\r\n", "400"),
        (
            "differing lengths",
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
            "400",
        ),
        ("a signed length", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +1\r\n\r\nx", "400"),
        ("a negative length", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\nx", "400"),
        ("a list of lengths", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1, 1\r\n\r\nx", "400"),
        ("a length in hex", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0x1\r\n\r\nx", "400"),
        ("an empty length", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length:\r\n\r\nx", "400"),
        (
            "a length beyond all numbers",
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 18446744073709551616\r\n\r\nx",
            "400",
        ),
        (
            "a coding that is not chunked",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\nx",
            "400",
        ),
        (
            "a coding below chunked",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "501",
        ),
        (
            "chunked twice",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
            "501",
        ),
        (
            "chunked in two headers",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\
             transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "501",
        ),
        (
            "a coding that is nearly chunked",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
            "400",
        ),
        (
            "chunked over HTTP/1.0",
            "POST / HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "400",
        ),
        ("a folded header", "GET / HTTP/1.1\r\nhost: a\r\nx: 1\r\n 2\r\n\r\n", "400"),
        ("a bare CR", "GET / HTTP/1.1\r\nhost: a\r\nx: 1\r2\r\n\r\n", "400"),
        ("a NUL in a value", "GET / HTTP/1.1\r\nhost: a\r\nx: 1\0\r\n\r\n", "400"),
        ("a NUL in a name", "GET / HTTP/1.1\r\nhost: a\r\nx\0: 1\r\n\r\n", "400"),
        ("a space before the colon", "GET / HTTP/1.1\r\nhost: a\r\nx : 1\r\n\r\n", "400"),
        ("a header without a colon", "GET / HTTP/1.1\r\nhost: a\r\nx\r\n\r\n", "400"),
        ("a header without a name", "GET / HTTP/1.1\r\nhost: a\r\n: x\r\n\r\n", "400"),
        ("a target that is no path", "GET x HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
        ("a star for another method", "GET * HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
        ("a target with a login", "GET http://u:p@a/ HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
        ("an odd version", "GET / HTTP/1.2\r\nhost: a\r\n\r\n", "400"),
        ("a space in the target", "GET /a b HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
        ("a tunnel", "CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n", "405"),
        ("an odd expectation", "GET / HTTP/1.1\r\nhost: a\r\nexpect: magic\r\n\r\n", "417"),
    ];
    for (what, request, status) in rows {
        let answer = Raw::connect(gateway.address).write(request).rest();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {answer:?}");
        let answers = answer.lines().filter(|line| line.starts_with("HTTP/1.1 ")).count();
        assert_eq!(answers, 1, "{what}: {answer:?}");
    }
    assert_eq!(upstream.heads(), [""; 0]);
}

#[test]
fn a_length_beside_chunks_is_dropped_and_the_connection_closed() {
    let upstream = Served::new(|exchange| {
        exchange.lines();
        exchange.ok("done");
        true
    });
    let gateway = TestGateway::new(&upstream.url());
    for lengths in [
        "content-length: 3\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 3",
    ] {
        let request =
            format!("POST / HTTP/1.1\r\nhost: a\r\n{lengths}\r\n\r\n0\r\n\r\nGET /smuggled");
        let answer = Raw::connect(gateway.address).write(request).rest();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("done"), "{answer}");
    }
    for head in upstream.heads() {
        assert_eq!(header(&head, "content-length"), None);
        assert_eq!(header(&head, "transfer-encoding"), Some("chunked"));
    }
}

#[test]
fn what_is_about_one_connection_stays_on_it() {
    let upstream = Served::new(|exchange| {
        let body = exchange.head.clone();
        exchange.write(format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: keep-alive, x-theirs\r\n\
             keep-alive: timeout=5\r\nx-theirs: 1\r\nproxy-authenticate: x\r\nx-kept: 1\r\n\r\n{body}",
            body.len()
        ));
        true
    });
    let gateway = TestGateway::new(&upstream.url());
    let request = "GET / HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, X-Mine, host\r\nx-mine: 1\r\n\
                   keep-alive: 5\r\nproxy-connection: x\r\nproxy-authorization: x\r\nte: gzip, trailers\r\n\
                   upgrade: h2c\r\nhttp2-settings: x\r\nx-kept: 1\r\n\r\n";
    let (head, seen) = Raw::connect(gateway.address).write(request).response();
    for gone in
        ["connection", "x-mine", "keep-alive", "proxy-connection", "proxy-authorization", "upgrade"]
    {
        assert_eq!(header(&seen, gone), None, "{seen}");
    }
    assert_eq!(header(&seen, "te"), Some("trailers"));
    assert_eq!((header(&seen, "host"), header(&seen, "x-kept")), (Some("a"), Some("1")));
    for gone in ["connection", "keep-alive", "x-theirs", "proxy-authenticate"] {
        assert_eq!(header(&head, gone), None, "{head}");
    }
    assert_eq!(header(&head, "x-kept"), Some("1"));
}

#[test]
fn the_target_decides_the_host() {
    let upstream = Served::echo();
    let gateway = TestGateway::new(&upstream.url());
    let request = "GET http://real:81/x?y HTTP/1.1\r\nhost: other\r\n\r\n";
    let (_, seen) = Raw::connect(gateway.address).write(request).response();
    assert!(seen.starts_with("GET /x?y HTTP/1.1\r\n"), "{seen}");
    assert_eq!(header(&seen, "host"), Some("real:81"));
    let (_, seen) =
        Raw::connect(gateway.address).write("OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n").response();
    assert!(seen.starts_with("OPTIONS * HTTP/1.1\r\n"), "{seen}");
    let (_, seen) = Raw::connect(gateway.address).write("GET / HTTP/1.0\r\n\r\n").response();
    assert_eq!(header(&seen, "host"), Some(&*upstream.address.to_string()));
}

/// To whoever reads lines that end in LF alone the body is over, and a request follows. It was read as trailers.
#[test]
fn trailers_that_end_in_two_ways_are_refused_and_no_request_is_read_as_trailers() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        if header(&exchange.head, "transfer-encoding").is_some() {
            exchange.lines();
        }
        exchange.ok("fine");
        true
    });
    let gateway = TestGateway::new(&upstream.url());
    let mut caller = Raw::connect(gateway.address);
    caller.write(
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n\
         0\r\nx: y\n\nGET /next HTTP/1.1\r\nhost: a\r\n\r\n",
    );
    let (head, _) = caller.response();
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    assert_eq!(header(&head, "connection"), Some("close"), "{head}");
    assert_eq!(caller.rest(), "");
}
