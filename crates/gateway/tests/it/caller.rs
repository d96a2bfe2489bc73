//! Whose address counts.

use crate::support::{Raw, Served, TestGateway, header};
use tollgate_gateway::caller_address;

#[test]
fn the_caller_is_the_nearest_address_that_is_no_trusted_proxy() {
    let rows: &[(&str, &[&str], &[&str], &str)] = &[
        // peer, X-Forwarded-For, trusted, caller
        ("9.9.9.9", &[], &[], "9.9.9.9"),
        ("9.9.9.9", &["1.1.1.1"], &[], "9.9.9.9"),
        ("9.9.9.9", &["1.1.1.1"], &["10.0.0.0/8"], "9.9.9.9"),
        ("10.0.0.1", &["1.1.1.1"], &["10.0.0.0/8"], "1.1.1.1"),
        ("10.0.0.1", &[], &["10.0.0.0/8"], "10.0.0.1"),
        ("10.0.0.1", &["6.6.6.6, 1.1.1.1"], &["10.0.0.0/8"], "1.1.1.1"),
        ("10.0.0.1", &["6.6.6.6", "1.1.1.1 ,10.0.0.2"], &["10.0.0.0/8"], "1.1.1.1"),
        ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], &["10.0.0.0/8"], "10.0.0.3"),
        ("10.0.0.1", &["1.1.1.1, nonsense"], &["10.0.0.0/8"], "10.0.0.1"),
        ("10.0.0.1", &["1.1.1.1, unknown, 10.0.0.2"], &["10.0.0.0/8"], "10.0.0.2"),
        ("10.0.0.1", &["1.1.1.1,"], &["10.0.0.0/8"], "10.0.0.1"),
        ("10.0.0.1", &["1.1.1.1:4711"], &["10.0.0.0/8"], "1.1.1.1"),
        ("10.0.0.1", &["[2001:db8::7]:4711"], &["10.0.0.0/8"], "2001:db8::7"),
        ("10.0.0.1", &["2001:db8::7"], &["10.0.0.0/8"], "2001:db8::7"),
        ("::ffff:10.0.0.1", &["1.1.1.1"], &["10.0.0.0/8"], "1.1.1.1"),
        ("::ffff:9.9.9.9", &[], &[], "9.9.9.9"),
        ("fd00::1", &["2001:db8::7, fd00::2"], &["fd00::/8"], "2001:db8::7"),
    ];
    for (peer, forwarded, trusted, caller) in rows {
        let trusted: Vec<_> = trusted.iter().map(|network| network.parse().unwrap()).collect();
        let found = caller_address(peer.parse().unwrap(), forwarded, &trusted);
        assert_eq!(found.to_string(), *caller, "{peer} {forwarded:?}");
    }
}

#[test]
fn what_strangers_say_about_the_caller_does_not_reach_the_upstream() {
    let request = "GET / HTTP/1.1\r\nhost: shown\r\nx-forwarded-for: 6.6.6.6\r\n\
                   x-forwarded-proto: https\r\nx-forwarded-host: evil\r\n\r\n";
    let upstream = Served::echo();
    let gateway = TestGateway::new(&upstream.url());
    let (_, seen) = Raw::connect(gateway.address).write(request).response();
    assert_eq!(header(&seen, "x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(header(&seen, "x-forwarded-proto"), Some("http"));
    assert_eq!(header(&seen, "x-forwarded-host"), Some("shown"));
    assert!(!seen.contains("6.6.6.6") && !seen.contains("evil"));

    let gateway = TestGateway::with(&[&upstream.url()], |server| {
        server.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let (_, seen) = Raw::connect(gateway.address).write(request).response();
    let all: Vec<_> = seen.lines().filter(|line| line.starts_with("x-forwarded-for")).collect();
    assert_eq!(all, ["x-forwarded-for: 6.6.6.6", "x-forwarded-for: 127.0.0.1"]);
    assert_eq!(header(&seen, "x-forwarded-proto"), Some("https"));
    assert_eq!(header(&seen, "x-forwarded-host"), Some("evil"));
}
