//! Keys that the API has made, and the file declares as well.

use serde_json::{Value, json};
use tollgate_policy::Sha256;

use crate::control::{file, text};
use crate::support::{Answer, SERVER, Tollgate, Upstream, get};

fn put(gateway: &Tollgate, text: &str) -> Answer {
    gateway.api("/v1/config", &["-X", "PUT", "-H", "if-match: *", "--data-binary", text])
}

fn revoke(gateway: &Tollgate, key: &Value) -> u16 {
    gateway.api(&format!("/v1/keys/{}", text(key, "id")), &["-X", "DELETE"]).status
}

fn digest(key: &Value) -> Sha256 {
    Sha256::of(text(key, "key").as_bytes())
}

/// It was put into force: the API said that a key is revoked, which went on working by the file's entry, or that it cannot revoke
/// one whose id the file gave to another.
#[test]
fn a_file_may_not_declare_what_the_api_has_made_and_not_yet_revoked() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    let made = || gateway.create("/v1/keys", &json!({ "tenant": "acme" }));
    let (same, named) = (made(), made());
    let (other, id) = (Sha256::of(b"another"), text(&named, "id"));
    let of_same = format!("{{ tenant: acme, sha256: {} }}", digest(&same));
    let of_named = format!("{{ tenant: acme, id: {id}, sha256: {other} }}");
    let file = SERVER.to_owned() + &file(&upstream);
    let both = format!(
        "{file}keys:\n- {of_same}\n- {of_named}\n- {{ tenant: nobody, sha256: {} }}\n",
        Sha256::of(b"x")
    );

    let refused = put(&gateway, &both);
    assert_eq!(refused.status, 422, "{refused:?}");
    let faults = refused.json()["faults"].as_array().unwrap().clone();
    let first = file.lines().count() as u64 + 2;
    let said = |nth: usize| {
        (faults[nth]["line"].as_u64().unwrap() - first, faults[nth]["message"].to_string())
    };
    assert_eq!(faults.len(), 3, "the tenant that there is not is told as well: {faults:?}");
    for (nth, id) in [text(&same, "id"), id].into_iter().enumerate() {
        let (line, message) = said(nth);
        assert!(line == nth as u64 && message.contains(id), "{faults:?}");
        assert!(
            faults[nth]["help"].to_string().contains(&format!("keys revoke {id}")),
            "{faults:?}"
        );
    }
    // The file's watch takes the same way.
    gateway.replace(&format!("{file}keys:\n- {of_named}\n"));
    assert!(gateway.wait_for("made by the API").contains(id));
    gateway.wait_for("the old one stays in force");

    for key in [&same, &named] {
        assert_eq!(get(&gateway.url("/x"), text(key, "key")).status, 200);
        assert_eq!(revoke(&gateway, key), 204);
        assert_eq!(get(&gateway.url("/x"), text(key, "key")).status, 401);
    }
    // Whoever writes a key into the file after that means it.
    let answer = put(&gateway, &format!("{file}keys:\n- {of_same}\n- {of_named}\n"));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(get(&gateway.url("/x"), text(&same, "key")).status, 200);
    assert_eq!(get(&gateway.url("/x"), text(&named, "key")).status, 401);
}

#[test]
fn a_gateway_starts_with_keys_that_are_made_and_declared_and_names_them() {
    let upstream = Upstream::new("", "ok");
    let gateway = Tollgate::with(&file(&upstream));
    let made = || gateway.create("/v1/keys", &json!({ "tenant": "acme" }));
    let (same, named, revoked) = (made(), made(), made());
    assert_eq!(revoke(&gateway, &revoked), 204);
    let folder = gateway.stop();
    let declared = format!(
        "keys:\n- {{ tenant: acme, sha256: {} }}\n- {{ tenant: acme, id: {}, sha256: {} }}\n- {{ tenant: acme, sha256: {} }}\n",
        digest(&same),
        text(&named, "id"),
        Sha256::of(b"another"),
        digest(&revoked),
    );
    let whole = SERVER.to_owned() + &file(&upstream) + &declared;
    std::fs::write(folder.path().join("tollgate.yaml"), &whole).unwrap();
    let mut gateway = Tollgate::again(folder);
    assert_eq!(get(&gateway.url("/x"), text(&same, "key")).status, 200);
    // They keep no other file from being put into force, unless that declares one more.
    let answer = put(&gateway, &format!("{whole}usage: {{ retention_days: 9 }}\n"));
    assert_eq!(answer.status, 200, "{answer:?}");
    let more = gateway.create("/v1/keys", &json!({ "tenant": "acme" }));
    let one_more = format!("{whole}- {{ tenant: acme, sha256: {} }}\n", digest(&more));
    let answer = put(&gateway, &one_more);
    assert_eq!(answer.status, 422, "{answer:?}");
    assert_eq!(answer.json()["faults"].as_array().unwrap().len(), 1, "{answer:?}");

    let said = gateway.said();
    for key in [&same, &named] {
        let of_key = |line: &&str| line.contains("WARN") && line.contains(text(key, "id"));
        assert_eq!(said.lines().filter(of_key).count(), 1, "{said}");
    }
    assert!(!said.contains(text(&revoked, "id")), "{said}");
}
