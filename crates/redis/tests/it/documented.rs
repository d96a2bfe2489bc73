//! docs/distribution.md names the tests that show its bounds. They are there.

use std::path::Path;

/// What stands in code as `file::name`.
fn named(text: &str) -> Vec<(&str, &str)> {
    let in_code = text.split('`').skip(1).step_by(2);
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
    };
    let both = in_code.filter_map(|code| code.split_once("::"));
    both.filter(|(file, name)| is_name(file) && is_name(name)).collect()
}

#[test]
fn every_test_that_the_documentation_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let text = std::fs::read_to_string(root.join("docs/distribution.md")).unwrap();
    // Fences have three of them, which are an odd number.
    let text = text.replace("```", "");
    let named = named(&text);
    assert!(named.len() > 50, "it names many: {named:?}");
    let is_there = |(file, name): &(&str, &str)| {
        ["redis", "storage", "tollgate"].iter().any(|of| {
            let path = root.join(format!("crates/{of}/tests/it/{file}.rs"));
            let source = std::fs::read_to_string(path).unwrap_or_default();
            let (listed, whole) = (format!("    {name} => "), format!("fn {name}()"));
            source.contains(&listed) || source.contains(&whole)
        })
    };
    let missing: Vec<_> = named.into_iter().filter(|test| !is_there(test)).collect();
    assert!(missing.is_empty(), "named and not there: {missing:?}");
}
