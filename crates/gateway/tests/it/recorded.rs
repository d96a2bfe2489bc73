//! Every request that is answered is told of, with who sent it.

use std::net::IpAddr;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use tollgate_gateway::law::{Cause, Outcome};

use crate::support::{Exchange, Raw, Served, TestLaw, eventually};

const CAPS: &str = "{ headers: 10, header_bytes: 2000, body_bytes: 100 }";

fn file(upstream: &Served) -> String {
    format!(
        "
auth: {{ mode: none }}
upstreams: {{ api: {{ url: \"{}\", backpressure: {{ threshold: 1 }} }} }}
routes: [ {{ path: \"/a/*\", upstream: api }} ]
",
        upstream.url()
    )
}

/// They left no line in the access log, as if nobody had asked.
#[test]
fn requests_that_are_no_proper_http_or_break_a_cap_are_recorded() {
    let gateway = TestLaw::with(CAPS, &file(&Served::echo()));
    let many = "x: y\r\n".repeat(20);
    let large = format!("x: {}\r\n", "y".repeat(3000));
    for (nth, (line, headers, status)) in [
        ("POST /a/b?c=d", "host: a\r\ncontent-length: 101\r\n", 413),
        ("GET /a/b?c=d", &*many, 431),
        ("GET /a/b?c=d", &*large, 431),
        ("GET /a/b?c=d", "", 400),
        ("GET /a/b?c=d", "host: a\r\nhost: a\r\n", 400),
        ("POST /a/b?c=d", "host: a\r\ncontent-length: +1\r\n", 400),
        ("GET /a/b?c=d", "no header\r\n", 400),
        ("GET /a/b?c=d", "host: a\r\nexpect: more\r\n", 417),
        ("CONNECT b:80", "host: b:80\r\n", 405),
    ]
    .into_iter()
    .enumerate()
    {
        let head =
            Raw::connect(gateway.address).write(format!("{line} HTTP/1.1\r\n{headers}\r\n")).head();
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{line} {headers}: {head}");
        let records = gateway.records();
        assert_eq!(records.len(), nth + 1, "{line} {headers}");
        let record = records.last().unwrap();
        let (method, target) = record.head.clone().unwrap();
        assert_eq!(format!("{method} {target}"), line);
        assert_eq!(record.status.as_u16(), status);
        assert_eq!(record.outcome, Outcome::TurnedAway);
        assert_eq!(record.address, Some(IpAddr::from([127, 0, 0, 1])));
    }
}

/// Behind a proxy that adds a line of its own, the line of the caller was believed where the head was not read to its end.
#[test]
fn who_was_forwarded_is_told_by_a_whole_head_only() {
    let caps = format!("{CAPS}, trusted_proxies: [ 127.0.0.1/32 ]");
    let gateway = TestLaw::with(&caps, &file(&Served::echo()));
    for (fault, address) in [
        ("expect: more", [203, 0, 113, 7]),
        ("content-length: +1", [127, 0, 0, 1]),
        ("transfer-encoding: chunked\r\ntransfer-encoding: gzip", [203, 0, 113, 7]),
    ] {
        let request = format!(
            "GET /a/b HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 6.6.6.6\r\n{fault}\r\n\
             x-forwarded-for: 203.0.113.7\r\n\r\n"
        );
        let head = Raw::connect(gateway.address).write(request).head();
        assert!(head.starts_with("HTTP/1.1 4"), "{fault}: {head}");
        let record = gateway.records().pop().unwrap();
        assert_eq!(record.address, Some(IpAddr::from(address)), "{fault}");
    }
}

#[tokio::test]
async fn over_http2_they_are_recorded_too() {
    let gateway = TestLaw::with(CAPS, &file(&Served::echo()));
    let body = Full::new(Bytes::from("y".repeat(101)));
    let request = Request::post("http://a/a/b").body(body).unwrap();
    // It is answered before its body is there, which some callers take for an error.
    drop(crate::http2::connect(gateway.address).await.send_request(request).await);
    let record = gateway.records().pop().unwrap();
    assert_eq!(record.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(record.head.unwrap().0, Method::POST);
}

/// What is no request at all cannot be told of as one, least of all as the one before it.
#[test]
fn what_asks_for_nothing_is_not_recorded() {
    let gateway = TestLaw::with(CAPS, &file(&Served::echo()));
    let mut caller = Raw::connect(gateway.address);
    caller.write("GET /a/b HTTP/1.1\r\nhost: a\r\n\r\n").response();
    assert!(caller.write("\0\0\r\n\r\n").head().starts_with("HTTP/1.1 400"));
    assert_eq!(gateway.records().len(), 1);
}

/// Their lines had no address.
#[test]
fn who_is_turned_away_before_anything_is_asked_of_it_is_known_by_its_address() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        // It answers nobody.
        let _ = std::io::Read::read(&mut exchange.reader, &mut [0]);
        false
    });
    let gateway = TestLaw::new(&file(&upstream));
    let asked = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        Raw::connect(gateway.address).write(request).head();
        gateway.records().pop().unwrap()
    };
    let here = Some(IpAddr::from([127, 0, 0, 1]));
    for (path, status) in [("/nobody", 404), ("/a/%2", 400)] {
        let record = asked(path);
        assert_eq!((record.status.as_u16(), record.address), (status, here), "{path}");
    }
    let mut pending: Vec<_> = (0..2).map(|_| Raw::connect(gateway.address)).collect();
    for caller in &mut pending {
        caller.write("GET /a/b HTTP/1.1\r\nhost: a\r\n\r\n");
    }
    eventually("both are pending", || upstream.heads().len() == 2);
    let record = asked("/a/b");
    assert_eq!((record.cause, record.address), (Some(Cause::Overloaded), here));
}
