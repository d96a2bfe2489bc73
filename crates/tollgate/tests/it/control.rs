//! The control plane of a running gateway: what the API says is what requests meet.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Answer, Load, SERVER, Tollgate, Upstream, curl, eventually, get};

pub(crate) fn file(upstream: &Upstream) -> String {
    format!(
        "
auth: {{ failures: {{ rate: 1000, capacity: 1000 }} }}
upstreams: {{ api: {{ url: \"http://{}\" }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
plans:
  small: {{ rate_limit: {{ sustained: {{ rate: 3, window: day }}, scope: user }} }}
  large: {{ rate_limit: {{ sustained: {{ rate: 1000, window: day }}, scope: user }} }}
tenants: [ {{ id: acme, plan: small }} ]
",
        upstream.address
    )
}

pub(crate) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value}"))
}

pub(crate) fn statuses(gateway: &Tollgate, key: &str, requests: usize) -> Vec<u16> {
    (0..requests).map(|_| get(&gateway.url("/x"), key).status).collect()
}

#[test]
fn a_key_works_before_its_issue_is_answered_and_survives_a_restart() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    let issued = gateway.create("/v1/keys", &json!({ "tenant": "acme", "user": "ci" }));
    let key = text(&issued, "key").to_owned();
    assert_eq!(get(&gateway.url("/x"), &key).status, 200);
    let head = upstream.heads()[0].clone();
    assert!(head.contains("x-tollgate-tenant: acme") && head.contains("x-tollgate-user: ci"));
    let gateway = Tollgate::again(gateway.stop());
    assert_eq!(get(&gateway.url("/x"), &key).status, 200);
    let id = text(&issued, "id");
    assert_eq!(gateway.api(&format!("/v1/keys/{id}"), &["-X", "DELETE"]).status, 204);
    assert_eq!(get(&gateway.url("/x"), &key).status, 401);
}

#[test]
fn revoked_expired_and_unknown_keys_are_one_and_the_same() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    let revoked = gateway.create("/v1/keys", &json!({ "tenant": "acme" }));
    let path = format!("/v1/keys/{}", text(&revoked, "id"));
    assert_eq!(gateway.api(&path, &["-X", "DELETE"]).status, 204);
    // It ends at the beginning of the next but one second.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let end = jiff::Timestamp::from_second(now.as_secs() as i64 + 2).unwrap().to_string();
    let expired = gateway.create("/v1/keys", &json!({ "tenant": "acme", "expires_at": end }));
    let url = gateway.url("/x");
    eventually("it has expired", || get(&url, text(&expired, "key")).status == 401);
    let unknown = "tg_live_7777777777777777777777772h5Igl";
    let answers = [
        get(&url, unknown),
        get(&url, text(&revoked, "key")),
        get(&url, text(&expired, "key")),
        curl(&[&url]),
    ];
    let seen = |answer: &Answer| {
        let mut body = answer.json();
        body["instance"].take();
        let mut names: Vec<_> = answer.headers.keys().cloned().collect();
        names.sort();
        (answer.status, names, body)
    };
    for answer in &answers {
        assert_eq!(seen(answer), seen(&answers[0]));
    }
}

#[test]
fn while_a_rotation_is_in_its_grace_both_keys_work_and_share_their_counter() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    // No user: it is counted on its own, and so is its successor as the same.
    let old = gateway.create("/v1/keys", &json!({ "tenant": "acme" }));
    let rotate = format!("/v1/keys/{}/rotate", text(&old, "id"));
    assert_eq!(statuses(&gateway, text(&old, "key"), 1), [200]);
    let new = gateway.create(&rotate, &json!({ "grace_seconds": 3600 }));
    assert_eq!(statuses(&gateway, text(&new, "key"), 1), [200]);
    assert_eq!(statuses(&gateway, text(&old, "key"), 1), [200]);
    // Three a day, whichever of them is shown.
    assert_eq!(statuses(&gateway, text(&new, "key"), 1), [429]);
    assert_eq!(statuses(&gateway, text(&old, "key"), 1), [429]);
    let rotate = format!("/v1/keys/{}/rotate", text(&new, "id"));
    let newest = gateway.create(&rotate, &json!({ "grace_seconds": 0 }));
    assert_eq!(statuses(&gateway, text(&new, "key"), 1), [401]);
    assert_eq!(statuses(&gateway, text(&newest, "key"), 1), [429]);
}

/// Of the API and of the file: PRODUCT §4, precedence.
#[test]
fn a_keys_own_limit_is_charged_in_place_of_its_plans() {
    let upstream = Upstream::new("", "ok");
    let own = json!({ "sustained": { "rate": 1, "window": "day" }, "scope": "user" });
    let written = "a-key-of-the-file";
    let keys = format!(
        "keys: [ {{ id: filed, tenant: acme, plan: large, sha256: {}, rate_limit: {own} }} ]\n",
        tollgate_policy::Sha256::of(written.as_bytes())
    );
    let gateway = Tollgate::with(&(file(&upstream) + &keys));
    let body = json!({ "tenant": "acme", "plan": "large", "rate_limit": own });
    let issued = gateway.create("/v1/keys", &body);
    let (id, key) = (text(&issued, "id"), text(&issued, "key"));
    for (id, key) in [(id, key), ("filed", written)] {
        assert_eq!(statuses(&gateway, key, 1), [200], "{id}");
        let refused = get(&gateway.url("/x"), key);
        let source = format!("key:{id}");
        assert_eq!(refused.status, 429, "{id}");
        assert_eq!(refused.json()["error"]["source"], source.as_str());
        assert_eq!(refused.header("x-ratelimit-limit"), "1");
        let limits = gateway.api(&format!("/v1/limits?tenant=acme&key={id}"), &[]).json();
        let first = &limits["items"][0];
        assert_eq!((&first["source"], &first["tokens"]), (&json!(source), &json!(0)), "{limits}");
        assert!(!limits.to_string().contains("plan:"), "{limits}");
    }
    // Its successor goes on where it stands, under its own name.
    let rotate = format!("/v1/keys/{id}/rotate");
    let new = gateway.create(&rotate, &json!({ "grace_seconds": 0 }));
    let refused = get(&gateway.url("/x"), text(&new, "key"));
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["error"]["source"], format!("key:{}", text(&new, "id")));
    // Another limit is in force at once, and a restart knows it.
    let path = format!("/v1/keys/{}", text(&new, "id"));
    let more =
        json!({ "rate_limit": { "sustained": { "rate": 5, "window": "day" }, "scope": "user" } });
    assert_eq!(gateway.api(&path, &["-X", "PATCH", "-d", &more.to_string()]).status, 200);
    assert_eq!(get(&gateway.url("/x"), text(&new, "key")).header("x-ratelimit-limit"), "5");
    let gateway = Tollgate::again(gateway.stop());
    assert_eq!(statuses(&gateway, text(&new, "key"), 6), [200, 200, 200, 200, 200, 429]);
}

/// A plan that names one cannot lose it. A key could, and nobody was told.
#[test]
fn an_upstream_that_keys_degrade_to_does_not_vanish_without_a_word() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    let without = std::fs::read_to_string(gateway.file()).unwrap();
    let with = without
        .replace("upstreams: { api:", "upstreams: { cheap: { url: \"http://127.0.0.1:1\" }, api:");
    let put = |text: &str| {
        gateway.api("/v1/config", &["-X", "PUT", "-H", "if-match: *", "--data-binary", text])
    };
    let warnings = |answer: &Answer| answer.json()["warnings"].as_array().unwrap().clone();
    assert_eq!(put(&with).status, 200);
    let mut limit = json!({ "sustained": { "rate": 1, "window": "day" }, "strategy": "degrade" });
    let plain = gateway.create("/v1/keys", &json!({ "tenant": "acme", "rate_limit": limit }));
    limit["degrade"] = json!({ "upstream": "cheap" });
    let key = gateway.create("/v1/keys", &json!({ "tenant": "acme", "rate_limit": limit }));
    let id = text(&key, "id");
    assert!(warnings(&put(&with)).is_empty());

    let told = warnings(&put(&without));
    assert_eq!(told.len(), 1, "{told:?}");
    let said = |message: &str| {
        assert!(message.contains("upstream `cheap`") && message.contains(id), "{message}");
        assert!(!message.contains(text(&plain, "id")), "{message}");
    };
    said(text(&told[0], "message"));
    let other = warnings(&put(&without.replace("rate: 3,", "rate: 4,")));
    assert!(other.is_empty(), "it is told when it vanishes: {other:?}");

    assert_eq!(put(&with).status, 200);
    gateway.replace(&without);
    said(&gateway.wait_for("there is no upstream"));
    gateway.wait_for("a new configuration is in force");
    let gateway = Tollgate::again(gateway.stop());
    said(&gateway.wait_for("there is no upstream"));
    assert_eq!(statuses(&gateway, text(&key, "key"), 3), [200; 3]);
}

#[test]
fn live_counters_are_the_gateways_own_and_one_that_is_reset_lets_the_next_request_pass() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    let issued = gateway.create("/v1/keys", &json!({ "tenant": "acme", "user": "ci" }));
    let key = text(&issued, "key");
    assert_eq!(statuses(&gateway, key, 4), [200, 200, 200, 429]);
    let limits = gateway.api("/v1/limits?tenant=acme&user=ci", &[]).json();
    let counter = &limits["items"][0];
    assert_eq!((&counter["tokens"], &counter["source"]), (&json!(0), &json!("plan:small")));
    assert_eq!(counter["capacity"], 3);
    let body = json!({ "tenant": "acme", "user": "ci", "counter": counter["counter"] });
    let reset = gateway.api("/v1/limits/reset", &["-d", &body.to_string()]);
    assert_eq!(reset.status, 204, "{reset:?}");
    assert_eq!(statuses(&gateway, key, 4), [200, 200, 200, 429]);
}

#[test]
fn a_refused_request_is_explained_by_its_id() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    let issued = gateway.create("/v1/keys", &json!({ "tenant": "acme", "user": "ci" }));
    let key = text(&issued, "key");
    assert_eq!(statuses(&gateway, key, 3), [200; 3]);
    let refused = get(&gateway.url("/x"), key);
    let stranger = curl(&[&gateway.url("/x")]);
    let why = |answer: &Answer| {
        let path = format!("/v1/refusals/{}", answer.header("x-request-id"));
        eventually("the refusal is known", || gateway.api(&path, &[]).status == 200);
        gateway.api(&path, &[]).json()
    };
    let told = why(&refused);
    let told = |name: &str| told[name].clone();
    assert_eq!((told("status"), told("cost")), (json!(429), json!(1)));
    assert_eq!((told("tenant"), told("user")), (json!("acme"), json!("ci")));
    assert_eq!((told("key"), told("plan")), (issued["id"].clone(), json!("small")));
    assert_eq!((told("policy"), told("source")), (json!("user-day"), json!("plan:small")));
    assert_eq!(told("route"), json!("/*"));
    assert_eq!(told("reason"), json!("limit"));
    let told = why(&stranger);
    assert_eq!(told["reason"], "unauthorized");
    assert_eq!((&told["status"], &told["tenant"]), (&json!(401), &Value::Null));
    assert_eq!(gateway.api("/v1/refusals/0123", &[]).status, 404);
}

/// Over both protocols: a gRPC call is answered 200, whatever became of it.
#[test]
fn whoever_is_turned_away_is_told_why_by_the_requests_id() {
    let upstream = Upstream::serving(|_| {
        std::thread::sleep(crate::support::PATIENCE);
        Ok(())
    });
    let config = file(&upstream)
        .replace("rate: 1000, capacity: 1000", "rate: 1, capacity: 1")
        .replace("plan: small", "plan: large")
        .replace("\" } }", "\", backpressure: { threshold: 1 } } }");
    let gateway = Tollgate::with(&config);
    let issued = gateway.create("/v1/keys", &json!({ "tenant": "acme" }));
    let url = gateway.url("/x");
    let grpc = ["--http2-prior-knowledge", "-H", "content-type: application/grpc", "-d", ""];
    let reason = |answer: &Answer| {
        let path = format!("/v1/refusals/{}", answer.header("x-request-id"));
        eventually("the refusal is known", || gateway.api(&path, &[]).status == 200);
        text(&gateway.api(&path, &[]).json(), "reason").to_owned()
    };
    for protocol in [&[][..], &grpc] {
        let call = |key: &str| {
            let key = format!("x-api-key: {key}");
            curl(&[&[url.as_str(), "-H", &key], protocol].concat())
        };
        // Without a key nobody is counted.
        assert_eq!(reason(&curl(&[&[url.as_str()], protocol].concat())), "unauthorized");
        // Not so many that the one that is asked for is no longer among those that are remembered.
        let flood = Load::start(&gateway.address, "nobodys", (1, Duration::from_millis(10)));
        eventually("it has failed too often", || reason(&call("nobodys")) == "too_many_failures");
        drop(flood);

        let key = text(&issued, "key");
        let before = upstream.count();
        let header = format!("x-api-key: {key}");
        let pending = [(); 2]
            .map(|()| Command::new("curl").args(["-s", &url, "-H", &header]).spawn().unwrap());
        eventually("both are pending", || upstream.count() == before + 2);
        assert_eq!(reason(&call(key)), "overloaded");
        for mut one in pending {
            one.kill().unwrap();
            one.wait().unwrap();
        }
        eventually("nothing is pending", || curl(&[&url]).status == 401);
    }
}

#[test]
fn tenants_and_plans_of_the_api_are_in_force_at_once_after_a_reload_and_after_a_restart() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    let limit = json!({ "sustained": { "rate": 7, "window": "day" }, "scope": "user" });
    gateway.create("/v1/plans", &json!({ "name": "made", "rate_limit": limit }));
    gateway.create("/v1/tenants", &json!({ "id": "bolt", "plan": "made" }));
    let key = gateway.create("/v1/keys", &json!({ "tenant": "bolt" }));
    let limit = |gateway: &Tollgate| {
        let answer = get(&gateway.url("/x"), text(&key, "key"));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.header("x-ratelimit-limit").to_owned()
    };
    assert_eq!(limit(&gateway), "7");
    gateway.signal("-HUP");
    gateway.wait_for("a new configuration is in force");
    assert_eq!(limit(&gateway), "7");
    // A file that would declare the same is refused, and says so.
    let twice = file(&upstream) + "keys: [ { tenant: nobody, sha256: \"";
    gateway.rewrite(&(twice + &"0".repeat(64) + "\" } ]\n"));
    gateway.wait_for("there is no tenant `nobody`");
    gateway.wait_for("the old one stays in force");
    gateway.rewrite(&file(&upstream));
    let gateway = Tollgate::again(gateway.stop());
    assert_eq!(limit(&gateway), "7");
    let listed = gateway.api("/v1/tenants", &[]).json().to_string();
    assert!(listed.contains("bolt") && listed.contains("acme"), "{listed}");
}

#[test]
fn the_configuration_is_replaced_by_the_api_and_the_watched_file_is_no_second_change() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    let key = gateway.create("/v1/keys", &json!({ "tenant": "acme" }));
    let config = gateway.api("/v1/config", &[]);
    assert_eq!(config.body, std::fs::read_to_string(gateway.file()).unwrap());
    let put = |text: &str| {
        gateway.api("/v1/config", &["-X", "PUT", "-H", "if-match: *", "--data-binary", text])
    };
    // What somebody has just written into the file and is not in force is not overwritten by who has not seen it.
    let edited = format!("{}\nplans: 7\n", config.body);
    std::fs::write(gateway.file(), &edited).unwrap();
    gateway.wait_for("the old one stays in force");
    let tag = format!("if-match: {}", config.header("etag"));
    let args = ["-X", "PUT", "-H", &tag, "--data-binary", &config.body];
    assert_eq!(gateway.api("/v1/config", &args).status, 412);
    assert_eq!(std::fs::read_to_string(gateway.file()).unwrap(), edited);
    std::fs::write(gateway.file(), &config.body).unwrap();
    gateway.wait_for("says what is in force");
    let larger = config.body.replace("rate: 3,", "rate: 30,");
    let answer = put(&larger);
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = get(&gateway.url("/x"), text(&key, "key"));
    assert_eq!(answer.header("x-ratelimit-limit"), "30");
    assert_eq!(std::fs::read_to_string(gateway.file()).unwrap(), larger);
    // What needs a restart is refused by name, and nothing changes.
    let moved = larger.replace("workers: 2", "workers: 1") + "storage: { path: ./elsewhere }\n";
    let refused = put(&moved);
    assert_eq!(refused.status, 409);
    assert_eq!(refused.json()["fields"], json!(["server.workers", "storage"]));
    assert_eq!(std::fs::read_to_string(gateway.file()).unwrap(), larger);
    // A tenant whose keys are in force cannot vanish.
    let refused = put(&larger.replace("id: acme", "id: other"));
    assert_eq!(refused.status, 409, "{refused:?}");
    let bad = put("routes: 7\n");
    assert_eq!(bad.status, 422);
    assert!(bad.body.contains("found the number 7"), "{bad:?}");
    // The file's watch has seen it; a signal after that is the first reload that the audit knows.
    gateway.wait_for("says what is in force");
    gateway.signal("-HUP");
    gateway.wait_for("a new configuration is in force");
    let audit = gateway.api("/v1/audit", &[]).json();
    let rows = audit["items"].as_array().unwrap();
    let of = |action: &str| rows.iter().filter(|row| row["action"] == action).count();
    assert_eq!((of("config.replace"), of("config.reload")), (1, 1), "{audit}");
}

#[test]
fn the_data_folder_is_its_owners_and_one_process() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    let data = gateway.folder().join("tollgate-data");
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    for entry in std::fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    let second = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["serve", "--config", gateway.file().to_str().unwrap()])
        .current_dir(gateway.folder())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(told.contains(&format!("in use by process {}", gateway.pid())), "{told}");
    assert!(gateway.greeting.contains("tollgate-data/admin-token"), "{}", gateway.greeting);
}

#[test]
fn the_admin_api_is_for_whoever_has_the_token_and_not_for_the_network() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    let url = gateway.admin_url("/v1/keys");
    assert_eq!(curl(&[&url]).status, 401);
    assert_eq!(curl(&[&url, "-H", "authorization: Bearer tg_admin_wrong_wrong"]).status, 401);
    assert_eq!(gateway.api("/v1/keys", &[]).status, 200);
    let folder = gateway.stop();
    let write = |server: &str| {
        let text = format!("{server}{}", file(&upstream));
        std::fs::write(folder.path().join("tollgate.yaml"), text).unwrap();
    };
    let open = SERVER.replace("admin_listen: 127.0.0.1:0", "admin_listen: 0.0.0.0:0");
    write(&open);
    let refused = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["serve", "--config", "tollgate.yaml"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(78));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    for part in ["open to the network", "admin_tls", "admin_exposed"] {
        assert!(told.contains(part), "{told}");
    }
    // Whoever means it says so.
    write(&open.replace(" }", ", admin_exposed: true }"));
    let folder = Tollgate::again(folder).stop();
    std::fs::write(folder.path().join("tollgate.yaml"), open + &file(&upstream)).unwrap();
    let gateway = Tollgate::start(&["--config", "tollgate.yaml", "--admin-exposed"], folder);
    assert_eq!(gateway.api("/v1/keys", &[]).status, 200);
}

#[test]
fn no_secret_is_said_or_kept() {
    let upstream = Upstream::new("", "ok");
    let server = SERVER.replace(" }", ", access_log: ./access.jsonl }");
    let mut gateway = Tollgate::start_with_server(&server, &file(&upstream));
    let issued = gateway.create("/v1/keys", &json!({ "tenant": "acme", "user": "ci" }));
    let rotate = format!("/v1/keys/{}/rotate", text(&issued, "id"));
    let rotated = gateway.create(&rotate, &json!({ "grace_seconds": 60 }));
    let (old, new) = (text(&issued, "key"), text(&rotated, "key"));
    assert_eq!(statuses(&gateway, old, 1), [200]);
    assert_eq!(statuses(&gateway, new, 4), [200, 200, 429, 429]);
    let wrong = format!("authorization: Bearer {old}");
    assert_eq!(curl(&[&gateway.admin_url("/v1/keys"), "-H", &wrong]).status, 401);
    let (token, audit) = (gateway.token(), gateway.api("/v1/audit", &[]).body);
    let said = gateway.said();
    let data = gateway.folder().join("tollgate-data");
    let kept = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
    let kept = kept.chain([gateway.folder().join("access.jsonl")]);
    for path in kept {
        let bytes = std::fs::read(&path).unwrap();
        let is_in =
            |secret: &str| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!is_in(old) && !is_in(new), "{}", path.display());
        let is_tokens = path.ends_with("admin-token");
        assert_eq!(is_in(&token), is_tokens, "{}", path.display());
    }
    for secret in [old, new, token.as_str()] {
        assert!(!said.contains(secret) && !audit.contains(secret), "{said}{audit}");
    }
}

/// Without a file: README's first command, twice.
#[test]
fn a_demo_key_is_fresh_at_each_start_and_keys_of_the_api_stay() {
    let args = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let gateway = Tollgate::start(&args, tempfile::tempdir().unwrap());
    let line = |gateway: &Tollgate, part: &str| {
        let is_it = |line: &&str| line.starts_with("curl ") && line.contains(part);
        let line = gateway.greeting.lines().find(is_it).unwrap();
        let output =
            Command::new("sh").args(["-c", line]).current_dir(gateway.folder()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(line(&gateway, "/hello").starts_with("HTTP/1.1 200"));
    let issued: Value = serde_json::from_str(&line(&gateway, "/v1/keys")).unwrap();
    assert_eq!(get(&gateway.url("/x"), text(&issued, "key")).status, 200);
    let demo = |gateway: &Tollgate| {
        let at = gateway.greeting.find("tg_live_").unwrap();
        gateway.greeting[at..at + 38].to_owned()
    };
    let first = demo(&gateway);
    let gateway = Tollgate::start(&args, gateway.stop());
    assert!(line(&gateway, "/hello").starts_with("HTTP/1.1 200"));
    assert_ne!(demo(&gateway), first);
    assert_eq!(get(&gateway.url("/x"), &first).status, 401);
    assert_eq!(get(&gateway.url("/x"), text(&issued, "key")).status, 200);
    let keys = gateway.api("/v1/keys", &[]).json();
    assert_eq!(keys["items"].as_array().unwrap().len(), 2, "the demo's and the issued one: {keys}");
    let metrics = curl(&[&gateway.admin_url("/metrics")]).body;
    assert!(metrics.contains("tollgate_keys_held 2\n"), "{metrics}");
    assert!(metrics.contains("tollgate_storage_up 1\n"), "{metrics}");
}
