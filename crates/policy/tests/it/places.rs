//! Where things stand, for checks that come later.

use tollgate_policy::{Diagnostic, Diagnostics, Path, load};

#[test]
fn path_finds_value_and_name() {
    let text = "\
tenants:
  - id: acme # ä takes two bytes
  - id: b
    rate_limit: { sustained: { rate: 5 } }
";
    let document = load("test.yaml", text.as_bytes()).unwrap().document;
    let place = |span| {
        let at = document.source().position(span);
        (at.line, at.column, document.source().slice(span).to_owned())
    };
    let rate = Path::root().key("tenants").index(1).key("rate_limit").key("sustained").key("rate");
    assert_eq!(place(document.span_of(&rate)), (4, 38, "5".to_owned()));
    assert_eq!(place(document.key_span_of(&rate)), (4, 32, "rate".to_owned()));
    let tenant = Path::root().key("tenants").index(1);
    assert_eq!(place(document.key_span_of(&tenant)).0, 3);
    assert_eq!(document.get(&tenant.clone().key("parent")), None);

    // What the file leaves out is looked for where it would stand.
    let left_out = rate.clone().key("x");
    assert_eq!(document.span_of(&left_out), document.span_of(&rate));
    assert_eq!(
        document.key_span_of(&tenant.key("parent")),
        document.span_of(&Path::root().key("tenants").index(1))
    );
}

#[test]
fn every_field_of_a_large_object_is_found() {
    let plans: String = (0..1000).map(|n| format!("  p{n}: {{}}\n")).collect();
    let document = load("test.yaml", format!("plans:\n{plans}").as_bytes()).unwrap().document;
    for n in 0..1000 {
        let span = document.key_span_of(&Path::root().key("plans").key(format!("p{n}")));
        assert_eq!(document.source().position(span).line, n + 2);
    }
}

#[test]
fn later_diagnostics_join_in_the_order_of_the_file() {
    let loaded = load("test.yaml", b"tenants:\n  - id: a\n  - id: b\n").unwrap();
    let mut found = Diagnostics::new(loaded.document.source().clone());
    let id = |n| loaded.document.span_of(&Path::root().key("tenants").index(n).key("id"));
    found.push(Diagnostic::warning(id(1), "second"));
    found.push(Diagnostic::warning(id(0), "first"));
    assert!(!found.has_errors());
    found.push(Diagnostic::error(id(1), "third").with_help("do better"));
    found.push(Diagnostic::error(id(1), "third").with_help("do better"));
    assert!(found.has_errors());
    let told: Vec<_> = found.records().map(|r| (r.line, r.message)).collect();
    assert_eq!(told, [(2, "first"), (3, "second"), (3, "third")]);
}
