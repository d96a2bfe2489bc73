//! Who is let in, and what becomes of a key.

use serde_json::json;

use crate::support::{Tollgate, Upstream, curl, get};

/// A key whose checksum is right, and its digest.
pub const KEY: &str = "tg_live_ExampleKeyDoNotUseItReal0fYmW4";

pub fn digest() -> String {
    tollgate_policy::Sha256::of(KEY.as_bytes()).to_string()
}

fn file(upstream: &Upstream, auth: &str, rest: &str) -> String {
    format!(
        "
auth: {auth}
upstreams: {{ api: {{ url: \"http://{}\" }} }}
routes:
  - {{ path: \"/*\", upstream: api }}
  - {{ path: /open, upstream: api, auth: none }}
plans: {{ p: {{ rate_limit: {{ sustained: {{ rate: 1000 }}, scope: user }} }} }}
tenants: [ {{ id: acme, plan: p }} ]
keys:
  - {{ tenant: acme, user: ci, sha256: {} }}
  - {{ tenant: acme, sha256: {}, expires_at: \"2020-01-01T00:00:00Z\" }}
  - {{ id: own, tenant: acme, sha256: {} }}
{rest}",
        upstream.address,
        digest(),
        tollgate_policy::Sha256::of(b"an-old-one"),
        tollgate_policy::Sha256::of(b"not-one-of-ours"),
    )
}

#[test]
fn every_bad_key_has_one_and_the_same_answer() {
    let upstream = Upstream::new("", "ok");
    let mistyped = KEY.replace("Example", "Examples");
    let almost = KEY.replace("mW4", "mW5");
    // What looks like one of ours and fails its checksum is none, even if somebody declares its digest.
    let declared = tollgate_policy::Sha256::of(almost.as_bytes());
    let declared = format!("  - {{ id: almost, tenant: acme, sha256: {declared} }}\n");
    let gateway = Tollgate::with(&file(&upstream, "{}", &declared));
    let url = gateway.url("/x");
    let unknown = "tg_live_7777777777777777777777772h5Igl";
    let answers = [
        curl(&[&url]),
        get(&url, unknown),
        get(&url, &mistyped),
        get(&url, &almost),
        get(&url, "an-old-one"),
        get(&url, "nobodys"),
        curl(&[&url, "-H", &format!("authorization: Bearer {unknown}")]),
        curl(&[&url, "-H", &format!("x-api-key: {KEY}"), "-H", "x-api-key: another"]),
    ];
    let without_id = |body: &str| {
        let mut body: serde_json::Value = serde_json::from_str(body).unwrap();
        body["instance"].take();
        body
    };
    for answer in &answers {
        assert_eq!(answer.status, 401, "{answer:?}");
        assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"tollgate\"");
        assert_eq!(answer.header("content-type"), "application/problem+json");
        assert_eq!(without_id(&answer.body), without_id(&answers[0].body));
        assert_eq!(answer.json()["instance"], answer.header("x-request-id"));
        assert_eq!(answer.headers.len(), answers[0].headers.len());
    }
    assert_eq!(upstream.heads().len(), 0);
}

#[test]
fn a_good_key_is_let_in_and_never_forwarded() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream, "{}", ""));
    let url = gateway.url("/x?y=1");
    assert_eq!(get(&url, KEY).status, 200);
    assert_eq!(get(&url, "not-one-of-ours").status, 200);
    let bearer = format!("authorization: Bearer {KEY}");
    assert_eq!(curl(&[&url, "-H", &bearer]).status, 200);
    // Another's token beside our key goes on.
    let both = ["-H", "authorization: Bearer theirs", "-H", &format!("x-api-key: {KEY}")];
    assert_eq!(curl(&[&[url.as_str()][..], &both].concat()).status, 200);
    // Also where no key is asked for.
    assert_eq!(get(&gateway.url("/open"), KEY).status, 200);
    let heads = upstream.heads();
    assert_eq!(heads.len(), 5);
    for head in &heads {
        assert!(!head.contains("tg_") && !head.contains("not-one-of-ours"), "{head}");
    }
    assert!(heads[3].contains("authorization: Bearer theirs"), "{}", heads[3]);
    assert!(heads[0].starts_with("GET /x?y=1 HTTP/1.1\r\n"), "{}", heads[0]);
}

#[test]
fn the_upstream_is_told_who_called_and_callers_cannot_say_so_themselves() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream, "{}", ""));
    let lies = ["X-Tollgate-Tenant: root", "X-Tollgate-Secret: 1", "X-RateLimit-Degraded: no"];
    let trace = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let key = format!("x-api-key: {KEY}");
    let mut args = vec![gateway.url("/x")];
    for header in lies.into_iter().chain([trace, &key]) {
        args.extend(["-H".to_owned(), header.to_owned()]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let answer = curl(&args);
    let head = &upstream.heads()[0];
    for part in ["x-tollgate-tenant: acme", "x-tollgate-user: ci", "x-tollgate-plan: p", trace] {
        assert!(head.contains(part), "{part} is missing of {head}");
    }
    assert!(head.contains(&format!("x-request-id: {}", answer.header("x-request-id"))), "{head}");
    assert!(!head.contains("root") && !head.contains("x-tollgate-secret"), "{head}");
    assert!(!head.contains("x-ratelimit-degraded"), "{head}");
}

#[test]
fn without_a_key_a_caller_is_anonymous_where_that_is_allowed() {
    let upstream = Upstream::new("", "ok");
    let limits = "defaults: { client: { sustained: { rate: 1, window: day }, scope: user } }\n";
    for (auth, bad_key) in [("{ mode: optional }", 401), ("{ mode: none }", 429)] {
        let gateway = Tollgate::with(&file(&upstream, auth, limits));
        let url = gateway.url("/x");
        assert_eq!(curl(&[&url]).status, 200, "{auth}");
        let refused = curl(&[&url]);
        assert_eq!(refused.status, 429, "{auth}: counted by its address");
        assert_eq!(refused.json()["error"]["source"], "default:client");
        assert_eq!(get(&url, "tg_live_bad").status, bad_key, "{auth}");
        // The counter that it is told of is the one that refused it, by either name of the address.
        for whose in [json!({ "user": "127.0.0.1" }), json!({ "ip": "127.0.0.1" })] {
            let (name, ip) = whose.as_object().unwrap().iter().next().unwrap();
            let asked = format!("/v1/limits?tenant=anonymous&{name}={}", ip.as_str().unwrap());
            let told = gateway.api(&asked, &[]).json()["items"].clone();
            assert_eq!(
                (&told[0]["source"], &told[0]["tokens"]),
                (&json!("default:client"), &json!(0))
            );
            let mut reset = whose.clone();
            reset["tenant"] = json!("anonymous");
            reset["counter"] = told[0]["counter"].clone();
            let args = ["-d", &reset.to_string(), "-H", "content-type: application/json"];
            assert_eq!(gateway.api("/v1/limits/reset", &args).status, 204);
            assert_eq!((curl(&[&url]).status, curl(&[&url]).status), (200, 429), "{auth}: {whose}");
        }
    }
    let head = upstream.heads()[0].clone();
    assert!(head.contains("x-tollgate-tenant: anonymous"), "{head}");
}

#[test]
fn bad_keys_are_limited_by_address_and_good_ones_never() {
    let upstream = Upstream::new("", "ok");
    let auth = "{ failures: { rate: 1, capacity: 3 } }";
    let gateway = Tollgate::with(&file(&upstream, auth, ""));
    let url = gateway.url("/x");
    let statuses: Vec<u16> = (0..20).map(|_| get(&url, "wrong").status).collect();
    assert_eq!(statuses[..3], [401; 3]);
    assert!(statuses.contains(&429), "{statuses:?}");
    let refused = std::iter::repeat_with(|| get(&url, "wrong")).find(|a| a.status == 429).unwrap();
    assert_eq!(refused.json()["error"]["source"], "auth.failures");
    assert!(refused.has("retry-after"));
    assert_eq!(get(&url, KEY).status, 200);
}

#[test]
fn keys_may_come_in_authorization_alone() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream, "{ header: authorization }", ""));
    let url = gateway.url("/x");
    let status = |value: &str| curl(&[&url, "-H", &format!("authorization: {value}")]).status;
    let bearer = |key: &str| format!("Bearer {key}");
    for (value, expected) in [
        (bearer(KEY), 200),
        (KEY.to_owned(), 200),
        (format!("bearer   {KEY}"), 200),
        (bearer("not-one-of-ours"), 200),
        ("not-one-of-ours".to_owned(), 200),
        (bearer("nobodys"), 401),
        (bearer(&KEY.replace("mW4", "mW5")), 401),
        ("Basic bm90LW9uZS1vZi1vdXJz".to_owned(), 401),
    ] {
        assert_eq!(status(&value), expected, "{value}");
    }
    assert!(upstream.heads().iter().all(|head| !head.to_lowercase().contains("authorization")));
    gateway.stop();
}
