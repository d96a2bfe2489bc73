//! What a person sees.

use tollgate_policy::shapes::File;
use tollgate_policy::{Style, load, load_fragment};

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
    let faults = load_fragment::<File>("a.json", text.as_bytes()).unwrap_err();
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

#[test]
fn no_secret_is_shown_and_marks_stay_where_they_are() {
    const KEY: &str = "tg_live_ExampleKeyDoNotUseItReal0fYmW4";
    let url = "redis://:hidden@h";
    for (text, marked) in [
        (format!("keys: [{{ tenant: acme, sha256: {KEY}, pln: x }}]\n"), "pln"),
        ("keys: [{ tenant: acme, sha256: hidden-key, pln: x }]\n".to_owned(), "pln"),
        ("keys: [{ tenant: acme, sha256: 1234567890, pln: x }]\n".to_owned(), "pln"),
        (format!("redis: {{ url: \"{url}\", mode: singel }}\n"), "singel"),
        ("redis: { url: \":hidden@h\", mode: singel }\n".to_owned(), "singel"),
        (format!("redis: {url}\n"), "redis://*******@h"),
        (format!("routes: [ {{ path: /*, upstream: '{KEY}' ]\n"), "{ path"),
        (
            format!("upstreams: {{ a: {{ url: \"http://u:hidden@{}\" }} }}\n", "h".repeat(70)),
            "\"http://********@h",
        ),
        (format!("{{\"plans\":{{\"{KEY}\":7}}}}"), "7"),
    ] {
        let faults = load("a.yaml", text.as_bytes()).unwrap_err();
        let told: String =
            faults.records().map(|r| format!("{} {:?}\n", r.message, r.help)).collect();
        let shown = format!("{told}{faults}");
        for secret in [&KEY[8..], "hidden", "1234567890"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        let lines: Vec<&str> = shown.lines().collect();
        let is_marked = lines.windows(2).any(|pair| {
            let mark = pair[1].find('^').and_then(|at| pair[0].get(at..));
            mark.is_some_and(|rest| rest.starts_with(marked))
        });
        assert!(is_marked, "{shown}");
    }
}
