//! Each kind of fault, with its exact place and words.

use tollgate_policy::{load, load_fragment, shapes};

use crate::faults_of;

/// `text` has exactly one fault.
fn has(text: &str, fault: &str) {
    assert_eq!(faults_of(text), [fault], "{text}");
}

fn help_of(text: &str) -> String {
    let faults = load("test.yaml", text.as_bytes()).unwrap_err();
    faults.records().next().unwrap().help.unwrap().to_owned()
}

#[test]
fn misspelled_field_is_told_with_the_nearest() {
    has("serer: {}", "1:1 unknown field `serer`, did you mean `server`?");
    has("server: { Listen: 1 }", "1:11 unknown field `Listen`, did you mean `listen`?");
    has(
        "server: { admin-listen: 1 }",
        "1:11 unknown field `admin-listen`, did you mean `admin_listen`?",
    );
    has("zzz: {}", "1:1 unknown field `zzz`");
    assert!(help_of("zzz: {}").starts_with("the fields here are `server`, `auth`, `storage`"));
}

#[test]
fn wrong_kind_is_told_with_what_was_found() {
    let limit = |rate: &str| {
        format!("tenants:\n- id: a\n  rate_limit: {{ sustained: {{ rate: {rate} }} }}\n")
    };
    for (rate, found) in [
        ("abc", "the text \"abc\""),
        ("\"5\"", "the text \"5\""),
        ("true", "true"),
        ("[5]", "a list"),
        ("{}", "an object"),
        ("~", "nothing"),
        ("1.5", "the number 1.5"),
        ("1e-3", "the number 1e-3"),
        (".nan", ".nan, which is no finite number"),
        ("-.inf", "-.inf, which is no finite number"),
        ("1e999", "1e999, which is no finite number"),
    ] {
        let expected = "an integer from 1 to 86400000000000";
        has(&limit(rate), &format!("3:36 `rate`: expected {expected}, found {found}"));
    }
    has(
        "auth: { mode: 5 }",
        "1:15 `mode`: expected `required`, `optional` or `none`, found the number 5",
    );
    has("storage: { redis: yes }", "1:19 `redis`: expected true or false, found the text \"yes\"");
    has("tenants: {}", "1:10 `tenants`: expected a list, found an object");
    has("defaults: { client: 5 }", "1:21 `client`: expected an object or null, found the number 5");
    has(
        "plans: { a: { quota: 5 } }",
        "1:22 `quota`: expected an object or a list, found the number 5",
    );
    has("- a", "1:1 expected an object, found a list");
}

#[test]
fn empty_field_is_no_value() {
    has("tenants:\nroutes: []\n", "1:8 `tenants`: expected a list, found nothing");
    assert_eq!(help_of("tenants:\n"), "write a value, or leave the field out");
    has("plans: { a: { rate_limit: ~ } }", "1:27 `rate_limit`: expected an object, found nothing");
    // Broken before: `null` was to be put in quotes.
    assert_eq!(
        help_of("tenants: [{ id: a, plan: null }]"),
        "write a value, or leave the field out"
    );
    assert_eq!(help_of("server: { trusted_proxies: [~] }"), "write a value, or leave the item out");
    assert_eq!(help_of("tenants: [{ id: null }]"), "write a value");
}

#[test]
fn unquoted_number_where_text_belongs_asks_for_quotes() {
    has("tenants: [{ id: 007 }]", "1:17 `id`: expected text, found the number 007");
    assert_eq!(help_of("tenants: [{ id: 007 }]"), "to make it text, put it in quotes: \"007\"");
}

#[test]
fn figure_out_of_range_is_told_with_the_range() {
    let budget = "tenants: [{ id: a, rate_limit: { sustained: { rate: 5 }, budget: { overcommit_ratio: 2.5 } } }]";
    has(budget, "1:86 `overcommit_ratio` is 2.5: write a number from 1.0 to 2.0");
    for huge in ["9007199254740993", "99999999999999999999", "1e30", "0xffffffffffffffffff"] {
        let text = format!("plans: {{ a: {{ quota: {{ window: day, limit: {huge} }} }} }}");
        has(&text, &format!("1:44 `limit` is {huge}: write an integer from 1 to 9007199254740992"));
    }
    has(
        "counters: { max_keys: -1 }",
        "1:23 `max_keys` is -1: write an integer from 1 to 1000000000",
    );
    let plan = "plans: { a: { rate_limit: { sustained: { rate: 1 }, cost: 0 } } }";
    has(plan, "1:59 `cost` is 0: write an integer from 1 to 9007199254740992");
    assert_eq!(help_of(plan), "only a route's cost may be 0");
}

#[test]
fn other_word_is_told_with_the_nearest() {
    let text = "plans: { a: { quota: { limit: 1, window: mont } } }";
    has(text, "1:42 `window` is \"mont\", did you mean `month`?");
    assert_eq!(help_of(text), "write `day`, `week`, `month` or `year`");
    has("auth: { mode: sometimes }", "1:15 `mode` is \"sometimes\"");
    has(
        "server: { workers: many }",
        "1:20 `workers` is \"many\": write `auto` or an integer from 1 to 1024",
    );
    has("server: { workers: 0 }", "1:20 `workers` is 0: write an integer from 1 to 1024");
}

#[test]
fn missing_field_is_told_at_what_lacks_it() {
    has("routes:\n- { path: /x }\n", "2:3 `routes[0]` lacks `upstream`");
    has("keys:\n- tenant: a\n", "2:3 `keys[0]` lacks `sha256`");
    has("plans: { a: { rate_limit: { cost: 2 } } }", "1:15 `rate_limit` lacks `sustained`");
    has("upstreams:\n  api: {}\n", "2:3 `api` lacks `url` or `urls`");
}

#[test]
fn what_belongs_elsewhere_is_told_where() {
    let plan = "plans: { a: { rate_limit: { sustained: { rate: 1 }, sharing: private } } }";
    has(plan, "1:53 `sharing` has no place here: only a tenant's `rate_limit` has it");
    let route = "routes: [{ path: /, upstream: a, rate_limit: { cost: 1, budget: {} } }]";
    has(route, "1:57 `budget` has no place here: only a tenant's `rate_limit` has it");
}

#[test]
fn fields_that_exclude_or_need_one_another_are_told() {
    has(
        "upstreams: { a: { url: \"http://a\", urls: [\"http://b\"] } }",
        "1:36 write `url` or `urls`, and not both",
    );
    has("storage: { path: a, redis: true }", "1:21 write `path` or `redis`, and not both");
    let route = |limit: &str| format!("routes: [{{ path: /, upstream: a, rate_limit: {limit} }}]");
    has(&route("{ cost: 1, burst: { capacity: 5 } }"), "1:57 `burst` needs `sustained` beside it");
    has(&route("{}"), "1:34 `rate_limit` says nothing");
    has(
        "routes: [{ path: /, upstream: a, methods: [] }]",
        "1:43 `methods` is empty: write at least one item, or leave it out",
    );
}

#[test]
fn text_that_means_nothing_is_told_with_what_would() {
    has(
        "tenants: [{ id: a b }]",
        "1:17 `id` is \"a b\": write 1 to 128 letters, digits, `.`, `_` or `-`",
    );
    has(
        "plans: { 'a b': {} }",
        "1:10 \"a b\" is not a name: write 1 to 128 letters, digits, `.`, `_` or `-`",
    );
    has(
        "server: { trusted_proxies: [10.0.0.1/8] }",
        "1:29 `trusted_proxies[0]` is \"10.0.0.1/8\": its first address is another: write `10.0.0.0/8`",
    );
    has(
        "routes: [{ path: /, upstream: a, methods: [GET, post] }]",
        "1:49 `methods[1]` is \"post\": methods are in capitals: write `POST`",
    );
    has(
        "plans: { a: { quota: { limit: 1, window: day, time_zone: Mars } } }",
        "1:58 `time_zone` is \"Mars\": write the IANA name of a time zone, such as `UTC` or `Europe/Vienna`",
    );
}

#[test]
fn what_is_not_yaml_is_told_where() {
    has("tenants: [", "1:10 this is not YAML: unclosed bracket '['");
    has("a: 'b", "1:4 this is not YAML: unclosed quote");
    has(
        "tenants:\n\t- id: x\n",
        "2:2 this is not YAML: tabs disallowed within this context (block indentation)",
    );
    assert_eq!(
        help_of("tenants:\n\t- id: x\n"),
        "indent with spaces: YAML does not allow tabs there"
    );
    has("tenants: []\n---\ntenants: []\n", "2:1 a second document begins here");
    has("usage: !days { retention_days: 5 }", "1:14 the tag `!days` has no meaning here");
    has("plans: { a: { <<: {} } }", "1:15 merge keys are not understood here");
    has("? [a]\n: b", "1:3 a field's name must be text, and not a list, an object or an alias");
    has("tenants: []\n\nplans: {}\ntenants: []\n", "4:1 `tenants` is written twice");
    assert_eq!(help_of("plans: {}\nplans: {}\n"), "it stands in line 1 already: remove one");
}

#[test]
fn nothing_is_told_to_be_nothing() {
    for text in ["", " \n", "# only a comment\n", "~", "---\n...\n", "\u{feff}"] {
        has(text, "1:1 there is nothing in it");
    }
}

#[test]
fn bytes_that_are_no_text_are_told() {
    let told = |bytes: &[u8]| {
        let faults = load("test.yaml", bytes).unwrap_err();
        faults
            .records()
            .map(|r| format!("{}:{} {}", r.line, r.column, r.message))
            .collect::<Vec<_>>()
    };
    assert_eq!(told(b"\xff\xfet\0e\0"), ["1:1 this is UTF-16"]);
    assert_eq!(told(b"plans: {}\nt\xc3\xa4n\xff: 1"), ["2:4 byte 0xff is not UTF-8 here"]);
    assert!(load("test.yaml", b"\xef\xbb\xbfplans: {}\n").is_ok());
}

#[test]
fn all_faults_are_told_in_the_order_of_the_file() {
    let text = "\
keys:
  - { tenant: acme, sha256: tg_live_x }
server: { lisen: 1 }
tenants:
  - id: acme
    rate_limit:
      sustained: { rate: 0, window: minutes }
      scop: user
  - parent: acme
server: {}
";
    assert_eq!(
        faults_of(text),
        [
            "2:29 `sha256` is wrong: a key itself never stands in a file: write the hex of its SHA-256",
            "3:11 unknown field `lisen`, did you mean `listen`?",
            "7:26 `rate` is 0: write an integer from 1 to 86400000000000",
            "7:37 `window` is \"minutes\", did you mean `minute`?",
            "8:7 unknown field `scop`, did you mean `scope`?",
            "9:5 `tenants[1]` lacks `id`",
            "10:1 `server` is written twice",
        ]
    );
}

#[test]
fn fragment_is_read_by_the_rules_of_the_file() {
    let tenant = br#"{"id": "acme", "rate_limit": {"sustained": {"rate": 5}}}"#;
    let loaded = load_fragment::<shapes::Tenant>("body", tenant).unwrap();
    assert_eq!(loaded.value.id.as_str(), "acme");

    let faults =
        load_fragment::<shapes::Plan>("body", br#"{"rate_limit": {"cost": 0}}"#).unwrap_err();
    let told: Vec<_> = faults.records().map(|r| (r.column, r.message)).collect();
    assert_eq!(
        told,
        [
            (2, "`rate_limit` lacks `sustained`"),
            (25, "`cost` is 0: write an integer from 1 to 9007199254740992"),
        ]
    );
    // Broken before: it was to have a section, as if it were a file.
    for empty in ["", "null"] {
        let faults = load_fragment::<shapes::Tenant>("body", empty.as_bytes()).unwrap_err();
        let told: Vec<_> = faults.records().map(|r| (r.message, r.help)).collect();
        let help = "write an object with `id`; its fields are `id`, `parent`, `plan`, `rate_limit`, `quota`";
        assert_eq!(told, [("there is nothing in it", Some(help))]);
    }
    for empty in ["", "[]", "5"] {
        assert!(load_fragment::<shapes::Key>("body", empty.as_bytes()).is_err());
    }
}
