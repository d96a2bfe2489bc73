//! Heads that come again over the same connection: they need not be read again, and are judged anew each time.

use tollgate_policy::Sha256;
use tollgate_policy::shapes::Server;

use crate::support::{Exchange, Raw, Served, TestGateway, TestLaw, eventually, header};

const KEY: &str = "tg_live_ExampleKeyDoNotUseItReal0fYmW4";

/// A file with one key of tenant `acme`, and what else it has.
fn file(upstream: &Served, rest: &str) -> String {
    let (url, digest) = (upstream.url(), Sha256::of(KEY.as_bytes()));
    format!(
        "
upstreams: {{ api: {{ url: \"{url}\" }} }}
tenants: [ {{ id: acme }} ]
keys: [ {{ tenant: acme, user: ci, sha256: {digest} }} ]
defaults: {{ tenant: null, client: {{ sustained: {{ rate: 2, window: day }}, scope: user }} }}
{rest}
"
    )
}

const ALL: &str = "routes: [ { path: \"/*\", upstream: api } ]";

fn status(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

fn same() -> String {
    format!(
        "GET /a//b?q=1 HTTP/1.1\r\nHost: a\r\nX-Api-Key: {KEY}\r\nX-Tollgate-Plan: mine\r\n\r\n"
    )
}

#[test]
fn the_same_head_is_charged_told_and_forwarded_as_the_first_was() {
    let upstream = Served::echo();
    let gateway = TestLaw::new(&file(&upstream, ALL));
    let mut caller = Raw::connect(gateway.address);
    let (mut ids, mut seen) = (Vec::new(), Vec::new());
    for (expected, remaining) in [("200", "1"), ("200", "0"), ("429", "0"), ("429", "0")] {
        let (head, body) = caller.write(same()).response();
        assert_eq!(status(&head), expected, "{head}");
        assert_eq!(header(&head, "x-ratelimit-remaining"), Some(remaining), "{head}");
        let id = header(&head, "x-request-id").unwrap().to_owned();
        assert!(body.contains(&id) && !ids.contains(&id), "{body}");
        seen.push(body.replace(&id, "ID"));
        ids.push(id);
    }
    // One spelling of the path, no key, nothing that only the gateway says.
    assert!(seen[0].starts_with("GET /a/b?q=1 HTTP/1.1\r\n"), "{}", seen[0]);
    assert!(!seen[0].contains(KEY) && !seen[0].contains("mine"), "{}", seen[0]);
    assert_eq!(seen[0], seen[1]);
    // Only the wait may have become shorter.
    assert_eq!(seen[2].len(), seen[3].len(), "{seen:?}");
    assert_eq!(gateway.records().len(), 4);
}

#[test]
fn a_head_that_comes_again_meets_what_is_in_force_by_then() {
    let upstream = Served::echo();
    let gateway = TestLaw::new(&file(&upstream, ALL));
    let mut caller = Raw::connect(gateway.address);
    let mut ask = || status(&caller.write(same()).response().0).to_owned();
    assert_eq!([ask(), ask(), ask(), ask()], ["200", "200", "429", "429"]);
    // Where there is no such route any more; where the path is another route's, which is free.
    gateway.reload(&file(&upstream, "routes: [ { path: /other, upstream: api } ]"));
    assert_eq!([ask(), ask()], ["404", "404"]);
    let free = "routes: [ { path: \"/a/{x}\", upstream: api, rate_limit: { cost: 0 } } ]";
    gateway.reload(&file(&upstream, free));
    assert_eq!([ask(), ask()], ["200", "200"]);
    // Where keys are shown under another name, the key is none.
    gateway.reload(&file(&upstream, &format!("{ALL}\nauth: {{ header: x-other }}")));
    assert_eq!([ask(), ask()], ["401", "401"]);
    gateway.reload(&file(&upstream, ALL));
    assert_eq!([ask(), ask()], ["429", "429"]);
    // Where nobody has that key any more.
    let without =
        file(&upstream, ALL).replace(&Sha256::of(KEY.as_bytes()).to_string(), &"a".repeat(64));
    gateway.reload(&without);
    assert_eq!([ask(), ask()], ["401", "401"]);
    // Where none is asked for.
    gateway.reload(&file(&upstream, &format!("{ALL}\nauth: {{ mode: none }}")));
    assert_eq!([ask(), ask(), ask()], ["200", "200", "429"]);
}

#[test]
fn another_head_is_another_request_however_little_it_differs() {
    let upstream = Served::echo();
    let gateway = TestLaw::new(&file(&upstream, ALL));
    let mut caller = Raw::connect(gateway.address);
    let mistyped = KEY.replace("Real", "Rael");
    let refused = |key: &str| format!("GET /x HTTP/1.1\r\nhost: a\r\nx-api-key: {key}\r\n\r\n");
    let (good, bad) = (refused(KEY), refused(&mistyped));
    let expected = [(&good, "200"), (&bad, "401"), (&good, "200"), (&good, "429"), (&bad, "401")];
    for (request, expected) in expected {
        let (head, _) = caller.write(request).response();
        assert_eq!(status(&head), expected, "{request}");
    }
    // Several at once, of which the second is the longer and begins like the first.
    let longer = good.replace("\r\n\r\n", "\r\nx-more: 1\r\n\r\n");
    caller.write([good.as_str(), &longer, &good, &bad].concat());
    let answers: Vec<_> = (0..4).map(|_| status(&caller.response().0).to_owned()).collect();
    assert_eq!(answers, ["429", "429", "429", "401"]);
}

#[test]
fn bodies_behind_the_same_head_are_each_its_own() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        let body = String::from_utf8(exchange.body()).unwrap();
        exchange.ok(&body);
        true
    });
    let gateway = TestGateway::new(&upstream.url());
    let mut caller = Raw::connect(gateway.address);
    for body in ["one", "two", "six"] {
        let request = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n{body}");
        assert_eq!(caller.write(request).response().1, body);
    }
}

#[test]
fn caps_that_are_lowered_hold_for_a_head_that_passed_before() {
    let upstream = Served::echo();
    let gateway = TestGateway::new(&upstream.url());
    let request = format!("GET /refuse HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "x".repeat(2000));
    let mut caller = Raw::connect(gateway.address);
    for _ in 0..3 {
        assert_eq!(status(&caller.write(&request).response().0), "429");
    }
    let mut server = Server::default();
    server.caps.header_bytes = 1000;
    gateway.change(&server);
    // Workers look at their settings ten times a second.
    eventually("the head is too large", || match status(&caller.write(&request).response().0) {
        "429" => false,
        other => {
            assert_eq!(other, "431");
            true
        }
    });
}
