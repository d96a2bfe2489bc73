//! Start, change and stop.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::keys::{KEY, digest};
use crate::support::{Load, Tollgate, Upstream, curl, eventually, get};

fn file(upstream: &Upstream, rate: u64) -> String {
    format!(
        "
upstreams: {{ api: {{ url: \"http://{}\" }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
plans: {{ p: {{ rate_limit: {{ sustained: {{ rate: {rate}, window: day }}, scope: user }} }} }}
tenants: [ {{ id: acme, plan: p }} ]
keys: [ {{ tenant: acme, user: ci, sha256: {} }} ]
",
        upstream.address,
        digest()
    )
}

fn limit(gateway: &Tollgate) -> String {
    get(&gateway.url("/x"), KEY).header("x-ratelimit-limit").to_owned()
}

/// README's first command: what it prints works as printed.
#[test]
fn without_a_file_everything_is_built_in_and_the_printed_line_works() {
    let folder = tempfile::tempdir().unwrap();
    let gateway =
        Tollgate::start(&["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"], folder);
    let line = gateway.greeting.lines().find(|line| line.starts_with("curl ")).unwrap();
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.starts_with("HTTP/1.1 200 OK\r\n"), "{told}");
    for part in
        ["x-ratelimit-limit: 100", "x-ratelimit-remaining: 99", "\"x-tollgate-tenant\": \"demo\""]
    {
        assert!(told.contains(part), "{part} is missing of:\n{told}");
    }
    assert_eq!(curl(&[&gateway.url("/hello")]).status, 401);
    assert_eq!(curl(&[&gateway.admin_url("/readyz")]).status, 200);
    assert_eq!(curl(&[&gateway.admin_url("/healthz")]).status, 200);
}

#[test]
fn a_changed_file_is_put_into_force_by_itself_and_by_signal() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream, 1000));
    assert_eq!(limit(&gateway), "1000");
    gateway.rewrite(&file(&upstream, 2000));
    gateway.wait_for("a new configuration is in force");
    // Tokens are kept, not filled up.
    let answer = get(&gateway.url("/x"), KEY);
    assert_eq!(answer.header("x-ratelimit-limit"), "2000");
    assert_eq!(answer.header("x-ratelimit-remaining"), "998");
    gateway.signal("-HUP");
    gateway.wait_for("a new configuration is in force");
}

#[test]
fn a_link_that_is_pointed_elsewhere_is_a_change() {
    let upstream = Upstream::new("", "ok");
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, rate: u64| {
        let text = format!("{}{}", crate::support::SERVER, file(&upstream, rate));
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("tollgate.yaml"), text).unwrap();
    };
    let point = |name: &str| {
        let new = folder.path().join("new-link");
        std::os::unix::fs::symlink(name, &new).unwrap();
        std::fs::rename(new, folder.path().join("current")).unwrap();
    };
    write("one", 1000);
    write("two", 2000);
    point("one");
    let config = folder.path().join("current/tollgate.yaml").to_str().unwrap().to_owned();
    let empty = tempfile::tempdir().unwrap();
    let gateway = Tollgate::start(&["--config", &config], empty);
    assert_eq!(limit(&gateway), "1000");
    point("two");
    gateway.wait_for("a new configuration is in force");
    assert_eq!(limit(&gateway), "2000");
}

#[test]
fn a_bad_file_changes_nothing_and_says_why() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream, 1000));
    gateway.rewrite("routes: 7\n");
    gateway.wait_for("found the number 7");
    gateway.wait_for("the old one stays in force");
    assert_eq!(limit(&gateway), "1000");
    let moved = format!("{}storage: {{ path: ./elsewhere }}\n", file(&upstream, 5));
    gateway.rewrite(&moved);
    gateway.wait_for("change of `storage` needs a restart");
    assert_eq!(limit(&gateway), "1000");
}

#[test]
fn a_bad_file_at_the_start_is_78_and_a_taken_port_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.yaml");
    std::fs::write(&path, "tenants: [ { id: a, plan: none } ]\n").unwrap();
    let serve = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.arg("serve").args(args).current_dir(folder.path()).output().unwrap()
    };
    let output = serve(&["--config", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no plan `none`"));
    assert!(!folder.path().join("tollgate-data").exists(), "a bad file leaves nothing behind");
    // So is what a file names and cannot be used, by its field and place: a supervisor must not try it again and again.
    std::fs::write(folder.path().join("empty.pem"), "").unwrap();
    for (said, field) in [
        ("server: { access_log: /no/such/dir/x }", "`server.access_log`"),
        (
            "server: { tls: { cert: /no/such/cert.pem, key: /no/such/key.pem } }",
            "`server.tls.cert`",
        ),
        ("server: { admin_tls: { cert: empty.pem, key: empty.pem } }", "`server.admin_tls.cert`"),
        ("auth: { failures: { rate: 2000000000 } }", "1000000000"),
    ] {
        std::fs::write(&path, format!("{said}\n")).unwrap();
        let output = serve(&["--config", path.to_str().unwrap()]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(78), "{said}: {told}");
        assert!(told.contains(field) && told.contains("bad.yaml:1:"), "{told}");
        assert!(!folder.path().join("tollgate-data").exists(), "{said}");
    }
    std::fs::write(&path, "upstreams: { api: { url: \"http://127.0.0.1:1\" } }\n").unwrap();
    let output = serve(&["--config", path.to_str().unwrap(), "--upstream", "http://127.0.0.1:1"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(78), "{told}");
    assert!(told.contains("`--upstream` is for a file without `upstreams`"), "{told}");
    // Without its keys it could only refuse everyone. Nobody listens at port 1.
    let nowhere = "storage: { redis: true }\nredis: { url: \"redis://127.0.0.1:1\" }\n";
    std::fs::write(&path, nowhere).unwrap();
    let output = serve(&["--config", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("redis.url") && told.contains("tollgate doctor"), "{told}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = serve(&["--listen", &address, "--admin-listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("is taken by another program"), "{told}");
}

/// Requests over new connections, one after another, until the gateway is gone; their statuses.
fn load(gateway: &Tollgate, requests: usize) -> std::process::Child {
    let url = gateway.url("/x?[1-100000]").replace("100000", &requests.to_string());
    let key = format!("x-api-key: {KEY}");
    Command::new("curl")
        .args(["-s", "-o", "/dev/null", "-w", "%{http_code}\\n", &url, "-H", &key])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_reload_under_load_loses_no_request() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream, 1_000_000));
    let load = load(&gateway, 3000);
    for round in 1..=3u64 {
        gateway.rewrite(&file(&upstream, 1_000_000 + round));
        gateway.wait_for("a new configuration is in force");
    }
    let output = load.wait_with_output().unwrap();
    let statuses = String::from_utf8(output.stdout).unwrap();
    assert_eq!(statuses.lines().count(), 3000);
    assert!(statuses.lines().all(|status| status == "200"), "{statuses}");
}

#[test]
fn a_stop_finishes_what_is_in_flight_and_exits_0() {
    let upstream = Upstream::serving(|stream| {
        std::thread::sleep(Duration::from_millis(1500));
        std::io::Write::write_all(stream, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    });
    let mut gateway = Tollgate::with(&file(&upstream, 1000));
    let load = load(&gateway, 1);
    eventually("the request is in flight", || upstream.heads().len() == 1);
    gateway.signal("-TERM");
    eventually("it wants no more requests", || {
        let output = Command::new("curl")
            .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", &gateway.admin_url("/readyz")])
            .output()
            .unwrap();
        output.stdout == b"503"
    });
    let output = load.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "200\n");
    assert_eq!(gateway.end().code(), Some(0));
}

#[test]
fn whoever_is_told_twice_to_stop_does_not_wait() {
    let upstream = Upstream::serving(|_| {
        std::thread::sleep(crate::support::PATIENCE * 10);
        Ok(())
    });
    let server = crate::support::SERVER.replace("timeout_ms: 5000", "timeout_ms: 600000");
    let mut gateway = Tollgate::start_with_server(&server, &file(&upstream, 1000));
    let mut load = load(&gateway, 1);
    eventually("the request is in flight", || upstream.count() == 1);
    gateway.signal("-TERM");
    gateway.wait_for("finishing what is in flight");
    gateway.signal("-TERM");
    gateway.wait_for("told again");
    assert_eq!(gateway.end().code(), Some(0));
    load.wait().unwrap();
}

/// As a load balancer sees it: readiness is gone at once, requests are served until it has noticed.
#[test]
fn a_stop_under_load_loses_no_request_and_accepts_until_the_delay_is_over() {
    let upstream = Upstream::new("", "ok");
    let server = crate::support::SERVER
        .replace("drain_timeout_ms: 5000", "drain_delay_ms: 10000, drain_timeout_ms: 60000");
    let mut gateway = Tollgate::start_with_server(&server, &file(&upstream, 1_000_000));
    let load = Load::start(&gateway.address, KEY, (4, Duration::ZERO));
    eventually("there is load", || load.tally().passed.load(Relaxed) > 100);
    gateway.signal("-TERM");
    let readiness = || {
        let output = Command::new("curl")
            .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", &gateway.admin_url("/readyz")])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    eventually("it wants no more requests", || readiness() == "503");
    // A new connection, while those that are open go on.
    let before = load.tally().passed.load(Relaxed);
    let accepted = get(&gateway.url("/x"), KEY).status;
    assert_eq!(accepted, 200);
    eventually("requests go on", || load.tally().passed.load(Relaxed) > before);
    assert_eq!(gateway.end().code(), Some(0));
    let tally = load.stop();
    let count = |of: &AtomicU64| of.load(Relaxed);
    assert_eq!(count(&tally.lost), 0, "a request had no answer");
    assert_eq!(count(&tally.refused) + count(&tally.unavailable) + count(&tally.other), 0);
    assert_eq!(count(&tally.passed) + 1, upstream.count());
}

/// A pipe that nobody empties takes 64 KiB, and then nothing.
#[test]
fn an_access_log_that_nobody_reads_does_not_keep_the_process() {
    let upstream = Upstream::new("", "ok");
    let server = crate::support::SERVER.replace(" }", ", access_log: stdout }");
    let (mut gateway, _unread) = Tollgate::with_unread_output(&server, &file(&upstream, 1_000_000));
    let load = Load::start(&gateway.address, KEY, (2, Duration::ZERO));
    eventually("the pipe is full", || load.tally().passed.load(Relaxed) > 3000);
    load.stop();
    gateway.signal("-TERM");
    assert_eq!(gateway.end().code(), Some(0));
}

#[test]
fn the_access_log_tells_of_every_request_and_of_no_secret() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream, 1));
    let server = crate::support::SERVER.replace(" }", ", access_log: ./access.jsonl }");
    let path = gateway.file();
    // Turned on while it runs.
    gateway.replace(&format!("{server}{}", file(&upstream, 1)));
    gateway.wait_for("a new configuration is in force");
    get(&gateway.url("/x?token=secret"), KEY);
    get(&gateway.url("/x"), KEY);
    curl(&[&gateway.url("/y")]);
    let log = path.with_file_name("access.jsonl");
    let lines = || std::fs::read_to_string(&log).unwrap_or_default();
    eventually("all are written", || lines().lines().count() == 3);
    let lines: Vec<serde_json::Value> =
        lines().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = |n: usize, field: &str| lines[n][field].clone();
    assert_eq!(
        (told(0, "status"), told(1, "status"), told(2, "status")),
        (200.into(), 429.into(), 401.into())
    );
    assert_eq!(
        (told(0, "tenant"), told(0, "user"), told(0, "plan")),
        ("acme".into(), "ci".into(), "p".into())
    );
    assert_eq!(
        (told(0, "outcome"), told(1, "outcome"), told(2, "outcome")),
        ("passed".into(), "refused".into(), "turned_away".into())
    );
    assert_eq!((told(1, "policy"), told(1, "source")), ("user-day".into(), "plan:p".into()));
    assert_eq!(
        (told(0, "path"), told(0, "method"), told(0, "route")),
        ("/x".into(), "GET".into(), "/*".into())
    );
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(!text.contains("tg_live") && !text.contains("secret"), "{text}");
}

/// Caps, proxies and the number of counters change while it runs.
#[test]
fn settings_of_the_listener_change_without_a_restart() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream, 1000));
    let long = format!("x-long: {}", "x".repeat(2000));
    let ask =
        || curl(&[&gateway.url("/x"), "-H", &format!("x-api-key: {KEY}"), "-H", &long]).status;
    assert_eq!(ask(), 200);
    let server = crate::support::SERVER.replace(" }", ", caps: { header_bytes: 1024 } }");
    gateway.replace(&format!("{server}counters: {{ max_keys: 5000 }}\n{}", file(&upstream, 1000)));
    gateway.wait_for("a new configuration is in force");
    eventually("headers of 2000 bytes are too many", || ask() == 431);
}
