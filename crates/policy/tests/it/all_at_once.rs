//! A fault of shape hides no other, and nothing is told that is only wrong because of it.

use tollgate_policy::compile::Policy;
use tollgate_policy::{Diagnostics, load};

fn refused(text: &str) -> Diagnostics {
    Policy::of("t.yaml", text.as_bytes()).expect_err(text).diagnostics
}

fn lines(faults: &Diagnostics) -> Vec<String> {
    faults.records().map(|r| format!("{}:{} {}", r.line, r.column, r.message)).collect()
}

fn told(text: &str) -> Vec<String> {
    lines(&refused(text))
}

const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Broken before: whatever was wrong with the shape was told alone, and the rest only when it was mended.
#[test]
fn faults_of_shape_and_all_others_are_told_in_one_run_in_the_order_of_the_file() {
    let text = format!(
        "\
upstreams: {{ api: {{ url: \"htp://a\" }} }}
routes:
  - {{ path: /x, upstream: apy, rate_limit: {{ cots: 5 }} }}
  - {{ path: /y, upstream: api, zzz: 1 }}
  - {{ path: /y, upstream: api }}
plans:
  free: {{ rate_limit: {{ sustained: {{ rate: 5 }}, cost: 6 }}, quota: 7 }}
  pro: {{ rate_limit: {{ sustained: {{ rate: 5 }}, consistency: strict, zzz: 1 }} }}
tenants:
  - {{ id: t1, plan: fre }}
  - {{ id: t2, parent: t9, rate_limit: {{ sustained: {{ rate: 0 }} }} }}
keys:
  - {{ tenant: t3, sha256: {DIGEST} }}
serer: {{}}
"
    );
    assert_eq!(
        told(&text),
        [
            "1:26 `url` is \"htp://a\": write a URL such as `http://127.0.0.1:3000` or `https://api.example.com`",
            "3:27 there is no upstream `apy`, did you mean `api`?",
            "3:46 unknown field `cots`, did you mean `cost`?",
            "4:32 unknown field `zzz`",
            "5:13 the route in line 4 is for the same requests",
            "7:55 a cost of 6 can never pass: plan:free has a capacity of 5",
            "7:67 `quota`: expected an object or a list, found the number 7",
            "8:61 only `local` works without Redis",
            "8:69 unknown field `zzz`",
            "10:21 there is no plan `fre`, did you mean `free`?",
            "11:23 there is no tenant `t9`, did you mean `t1`?",
            "11:60 `rate` is 0: write an integer from 1 to 86400000000000",
            "13:15 there is no tenant `t3`, did you mean `t1`?",
            "14:1 unknown field `serer`, did you mean `server`?",
        ]
    );
    assert!(!refused(&text).may_hide_more());
}

#[test]
fn a_section_written_twice_makes_nothing_of_it_unknown() {
    let text = "\
tenants: [{ id: a }]
plans: { p: {} }
tenants: [{ id: b, plan: q }]
keys: [{ tenant: b, sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855, plan: q }]
";
    assert_eq!(
        told(text),
        ["3:1 `tenants` is written twice", "4:101 there is no plan `q`, did you mean `p`?"]
    );
    assert!(refused(text).may_hide_more());
}

/// Whoever is told all there is must be able to tell it from what was only the beginning.
#[test]
fn what_may_hide_more_says_so() {
    for (text, may_hide_more) in [
        ("tenants: [", true),
        ("- a", true),
        ("tenants: 7\nkeys: []", true),
        ("tenants: [{ id: a, plan: b }]", false),
        ("tenants: [{ id: a, zzz: b }]", false),
        ("tenants: [{ id: a, rate_limit: 5 }]", false),
        ("tenants: [{ id: a, parnet: b }, { id: b }]", true),
        ("", false),
    ] {
        let faults = refused(text);
        assert_eq!(faults.may_hide_more(), may_hide_more, "{text}");
        let ends = faults.to_string().ends_with("\nmore may be found when this is mended\n");
        assert_eq!(ends, may_hide_more, "{text}\n{faults}");
    }
}

/// The API may have made a plan, and the command line may have an upstream.
#[test]
fn whoever_only_loads_a_file_is_not_told_of_names_from_elsewhere() {
    let text = "\
routes: [{ path: /x, upstream: api, zzz: 1 }]
tenants: [{ id: a, plan: made, parent: made }, { id: a }]
";
    let faults = load("t.yaml", text.as_bytes()).unwrap_err();
    assert_eq!(
        lines(&faults),
        ["1:37 unknown field `zzz`", "2:54 tenant `a` is declared twice, first in line 2"]
    );
    assert!(faults.may_hide_more());
}

/// Broken before: a thousand warnings left no room for the one error.
#[test]
fn warnings_never_crowd_out_an_error() {
    let operation = |n: usize| format!("o{n}: {{ sustained: {{ rate: 1 }} }}, ");
    let text = format!(
        "upstreams: {{ api: {{ url: \"http://a\" }} }}\nroutes: [{{ path: /x, upstream: api }}]\nplans: {{ p: {{ operations: {{ {} }} }} }}\ntenants: [{{ id: a, plan: q }}]\n",
        (0..1500).map(operation).collect::<String>()
    );
    let faults = refused(&text);
    assert_eq!((faults.errors(), faults.warnings(), faults.omitted()), (1, 1500, 501));
    assert!(lines(&faults).iter().any(|line| line.contains("there is no plan `q`")));
}
