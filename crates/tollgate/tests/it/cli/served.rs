//! The commands beside a gateway that really runs, from its folder and with nothing said.

use std::path::Path;

use super::Run;
use crate::support::{Tollgate, Upstream, eventually, get};

fn gateway(upstream: &Upstream) -> Tollgate {
    Tollgate::with(&format!(
        "
upstreams: {{ api: {{ url: \"http://{}\" }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
plans: {{ pro: {{ rate_limit: {{ sustained: {{ rate: 3, window: day }}, scope: user }} }} }}
tenants: [ {{ id: acme }} ]
",
        upstream.address
    ))
}

#[test]
fn a_key_is_issued_used_counted_limited_explained_and_revoked() {
    let upstream = Upstream::new("", "ok");
    let gateway = gateway(&upstream);
    let file = gateway.file();
    let folder = file.parent().unwrap();
    let run = |args: &[&str]| Run::new(folder, args).told();
    let issued = run(&["keys", "create", "--tenant", "acme", "--plan", "pro", "--json"]).json();
    let (key, id) = (issued["key"].as_str().unwrap(), issued["id"].as_str().unwrap());
    let url = gateway.url("/x");
    for _ in 0..3 {
        assert_eq!(get(&url, key).status, 200);
    }
    let refused = get(&url, key);
    assert_eq!(refused.status, 429);

    eventually("usage is told", || {
        run(&["usage", "--key", id]).good().lines().nth(1).map(str::to_owned)
            == Some("acme           4         1       3".to_owned())
    });
    let limits = run(&["limits", "show", "--tenant", "acme", "--key", id]);
    assert_eq!(limits.rows()[0][..4], ["user-day", "plan:pro", "0", "3"]);
    let request = refused.header("x-request-id");
    eventually("the refusal is told", || run(&["explain", "--request-id", request]).code == 0);
    let why = run(&["explain", "--request-id", request]);
    assert!(why.good().contains("plan:pro") && why.out.contains(id), "{why:?}");

    run(&["limits", "reset", "--tenant", "acme", "--key", id, "user-day"]).good();
    assert_eq!(get(&url, key).status, 200);
    run(&["backup", "copy.db"]).good();
    run(&["keys", "revoke", id]).good();
    assert_eq!(get(&url, key).status, 401);
}

/// What a file names and cannot be opened is a fault of the file: 422 and 78, with its place, and nothing changes.
#[test]
fn a_configuration_whose_files_cannot_be_used_is_refused_by_the_field_that_names_them() {
    let upstream = Upstream::new("", "ok");
    let gateway = gateway(&upstream);
    let file = gateway.file();
    let before = std::fs::read_to_string(&file).unwrap();
    let folder = file.parent().unwrap();
    std::fs::write(folder.join("empty.pem"), "").unwrap();
    for (said, field) in [
        ("access_log: /no/such/dir/x", "server.access_log"),
        ("tls: { cert: /no/such/cert.pem, key: /no/such/key.pem }", "server.tls.cert"),
        ("tls: { cert: ./empty.pem, key: ./empty.pem }", "server.tls.cert"),
    ] {
        let text = before.replacen("server: {", &format!("server: {{ {said},"), 1);
        let args = ["-X", "PUT", "-H", "if-match: *", "--data-binary", &text];
        let answer = gateway.api("/v1/config", &args);
        assert_eq!(answer.status, 422, "{said}: {answer:?}");
        let fault = &answer.json()["faults"][0];
        assert!(fault["message"].as_str().unwrap().contains(&format!("`{field}`")), "{fault}");
        assert_eq!(fault["line"], 1, "{fault}");
        std::fs::write(folder.join("new.yaml"), &text).unwrap();
        let told = Run::new(folder, &["config", "apply", "new.yaml"]).told();
        assert!(told.failed(78).contains(field), "{told:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    }
    // As is one whose children exceed what their parent may give them.
    let parts = "tenants:
  - { id: part, rate_limit: { sustained: { rate: 10 }, budget: { mode: allocated } } }
  - { id: acme, parent: part, rate_limit: { sustained: { rate: 11 } } }
";
    let text = before.replacen("tenants: [ { id: acme } ]\n", parts, 1);
    assert_ne!(text, before);
    std::fs::write(folder.join("new.yaml"), &text).unwrap();
    assert_eq!(Run::new(folder, &["check", "new.yaml"]).told().code, 78);
    let told = Run::new(folder, &["config", "apply", "new.yaml"]).told();
    assert!(told.failed(78).contains("`part`'s budget"), "{told:?}");
    assert_eq!(gateway.api("/v1/config", &[]).body, before);
}

#[test]
fn a_folder_tells_its_gateway_only_while_that_runs() {
    let upstream = Upstream::new("", "ok");
    let mut gateway = gateway(&upstream);
    let file = gateway.file();
    let folder = file.parent().unwrap().to_owned();
    let told = folder.join("tollgate-data/admin.url");
    let list = |folder: &Path| Run::new(folder, &["tenants", "list", "-q"]).told();
    assert_eq!(list(&folder).good(), "acme\n");
    assert_eq!(std::fs::read_to_string(&told).unwrap(), format!("http://{}\n", gateway.admin));
    // However it ends, nobody is sent the token any more.
    gateway.signal("-KILL");
    gateway.end();
    assert!(told.exists());
    assert!(list(&folder).failed(1).contains("no gateway runs in ./tollgate-data"));
    let args = ["tenants", "list", "--config", "tollgate.yaml"];
    let ended = Run::new(&folder, &args).told();
    assert!(ended.failed(1).contains("no gateway runs in ./tollgate-data"), "{ended:?}");
}
