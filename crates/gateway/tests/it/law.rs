//! The law, as callers and upstreams see it.

use crate::support::{Raw, Served, TestLaw};

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
