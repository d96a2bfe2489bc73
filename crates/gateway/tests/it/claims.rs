//! What is said of a caller beside `X-Forwarded-For`.

use crate::support::{Exchange, Raw, Served, TestGateway, curl, header};
use crate::to_http2::Chain;

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

/// What is behind CGI or WSGI reads `_` and `-` as the same name.
const MISSPELT: &str = "GET / HTTP/1.1\r\nhost: a\r\nX_Forwarded_User: 6.6.6.6\r\nX_Real_IP: 6.6.6.6\r\nx-real_ip: 6.6.6.6\r\n\
                        x-forwarded_for: 6.6.6.6\r\nX_Forwarded_For: 6.6.6.6\r\nx_forwarded-host: 6.6.6.6\r\n\
                        x_forwarded-proto: 6.6.6.6\r\nx_real_ips: kept\r\nx_forwarded: kept\r\nx_api_key: kept\r\n\r\n";

/// They passed, and were believed by what reads no other spelling.
#[test]
fn claims_with_underscores_do_not_reach_the_upstream() {
    let upstream = Served::echo();
    let stranger = TestGateway::new(&upstream.url());
    // Proxies write them with dashes, and pass on what they do not know.
    let proxy = TestGateway::with(&[&upstream.url()], |server| {
        server.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    for gateway in [&stranger, &proxy] {
        let (_, seen) = Raw::connect(gateway.address).write(MISSPELT).response();
        assert!(!seen.contains("6.6.6.6"), "{seen}");
        for name in ["x_real_ips", "x_forwarded", "x_api_key"] {
            assert_eq!(header(&seen, name), Some("kept"), "{seen}");
        }
        assert_eq!(header(&seen, "x-forwarded-for"), Some("127.0.0.1"), "{seen}");
        let claims = ["-H", "x_forwarded_user: 6.6.6.6", "-H", "x-real_ip: 6.6.6.6"];
        let seen = curl(&[&["--http2-prior-knowledge", &gateway.url("/")], &claims[..]].concat());
        assert!(seen.contains("x-forwarded-for") && !seen.contains("6.6.6.6"), "{seen}");
    }
}

#[test]
fn nothing_of_it_comes_behind_a_body_either() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        let body = exchange.lines();
        exchange.ok(&body);
        true
    });
    let gateway = TestGateway::new(&upstream.url());
    let names =
        ["x_forwarded_user", "x_forwarded-for", "x-real_ip", "x_tollgate_user", "x-request_id"];
    let lines: String = names.iter().map(|name| format!("{name}: 6.6.6.6\r\n")).collect();
    let request = format!(
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntrailer: x_sum, {}\r\n\r\n\
         2\r\nhi\r\n0\r\nx_sum: 1\r\n{lines}\r\n",
        names.join(", ")
    );
    let seen = Raw::connect(gateway.address).write(request).response().1;
    assert!(seen.ends_with("0\r\nx_sum: 1\r\n\r\n"), "{seen:?}");
}

#[test]
fn claims_with_underscores_do_not_reach_an_http2_upstream() {
    let upstream = Served::echo();
    let chain = Chain::new("claims", &upstream);
    let (_, seen) = Raw::connect(chain.outer.address).write(MISSPELT).response();
    assert!(seen.contains("x_real_ips") && !seen.contains("6.6.6.6"), "{seen}");
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
