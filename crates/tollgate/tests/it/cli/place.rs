//! Which gateway is meant, by which token, and what is said where there is none.

use std::fs::{self, File};
use std::io::Write;

use super::{Node, Run, TOKEN};
use crate::ports::Port;
use crate::support::Upstream;

const LIST: [&str; 3] = ["tenants", "list", "-q"];
const GOOD: &str = "acme\npart\n";

/// What a running gateway leaves in its folder: its address, held locked, and its token.
fn announce(node: &Node, folder: &str) -> File {
    let folder = node.folder.path().join(folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("admin-token"), format!("{TOKEN}\n")).unwrap();
    let mut file = File::create(folder.join("admin.url")).unwrap();
    file.try_lock().unwrap();
    writeln!(file, "{}", node.url()).unwrap();
    file
}

#[test]
fn address_and_token_come_from_flags() {
    let node = Node::start();
    let url = node.url();
    let run = |more: &[&str]| {
        let args = [&LIST[..], &["--admin", &url], more].concat();
        // Flags go before the environment.
        Run::new(node.folder.path(), &args)
            .env("TOLLGATE_ADMIN", "http://127.0.0.1:1")
            .env("TOLLGATE_ADMIN_TOKEN", "another-token-that-is-wrong")
            .input(TOKEN)
            .told()
    };
    assert_eq!(run(&["--token", TOKEN]).good(), GOOD);
    fs::write(node.folder.path().join("token"), format!("{TOKEN}\n")).unwrap();
    assert_eq!(run(&["--token-file", "token"]).good(), GOOD);
    assert_eq!(run(&["--token-file", "-"]).good(), GOOD);
    let wrong = run(&[]);
    let err = wrong.failed(1);
    assert!(err.contains("does not accept") && err.contains("from TOLLGATE_ADMIN_TOKEN"), "{err}");
    assert!(!err.contains("another-token"), "{err}");
    assert!(run(&["--token-file", "nowhere"]).failed(1).contains("cannot read nowhere"));
}

#[test]
fn address_and_token_come_from_the_folder_of_a_running_gateway() {
    let node = Node::start();
    let held = announce(&node, "tollgate-data");
    assert_eq!(Run::new(node.folder.path(), &LIST).told().good(), GOOD);
    let here = fs::canonicalize(node.folder.path()).unwrap();
    let data = here.join("tollgate-data");
    let args = [&LIST[..], &["--data", data.to_str().unwrap()]].concat();
    assert_eq!(Run::new(std::path::Path::new("/"), &args).told().good(), GOOD);
    // An address that nobody holds any more is not believed. Processes that other tests are just starting may still have
    // the file open, so it is unlocked, not only closed.
    held.unlock().unwrap();
    let nobody = Port::take();
    let text = format!("server: {{ admin_listen: {} }}\n", nobody.address());
    fs::write(here.join("away.yaml"), text).unwrap();
    let args = [&LIST[..], &["--config", "away.yaml"]].concat();
    let told = Run::new(node.folder.path(), &args).told();
    assert!(told.failed(1).contains("no gateway answers"), "{told:?}");
}

#[test]
fn address_and_folder_come_from_the_configuration_file() {
    let node = Node::start();
    announce(&node, "elsewhere").unlock().unwrap();
    let text =
        format!("server: {{ admin_listen: {} }}\nstorage: {{ path: elsewhere }}\n", node.address);
    fs::write(node.folder.path().join("away.yaml"), text).unwrap();
    let args = [&LIST[..], &["--config", "away.yaml"]].concat();
    assert_eq!(Run::new(node.folder.path(), &args).told().good(), GOOD);
    fs::write(node.folder.path().join("bad.yaml"), "storage: 7\n").unwrap();
    let args = [&LIST[..], &["--config", "bad.yaml"]].concat();
    assert!(Run::new(node.folder.path(), &args).told().failed(78).contains("bad.yaml:1:10"));
}

#[test]
fn a_gateway_that_does_not_run_gets_told_what_to_do() {
    let node = Node::start();
    let folder = tempfile::tempdir().unwrap();
    let free = Port::take();
    let nobody = format!("http://{}", free.address());
    let told = Run::new(folder.path(), &LIST)
        .env("TOLLGATE_ADMIN", &nobody)
        .env("TOLLGATE_ADMIN_TOKEN", TOKEN)
        .told();
    let err = told.failed(1);
    for part in ["no gateway answers", &nobody, "from TOLLGATE_ADMIN", "tollgate serve", "--data"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let told = Run::new(folder.path(), &LIST).env("TOLLGATE_ADMIN", &node.url()).told();
    let err = told.failed(1);
    assert!(err.contains("./tollgate-data/admin-token") && err.contains("--data"), "{err}");
}

#[test]
fn no_token_crosses_a_network_in_the_clear() {
    let node = Node::start();
    let _held = announce(&node, "tollgate-data");
    let away = [&LIST[..], &["--admin", "http://192.0.2.1:9090"]].concat();
    let told = Run::new(node.folder.path(), &away).env("TOLLGATE_ADMIN_TOKEN", TOKEN).told();
    let err = told.failed(1);
    assert!(err.contains("--plain-http") && err.contains("https"), "{err}");
    // The folder's token is for the folder's gateway, encrypted or not.
    for url in ["http://192.0.2.1:9090", "https://192.0.2.1:9090"] {
        let away = [&LIST[..], &["--plain-http", "--admin", url]].concat();
        let told = Run::new(node.folder.path(), &away).told();
        assert!(told.failed(1).contains("there is no token for"), "{told:?}");
    }
}

#[test]
fn something_else_at_the_address_is_told_from_a_gateway() {
    let page = Upstream::new("content-type: text/html\r\n", "<h1>hello</h1>");
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}", page.address);
    let told = Run::new(folder.path(), &["tenants", "list"])
        .env("TOLLGATE_ADMIN", &url)
        .env("TOLLGATE_ADMIN_TOKEN", TOKEN)
        .told();
    assert!(told.failed(1).contains("not as the admin API does"), "{told:?}");
    let head = page.heads().concat().to_lowercase();
    assert!(head.starts_with("get /v1/tenants?limit=100 http/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("authorization: bearer {TOKEN}\r\n")), "{head}");
}

#[test]
fn a_token_that_no_header_can_carry_is_not_shown() {
    let node = Node::start();
    let odd = "a-token-with-a-bell-\u{7}-in-it";
    let told = Run::new(node.folder.path(), &LIST)
        .env("TOLLGATE_ADMIN", &node.url())
        .env("TOLLGATE_ADMIN_TOKEN", odd)
        .told();
    let err = told.failed(1);
    assert!(err.contains("from TOLLGATE_ADMIN_TOKEN") && !err.contains("bell"), "{err}");
}
