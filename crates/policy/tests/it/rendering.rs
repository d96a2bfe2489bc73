//! What a person sees.

use tollgate_policy::{Style, load};

#[test]
fn place_line_and_mark_are_shown() {
    let faults = load("a.yaml", b"plans: {}\ntenants:\n  - { id: acme, pln: free }\n").unwrap_err();
    let shown = "\
error: unknown field `pln`, did you mean `plan`?
 --> a.yaml:3:17
  |
3 |   - { id: acme, pln: free }
  |                 ^^^
  |
  = help: the fields here are `id`, `parent`, `plan`, `rate_limit`, `quota`
";
    assert_eq!(faults.to_string(), shown);
    assert!(faults.render(Style::Coloured).contains("\u{1b}["));
}

#[test]
fn only_a_part_of_a_long_line_is_shown() {
    let tenants = r#"{"id":"é"},"#.repeat(100_000).replace('é', "acme");
    let text = format!(r#"{{"tenants":[{tenants}{{"idd":"x"}},{tenants}{{"id":"y"}}]}}"#);
    let faults = load("a.json", text.as_bytes()).unwrap_err();
    let shown = faults.to_string();
    assert!(shown.contains("a.json:1:1400014\n"), "{shown}");
    assert!(shown.len() < 1000, "{} bytes", shown.len());
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let faults = load("a.yaml", b"x: \"\\e[2J\"\n\"a\\u0007\": \"\xc2\x9b\x7f\"\n").unwrap_err();
    let shown = faults.to_string();
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
}
