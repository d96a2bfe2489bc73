//! Files made to hurt: each is answered, in bounded time and memory.

use std::fmt::Write as _;

use tollgate_policy::{MAX_BYTES, load};

use crate::faults_of;

/// Ten levels of ten aliases each.
fn alias_bomb() -> String {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..=9 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(text, "a{level}: &a{level} [{aliases}]").unwrap();
    }
    text
}

#[test]
fn alias_bomb_is_refused() {
    assert_eq!(
        faults_of(&alias_bomb()),
        ["5:45 aliases repeat more than 100000 values up to here"]
    );
}

#[test]
fn alias_of_long_text_counts_by_its_length() {
    let text = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(1 << 20), "*a, ".repeat(100));
    assert_eq!(faults_of(&text).len(), 1);
    assert!(faults_of(&text)[0].contains("aliases repeat more than"));
}

#[test]
fn anchors_are_bounded() {
    let faults = faults_of(&"- &a x\n".repeat(20_000));
    assert_eq!(faults, ["10001:6 there are more than 10000 anchors up to here"]);
}

#[test]
fn aliases_nest_no_deeper_than_brackets() {
    let mut text = "a0: &a0 []\n".to_owned();
    for level in 1..=70 {
        writeln!(text, "a{level}: &a{level} [*a{}]", level - 1).unwrap();
    }
    assert_eq!(faults_of(&text), ["64:12 this stands deeper than 64 levels"]);
    assert_eq!(faults_of("a: &a [*a]"), ["1:8 this alias stands inside the value it repeats"]);
}

#[test]
fn deep_nesting_is_refused() {
    for opening in ["[", "{a: ", "- ", "{a: ["] {
        let faults = faults_of(&opening.repeat(100_000));
        assert_eq!(faults.len(), 1, "{opening}");
        assert!(faults[0].ends_with("this stands deeper than 64 levels"), "{}", faults[0]);
    }
}

#[test]
fn too_large_a_file_is_refused() {
    let text = " ".repeat(MAX_BYTES + 1);
    assert_eq!(faults_of(&text), ["1:1 this is too large: 4194305 bytes"]);
    assert_eq!(faults_of(&text[1..]), ["1:1 there is nothing in it"]);
}

#[test]
fn large_file_is_loaded() {
    let mut text = "tenants:\n".to_owned();
    let mut tenants = 0;
    while text.len() < MAX_BYTES - 200 {
        let limit = "{ sustained: { rate: 50, window: minute }, burst: { capacity: 100 } }";
        writeln!(text, "  - {{ id: t{tenants}, parent: system, rate_limit: {limit} }}").unwrap();
        tenants += 1;
    }
    assert_eq!(load("large.yaml", text.as_bytes()).unwrap().value.tenants.len(), tenants);
}

#[test]
fn more_values_than_any_policy_needs_are_refused() {
    let faults = faults_of(&format!("routes: [{}]", "5,".repeat(1_100_000)));
    assert_eq!(faults, ["1:2000010 there are more than 1000000 values up to here"]);
}

#[test]
fn countless_faults_are_counted() {
    let text = format!("routes: [{}]", "5,".repeat(5000));
    let faults = load("test.json", text.as_bytes()).unwrap_err();
    assert_eq!((faults.len(), faults.iter().count(), faults.omitted()), (5000, 1000, 4000));
    let shown = faults.to_string();
    assert!(shown.ends_with("\nand 4900 more\n"));
    assert!(shown.len() < 100_000, "{} bytes", shown.len());
}
