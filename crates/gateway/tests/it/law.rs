//! The law, as callers and upstreams see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use tollgate_gateway::law::Outcome;

use crate::support::{Exchange, Raw, Served, TestLaw, curl, eventually, header};

const KEY: &str = "tg_live_ExampleKeyDoNotUseItReal0fYmW4";

/// A file with one key, of user `ci` of tenant `acme`, whose plan is `p`.
fn file(upstream: &Served, plan: &str) -> String {
    format!(
        "
upstreams: {{ api: {{ url: \"{}\" }} }}
routes:
  - {{ path: \"/*\", upstream: api }}
  - {{ path: /open, upstream: api, auth: none }}
plans: {{ p: {plan} }}
tenants: [ {{ id: acme, plan: p }} ]
keys: [ {{ tenant: acme, user: ci, sha256: {} }} ]
",
        upstream.url(),
        tollgate_policy::Sha256::of(KEY.as_bytes())
    )
}

fn get(gateway: &TestLaw, path: &str, headers: &str) -> (String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n{headers}\r\n");
    Raw::connect(gateway.address).write(request).response()
}

/// Callers break off a stream on which content comes in answer to HEAD.
#[test]
fn what_we_answer_to_head_has_no_content() {
    let upstream = Served::echo();
    let gateway = TestLaw::new(&file(&upstream, "{}"));
    let url = format!("http://{}/x", gateway.address);
    let whole = curl(&["--http2-prior-knowledge", &url]);
    for protocol in ["--http1.1", "--http2-prior-knowledge"] {
        let head = curl(&[protocol, "--head", &url]);
        assert!(head.lines().next().unwrap().contains(" 401"), "{head}");
        let length = whole.len().to_string();
        assert_eq!(header(&head, "content-length"), Some(length.as_str()), "{head}");
    }
}

#[test]
fn a_key_in_a_cookie_stays_here() {
    let upstream = Served::echo();
    let text = format!("{}auth: {{ header: cookie }}\n", file(&upstream, "{}"));
    let (head, seen) = get(&TestLaw::new(&text), "/x", &format!("cookie: {KEY}\r\n"));
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(!seen.contains("tg_"), "{seen}");
}

/// `X_Tollgate_User: admin` passed, and is the same as ours to whatever is behind CGI or WSGI.
#[test]
fn nobody_else_says_what_we_say_of_a_caller_however_it_is_spelled() {
    let upstream = Served::echo();
    let gateway = TestLaw::new(&file(&upstream, "{}"));
    let key = format!("x-api-key: {KEY}");
    let forged = [
        "X_Tollgate_User: forged",
        "x-tollgate_plan: forged",
        "x_tollgate-more: forged",
        "X-Tollgate-Tenant: forged",
        "X_Request_ID: forged",
        "x-ratelimit_degraded: forged",
        "x_tollgate: kept",
    ];
    let lines = [&[&*key], &forged[..]].concat().join("\r\n") + "\r\n";
    // The second time it is the same head again.
    let request = format!("GET /x HTTP/1.1\r\nhost: a\r\n{lines}\r\n");
    let mut caller = Raw::connect(gateway.address);
    let mut all: Vec<_> = (0..2).map(|_| caller.write(&request).response().1).collect();
    let mut args =
        vec!["--http2-prior-knowledge".to_owned(), format!("http://{}/x", gateway.address)];
    for line in [&[&*key], &forged[..]].concat() {
        args.extend(["-H".to_owned(), line.to_owned()]);
    }
    all.push(curl(&args.iter().map(String::as_str).collect::<Vec<_>>()));
    for seen in all {
        assert!(!seen.contains("forged"), "{seen}");
        assert_eq!(header(&seen, "x-tollgate-user"), Some("ci"), "{seen}");
        assert_eq!(header(&seen, "x_tollgate"), Some("kept"), "{seen}");
    }
}

/// It left no line in the access log, as if nobody had asked.
#[test]
fn of_a_target_that_is_too_long_the_beginning_is_recorded() {
    let upstream = Served::echo();
    let gateway = TestLaw::with("{ header_bytes: 2000 }", &file(&upstream, "{}"));
    for blank_lines in ["", "\r\n\r\n"] {
        let request = format!("{blank_lines}GET /a/b?c={}", "d".repeat(3000));
        let head = Raw::connect(gateway.address).write(request).head();
        assert!(head.starts_with("HTTP/1.1 431"), "{head}");
        let record = gateway.records().pop().unwrap();
        let (method, target) = record.head.unwrap();
        assert_eq!((method.as_str(), target.path()), ("GET", "/a/b"));
        assert_eq!((record.status.as_u16(), record.outcome), (431, Outcome::TurnedAway));
    }
}

#[test]
fn a_body_that_breaks_before_anything_is_sent_costs_nothing() {
    let upstream = Served::echo();
    let plan = "{ rate_limit: { sustained: { rate: 5, window: day }, scope: user } }";
    let gateway = TestLaw::new(&file(&upstream, plan));
    let broken = format!(
        "POST /x HTTP/1.1\r\nhost: a\r\nx-api-key: {KEY}\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
    );
    let answer = Raw::connect(gateway.address).write(broken).rest();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    let (head, _) = get(&gateway, "/x", &format!("x-api-key: {KEY}\r\n"));
    assert_eq!(header(&head, "x-ratelimit-remaining"), Some("4"), "{head}");
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn no_key_of_ours_goes_on_wherever_it_stands_beside_others() {
    let upstream = Served::echo();
    let gateway = TestLaw::new(&file(&upstream, "{}"));
    let key = format!("x-api-key: {KEY}\r\n");
    let bearer = format!("Authorization: Bearer {KEY}\r\n");
    let other = "authorization: Basic dTpw\r\n";
    for (path, headers, kept) in [
        ("/x", format!("{key}{bearer}"), vec![]),
        ("/x", format!("{key}{other}{bearer}"), vec!["authorization: Basic dTpw"]),
        ("/x", format!("{other}{bearer}"), vec!["authorization: Basic dTpw"]),
        ("/x", format!("{key}authorization: bearer \t{KEY}\r\n"), vec![]),
        (
            "/x",
            format!("{key}authorization: Bearer theirs\r\n"),
            vec!["authorization: Bearer theirs"],
        ),
        ("/open", format!("x-api-key: theirs\r\n{key}{bearer}"), vec!["x-api-key: theirs"]),
        ("/open", format!("{key}x-api-key: theirs\r\n"), vec!["x-api-key: theirs"]),
    ] {
        let (head, seen) = get(&gateway, path, &headers);
        assert!(head.starts_with("HTTP/1.1 200"), "{headers}: {head}");
        assert!(!seen.contains("tg_"), "{headers}: {seen}");
        let is_key = |line: &&str| line.starts_with("authorization") || line.starts_with("x-api");
        assert_eq!(seen.lines().filter(is_key).collect::<Vec<_>>(), kept, "{headers}");
    }
    // Two keys of ours in the same place are none.
    let (head, _) = get(&gateway, "/x", &format!("{bearer}{bearer}"));
    assert!(head.starts_with("HTTP/1.1 401"), "{head}");
}

/// Where degraded requests go they may be too many, too.
#[test]
fn an_upstream_that_is_degraded_to_has_its_own_backpressure() {
    let upstream = Served::echo();
    let spare = Served::new(|exchange: &mut Exchange| {
        // It answers nobody.
        let _ = std::io::Read::read(&mut exchange.reader, &mut [0]);
        false
    });
    let gateway = TestLaw::new(&format!(
        "
auth: {{ mode: none }}
upstreams:
  api: {{ url: \"{}\" }}
  spare: {{ url: \"{}\", backpressure: {{ threshold: 1 }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
defaults:
  client: {{ sustained: {{ rate: 1, window: day }}, scope: user, strategy: degrade, degrade: {{ upstream: spare }} }}
  tenant: {{ sustained: {{ rate: 100, window: day }}, scope: global }}
",
        upstream.url(),
        spare.url()
    ));
    let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    assert!(get(&gateway, "/", "").0.starts_with("HTTP/1.1 200"));
    let mut pending: Vec<Raw> = (0..2).map(|_| Raw::connect(gateway.address)).collect();
    for caller in &mut pending {
        caller.write(request);
    }
    eventually("both are pending", || spare.heads().len() == 2);
    let (head, body) = get(&gateway, "/", "");
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert!(body.contains("upstream:spare") && body.contains("temporary-reduced"), "{body}");
    assert_eq!(gateway.records().last().unwrap().outcome, Outcome::GivenBack);
    assert_eq!(spare.heads().len(), 2);
}

/// Whoever was charged is told of it, also where the upstream fails; whoever was given it back is not.
#[test]
fn an_upstream_that_fails_keeps_nobody_from_being_told_of_limits() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        // It has read the request, and then hangs up or takes its time.
        exchange.head.contains("/slow")
            && std::io::Read::read(&mut exchange.reader, &mut [0]).is_err()
    });
    let gateway = TestLaw::new(&format!(
        "
auth: {{ mode: none }}
upstreams:
  api: {{ url: \"{0}\" }}
  slow: {{ url: \"{0}\", response_timeout_ms: 200 }}
  nobody: {{ url: \"http://127.0.0.1:1\" }}
routes:
  - {{ path: \"/*\", upstream: api }}
  - {{ path: /slow, upstream: slow }}
  - {{ path: /nobody, upstream: nobody }}
defaults:
  client: {{ sustained: {{ rate: 2, window: day }}, scope: user, strategy: degrade }}
  tenant: {{ sustained: {{ rate: 100, window: day }}, scope: global }}
",
        upstream.url()
    ));
    for (path, status, remaining, degraded) in [
        ("/x", "502", Some("1"), None),
        ("/nobody", "502", None, None),
        ("/slow", "504", Some("0"), None),
        ("/x", "502", Some("0"), Some("user-day")),
    ] {
        let request = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
        let (head, body) = Raw::connect(gateway.address).write(request).response();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {head}");
        assert_eq!(header(&head, "content-type"), Some("application/problem+json"), "{path}");
        assert_eq!(header(&head, "x-ratelimit-remaining"), remaining, "{path}: {head}");
        assert_eq!(header(&head, "x-ratelimit-degraded"), degraded, "{path}: {head}");
        assert!(body.contains(header(&head, "x-request-id").unwrap()), "{path}: {body}");
        assert_eq!(head.matches("x-request-id").count(), 1, "{head}");
    }
}

#[test]
fn a_request_costs_what_its_route_says_whatever_its_limits_count() {
    let upstream = Served::echo();
    let rate = "rate_limit: { sustained: { rate: 1000 }, scope: user, cost: 3 }";
    let quota = "quota: { limit: 1000, window: month }";
    for (plan, defaults, costs) in [
        (format!("{{ {quota} }}"), "null", [7, 1]),
        (format!("{{ {rate}, {quota} }}"), "null", [7, 3]),
        ("{}".to_owned(), "null", [7, 0]),
    ] {
        let gateway = TestLaw::new(&format!(
            "
auth: {{ mode: none }}
upstreams: {{ api: {{ url: \"{}\" }}, nobody: {{ url: \"http://127.0.0.1:1\" }} }}
routes:
  - {{ path: /stated, upstream: api, rate_limit: {{ cost: 7 }} }}
  - {{ path: /unstated, upstream: api }}
  - {{ path: /nobody, upstream: nobody, rate_limit: {{ cost: 7 }} }}
defaults: {{ client: {defaults}, tenant: {defaults} }}
plans: {{ p: {plan} }}
tenants: [ {{ id: anonymous, plan: p }} ]
",
            upstream.url()
        ));
        for path in ["/stated", "/unstated"] {
            assert!(get(&gateway, path, "").0.starts_with("HTTP/1.1 200"), "{plan}");
        }
        let found: Vec<u64> = gateway.records().iter().map(|record| record.cost).collect();
        assert_eq!(found, costs, "{plan}");
        // What is given back was not spent.
        assert!(get(&gateway, "/nobody", "").0.starts_with("HTTP/1.1 502"));
        let metrics = gateway.metrics();
        for (path, tokens) in [("/stated", costs[0]), ("/unstated", costs[1]), ("/nobody", 0)] {
            let line = format!(
                "rate_limit_tokens_consumed_total{{tier=\"p\",endpoint=\"{path}\"}} {tokens}\n"
            );
            assert!(metrics.contains(&line), "{line}{plan}:\n{metrics}");
        }
    }
}

#[test]
fn the_share_in_use_is_told_from_the_first_request_on() {
    let upstream = Served::echo();
    let plan = "{ rate_limit: { sustained: { rate: 4, window: day }, scope: user } }";
    let gateway = TestLaw::new(&file(&upstream, plan));
    let (head, _) = get(&gateway, "/x", &format!("x-api-key: {KEY}\r\n"));
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let line = "rate_limit_bucket_usage_pct{tier=\"p\"} 0.25\n";
    assert!(gateway.metrics().contains(line), "{}", gateway.metrics());
}

/// The limits that would refuse it are skipped and all others charged: it spends what those take.
#[test]
fn a_degraded_request_spends_nothing_where_all_its_limits_were_skipped() {
    let upstream = Served::echo();
    for (tenant, spent) in [("", [7, 0]), (", rate_limit: { sustained: { rate: 100 } }", [7, 7])] {
        let gateway = TestLaw::new(&format!(
            "
auth: {{ mode: none }}
upstreams: {{ api: {{ url: \"{}\" }} }}
routes: [ {{ path: /x, upstream: api, rate_limit: {{ cost: 7 }} }} ]
defaults: {{ client: null, tenant: null }}
plans: {{ p: {{ rate_limit: {{ sustained: {{ rate: 10, window: day }}, scope: user, strategy: degrade }} }} }}
tenants: [ {{ id: anonymous, plan: p{tenant} }} ]
",
            upstream.url()
        ));
        for mark in [None, Some("user-day")] {
            let (head, _) = get(&gateway, "/x", "");
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            assert_eq!(header(&head, "x-ratelimit-degraded"), mark, "{tenant}");
        }
        let records = gateway.records();
        let found: Vec<_> = records.iter().map(|record| (record.cost, record.spent())).collect();
        assert_eq!(found, spent.map(|spent| (7, spent)), "{tenant}");
        let tokens: u64 = spent.iter().sum();
        let line =
            format!("rate_limit_tokens_consumed_total{{tier=\"p\",endpoint=\"/x\"}} {tokens}\n");
        assert!(gateway.metrics().contains(&line), "{line}{}", gateway.metrics());
    }
}

#[test]
fn what_is_asked_of_the_server_as_a_whole_goes_where_its_root_goes() {
    let upstream = Served::echo();
    let gateway = TestLaw::new(&file(&upstream, "{}"));
    let request = format!("OPTIONS * HTTP/1.1\r\nhost: a\r\nx-api-key: {KEY}\r\n\r\n");
    let (head, seen) = Raw::connect(gateway.address).write(request).response();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(seen.starts_with("OPTIONS * HTTP/1.1\r\n"), "{seen}");
}

#[test]
fn one_connection_too_many_is_answered_like_any_request() {
    let upstream = Served::echo();
    let gateway = TestLaw::with("{ connections: 1 }", &file(&upstream, "{}"));
    let mut held = Raw::connect(gateway.address);
    let request = format!("GET / HTTP/1.1\r\nhost: a\r\nx-api-key: {KEY}\r\n\r\n");
    held.write(request).response();
    let (head, body) = Raw::connect(gateway.address).response();
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert_eq!(header(&head, "retry-after"), Some("1"));
    assert_eq!(header(&head, "connection"), Some("close"));
    assert_eq!(header(&head, "content-type"), Some("application/problem+json"));
    assert!(body.contains(header(&head, "x-request-id").unwrap()), "{body}");
}

/// Where nobody accepts and the line is full: the kernel answers no more who want to connect.
fn nowhere() -> (std::net::SocketAddr, Vec<socket2::Socket>) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap();
    let mut sockets: Vec<_> = (0..8)
        .map(|_| {
            let caller =
                socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            caller.set_nonblocking(true).unwrap();
            let _ = caller.connect(&address);
            caller
        })
        .collect();
    sockets.push(socket);
    (address.as_socket().unwrap(), sockets)
}

/// One request a day to an upstream that nobody can connect to.
fn to_nowhere(address: std::net::SocketAddr, connect_timeout_ms: u64) -> TestLaw {
    TestLaw::new(&format!(
        "
auth: {{ mode: none }}
upstreams: {{ api: {{ url: \"http://{address}\", connect_timeout_ms: {connect_timeout_ms} }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
defaults: {{ client: {{ sustained: {{ rate: 1, window: day }}, scope: user }}, tenant: null }}
"
    ))
}

#[test]
fn who_hangs_up_before_there_is_a_connection_is_given_everything_back() {
    let (address, _sockets) = nowhere();
    let gateway = to_nowhere(address, 600_000);
    for asked in 1..=3 {
        Raw::connect(gateway.address).write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
        eventually("it is noticed", || gateway.records().len() == asked);
        let record = &gateway.records()[asked - 1];
        assert_eq!((&record.outcome, record.status.as_u16()), (&Outcome::GivenBack, 499));
    }
}

#[test]
fn an_upstream_that_cannot_be_connected_to_in_time_is_504_and_costs_nothing() {
    let (address, _sockets) = nowhere();
    let gateway = to_nowhere(address, 300);
    for _ in 0..2 {
        let (head, body) = get(&gateway, "/", "");
        assert!(head.starts_with("HTTP/1.1 504"), "{head}");
        assert_eq!(header(&head, "content-type"), Some("application/problem+json"));
        assert!(body.contains("Connecting to the upstream took too long."), "{body}");
    }
    assert_eq!(gateway.records()[1].outcome, Outcome::GivenBack);
}

/// Requests that found the key of one file and the tenants of the other were turned away.
#[test]
fn a_good_key_stays_good_while_its_tenant_is_renamed() {
    let upstream = Served::echo();
    let text = file(&upstream, "{}");
    let renamed = text.replace("acme", "apex");
    let gateway = TestLaw::new(&text);
    let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let call = |_| {
        let (address, of) = (gateway.address, (Arc::clone(&is_over), Arc::clone(&answered)));
        std::thread::spawn(move || {
            let mut caller = Raw::connect(address);
            while !of.0.load(Relaxed) {
                let request = format!("GET /x HTTP/1.1\r\nhost: a\r\nx-api-key: {KEY}\r\n\r\n");
                let (head, _) = caller.write(request).response();
                assert!(!head.starts_with("HTTP/1.1 401"), "{head}");
                of.1.fetch_add(1, Relaxed);
            }
        })
    };
    let callers: Vec<_> = (0..4).map(call).collect();
    for turn in 1..500 {
        eventually("load", || {
            answered.load(Relaxed) > turn
                || callers.iter().any(std::thread::JoinHandle::is_finished)
        });
        gateway.reload(if turn % 2 == 0 { &text } else { &renamed });
    }
    is_over.store(true, Relaxed);
    for caller in callers {
        caller.join().unwrap();
    }
}
