//! What must not be found where anybody may look.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::{Ask, Node, TOKEN};

/// Everything that is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

#[test]
fn no_secret_is_logged_or_stored() {
    let log = Log::default();
    let logged = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let node = Node::start();
    let told = node.send(
        &Ask::new("POST", "/v1/keys")
            .header("idempotency-key", "k")
            .json(&json!({ "tenant": "acme" })),
    );
    let told = told.expect(201);
    let (id, key) = (told["id"].as_str().unwrap(), told["key"].as_str().unwrap().to_owned());
    let told =
        node.post(&format!("/v1/keys/{id}/rotate"), &json!({ "grace_seconds": 9 })).expect(201);
    let successor = told["key"].as_str().unwrap().to_owned();
    // A key where a name should be.
    node.post("/v1/keys", &json!({ "tenant": key, "plan": 7 })).expect(422);
    node.get(&format!("/v1/keys/{key}")).expect(404);
    node.runtime.block_on(node.store.close()).unwrap();
    node.get("/v1/keys").expect(503);
    let lines = String::from_utf8(logged.0.lock().unwrap().clone()).unwrap();
    assert!(lines.contains("cannot use its storage"), "{lines}");
    let mut places = vec![("the log".to_owned(), lines.into_bytes())];
    for entry in std::fs::read_dir(node.folder.path().join("data")).unwrap() {
        let path = entry.unwrap().path();
        places.push((path.display().to_string(), std::fs::read(&path).unwrap()));
    }
    assert!(places.len() > 1);
    for (place, bytes) in places {
        for secret in [TOKEN, &key[12..], &successor[12..]] {
            let is_there = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!is_there, "a secret is in {place}");
        }
    }
}
