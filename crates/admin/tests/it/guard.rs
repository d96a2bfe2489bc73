//! Who is let in, and what nobody is told.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use serde_json::json;
use tollgate_admin::AdminToken;

use crate::{Ask, Node};

#[test]
fn open_endpoints_need_no_token() {
    let node = Node::start();
    assert_eq!(node.send(&Ask::without_token("GET", "/healthz")).status, 200);
    assert_eq!(node.send(&Ask::without_token("GET", "/metrics")).status, 200);
    assert_eq!(node.send(&Ask::without_token("GET", "/readyz")).status, 503);
    node.health.set_ready(true);
    assert_eq!(node.send(&Ask::without_token("GET", "/readyz")).status, 200);
}

#[test]
fn without_the_token_nothing_is_answered_or_changed() {
    let node = Node::start();
    let tokens = [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Basic dG9rZW4=",
        "token-of-the-tests-0123456789",
    ];
    for (method, path) in [
        ("GET", "/v1/keys"),
        ("POST", "/v1/keys"),
        ("GET", "/v1/config"),
        ("DELETE", "/v1/tenants/acme"),
        ("GET", "/openapi.json"),
    ] {
        for token in tokens {
            let ask = Ask::without_token(method, path).header("authorization", token);
            let answer = node.send(&ask.json(&json!({ "tenant": "acme" })));
            answer.expect(401);
            assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"tollgate\""));
        }
    }
    assert!(node.keys.is_empty());
}

/// Each sends a byte now and then, and never a request.
#[test]
fn connections_that_ask_nothing_do_not_keep_others_out() {
    let node = Node::start();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut idle: Vec<_> =
            (0..300).map(|_| TcpStream::connect(node.address).unwrap()).collect();
        let is_over = &is_over;
        scope.spawn(move || {
            while !is_over.load(Relaxed) {
                for stream in &mut idle {
                    // Those that are closed already say so.
                    let _ = stream.write_all(b"x");
                }
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        let answer = node.send(&Ask::without_token("GET", "/healthz"));
        is_over.store(true, Relaxed);
        assert_eq!(answer.status, 200);
    });
}

#[test]
fn no_other_site_may_read_answers() {
    let node = Node::start();
    let ask = Ask::new("GET", "/v1/keys").header("origin", "https://evil.example");
    let answer = node.send(&ask);
    assert!(answer.headers.iter().all(|(name, _)| !name.starts_with("access-control")));
    let preflight = Ask::without_token("OPTIONS", "/v1/keys")
        .header("origin", "https://evil.example")
        .header("access-control-request-method", "POST");
    assert_eq!(node.send(&preflight).status, 405);
}

#[test]
fn unknown_paths_and_methods_are_problems() {
    let node = Node::start();
    node.get("/v1/nothing").expect(404);
    let answer = node.delete("/v1/keys");
    answer.expect(405);
    assert!(answer.header("allow").unwrap().contains("POST"));
}

#[test]
fn a_body_too_large_is_refused_and_a_strange_one_too() {
    let node = Node::start();
    let mut large = String::from("{\"tenant\": \"acme\", \"name\": \"");
    let _ = write!(large, "{}\"}}", "x".repeat(300 * 1024));
    let ask = Ask::new("POST", "/v1/keys").header("content-type", "application/json");
    node.send(&ask.body(&large)).expect(413);
    let form =
        Ask::new("POST", "/v1/keys").header("content-type", "application/x-www-form-urlencoded");
    node.send(&form.body("tenant=acme")).expect(415);
}

#[test]
fn the_token_is_made_once_and_only_its_owner_may_read_it() {
    let folder = tempfile::tempdir().unwrap();
    AdminToken::find(None, folder.path()).unwrap();
    let file = folder.path().join(AdminToken::FILE);
    let first = std::fs::read_to_string(&file).unwrap();
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(&file).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }
    let again = AdminToken::find(None, folder.path()).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), first);
    assert!(!format!("{again:?}").contains(first.trim()));
    let other = tempfile::tempdir().unwrap();
    AdminToken::find(None, other.path()).unwrap();
    assert_ne!(std::fs::read_to_string(other.path().join(AdminToken::FILE)).unwrap(), first);
    assert!(AdminToken::find(Some("short"), folder.path()).is_err());
    // One that was given leaves no file behind.
    let given = tempfile::tempdir().unwrap();
    AdminToken::find(Some("a-token-that-is-long-enough"), given.path()).unwrap();
    assert!(!given.path().join(AdminToken::FILE).exists());
}

#[test]
fn so_many_connections_are_served_and_the_next_when_one_ends() {
    let node = Node::start();
    let idle: Vec<TcpStream> =
        (0..256).map(|_| TcpStream::connect(node.address).unwrap()).collect();
    let mut next = TcpStream::connect(node.address).unwrap();
    next.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    // However long it waits there is no answer; this long is enough to see one that should not be.
    next.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(next.read(&mut [0; 64]).is_err());
    drop(idle);
    next.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = String::new();
    next.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
