//! Everything that scripts and stores ask of a server is tried.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files of these crates, in their folder `scripts` or `src`.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("all crates");
    let mut look = ["redis", "storage"].map(|of| crates.join(of).join(folder)).to_vec();
    let mut found = Vec::new();
    while let Some(folder) = look.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the workspace") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                look.push(path);
            } else if path.extension().is_some_and(|is| is == ending) {
                found.push(path);
            }
        }
    }
    found
}

/// What stands in quotation marks, in capital letters, right after `before`.
fn named_after(before: &str, files: &[PathBuf]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).expect("a file of the workspace");
        for after in text.split(before).skip(1) {
            let Some(quoted) = after.strip_prefix(['\'', '"']) else { continue };
            let name: String = quoted.chars().take_while(char::is_ascii_uppercase).collect();
            assert!(!name.is_empty(), "a command is named in capital letters: {quoted:.40}");
            names.insert(name);
        }
    }
    names
}

#[test]
fn whatever_scripts_call_is_tried() {
    let called = named_after("call(", &files("scripts", "lua"));
    assert!(called.len() > 20 && called.contains("HRANDFIELD"), "{called:?}");
    let probe = include_str!("../facts.rs");
    let is_tried = |name: &String| probe.contains(&format!("{{ '{name}'"));
    let missing: Vec<_> = called.iter().filter(|name| !is_tried(name)).collect();
    assert!(missing.is_empty(), "called by scripts and not tried: {missing:?}");
}

#[test]
fn whatever_is_asked_without_a_script_is_tried() {
    let asked = named_after("cmd(", &files("src", "rs"));
    assert!(asked.len() > 5 && asked.contains("HSCAN"), "{asked:?}");
    let probe = include_str!("../facts.rs");
    let is_tried = |name: &String| {
        // A script that the server does not know yet is sent by EVAL, and the probe is none that it knows.
        name == "EVAL"
            || probe.contains(&format!("\"{name}"))
            || probe.contains(&format!("{{ '{name}'"))
    };
    let missing: Vec<_> = asked.iter().filter(|name| !is_tried(name)).collect();
    assert!(missing.is_empty(), "asked and not tried: {missing:?}");
}
