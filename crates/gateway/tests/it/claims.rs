//! What is said of a caller beside `X-Forwarded-For`.

use crate::support::{Raw, Served, TestGateway, curl, header};

const REQUEST: &str = "GET / HTTP/1.1\r\nhost: a\r\nforwarded: for=6.6.6.6\r\nx-real-ip: 6.6.6.6\r\n\
                       x-real-ip: 7.7.7.7\r\nx-real-ips: kept\r\nx-forwarded-port: 6\r\nX-Forwarded-Prefix: /6\r\n\
                       x-forwarded-ssl: on\r\nx-forwarded-scheme: https\r\nx-forwarded-server: six\r\nx-forwarded-email: a@b\r\n\
                       X-Forwarded-User: root\r\nx-forwarded-client-cert: six\r\nx-forwarded: kept\r\n\r\n";
const OTHERS: [&str; 8] = [
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-ssl",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "x-forwarded-email",
    "x-forwarded-user",
    "x-forwarded-client-cert",
];

#[test]
fn a_strangers_claims_do_not_reach_the_upstream() {
    let upstream = Served::echo();
    let gateway = TestGateway::new(&upstream.url());
    let (_, seen) = Raw::connect(gateway.address).write(REQUEST).response();
    assert_eq!((header(&seen, "forwarded"), header(&seen, "x-real-ip")), (None, None), "{seen}");
    assert_eq!(header(&seen, "x-real-ips"), Some("kept"));
    assert_eq!(header(&seen, "x-forwarded"), Some("kept"));
    for name in OTHERS {
        assert_eq!(header(&seen, name), None, "{seen}");
    }
    let claims = [
        ["-H", "forwarded: for=6.6.6.6"],
        ["-H", "x-real-ip: 6.6.6.6"],
        ["-H", "x-forwarded-user: 6.6.6.6"],
    ];
    let claims = claims.concat();
    let seen = curl(&[&["--http2-prior-knowledge", &gateway.url("/")], &claims[..]].concat());
    assert!(!seen.contains("6.6.6.6"), "{seen}");
}

#[test]
fn a_trusted_proxys_claims_do() {
    let upstream = Served::echo();
    let gateway = TestGateway::with(&[&upstream.url()], |server| {
        server.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let (_, seen) = Raw::connect(gateway.address).write(REQUEST).response();
    assert_eq!(header(&seen, "forwarded"), Some("for=6.6.6.6"));
    assert_eq!(header(&seen, "x-real-ip"), Some("6.6.6.6"));
    for name in OTHERS {
        assert!(header(&seen, name).is_some(), "{name}: {seen}");
    }
}
