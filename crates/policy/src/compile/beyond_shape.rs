//! What else is wrong with a file whose shape is wrong.

use crate::load::{Rest, Unread};

use super::policy::{Made, Policy};
use super::tenants::PolicyFaults;

/// What a file may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Only what it declares.
    Here,
    /// Tenants and plans that the API made, and where it has no upstreams one that the command line has.
    SomeElsewhere,
}

/// Sections of which every item is looked at: what is gone of them may have faults of its own.
const SECTIONS: [&str; 6] = ["upstreams", "routes", "plans", "tenants", "keys", "defaults"];

/// The faults of a file's shape, and with them what is wrong with the rest of it, as far as that is known for certain. Warnings are for
/// whoever has a file that can be used.
pub(crate) fn beyond_shape(unread: Unread, names: Names) -> PolicyFaults {
    let Unread { faults: mut diagnostics, rest } = unread;
    let mut budgets = Vec::new();
    if let Some(rest) = rest {
        let Rest { loaded, mut doubts } = *rest;
        let root = loaded.document.root().span;
        if SECTIONS.iter().any(|section| doubts.has(root, section)) {
            diagnostics.hide_more();
        }
        if names == Names::SomeElsewhere {
            doubts.add(root, "tenants");
            doubts.add(root, "plans");
            if loaded.value.upstreams.is_empty() {
                doubts.add(root, "upstreams");
            }
        }
        match Policy::compile_rest(loaded, Made::default(), doubts) {
            Ok(policy) => diagnostics.add_errors(policy.warnings().clone()),
            Err(beyond) => {
                diagnostics.add_errors(beyond.diagnostics);
                budgets = beyond.budgets;
            }
        }
    }
    PolicyFaults { diagnostics, budgets }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::load::load_file;

    /// A file in which every other line hangs on the lines before it.
    const TIGHT: &str = r#"
rate_limit_sync: { enabled: true }
redis: { url: "redis://127.0.0.1:6379", mode: cluster, urls: ["redis://127.0.0.2:6379"] }
upstreams:
  api: { url: "http://127.0.0.1:3000", rate_limit: { sustained: { rate: 1 }, burst: { capacity: 50 }, cost: 50 } }
  spare: { urls: ["http://127.0.0.1:3001", "http://127.0.0.1:3002"] }
routes:
  - { path: /x, methods: [GET], upstream: api, operation: chat }
  - { path: /x, methods: [POST], upstream: api }
  - { path: /x, methods: [PUT, PATCH], hosts: [a.example], upstream: api }
  - { path: /x, methods: [PUT, PATCH], hosts: [b.example], upstream: api }
  - { path: /x, upstream: spare, rate_limit: { cost: 9, sustained: { rate: 1 }, burst: { capacity: 9 } } }
defaults:
  client: { sustained: { rate: 1 }, burst: { capacity: 7 }, cost: 7, consistency: strict }
plans:
  free: { rate_limit: { sustained: { rate: 1 }, strategy: degrade, degrade: { upstream: spare }, consistency: lease } }
  pro:
    rate_limit: { algorithm: token_bucket, sustained: { rate: 70000 }, burst: { capacity: 90000 } }
    operations: { chat: { sustained: { rate: 1 }, burst: { capacity: 5 }, cost: 5 } }
    quota: [ { limit: 5, window: day, time_zone: UTC }, { limit: 6, window: day, unit: tokens }, { limit: 7, window: week } ]
tenants:
  - { id: system, rate_limit: { sharing: inherit, sustained: { rate: 3, window: minute } } }
  - { id: part, plan: pro, rate_limit: { sharing: private, sustained: { rate: 100, window: minute }, budget: { mode: allocated, total: 90, overcommit_ratio: 1.5 } } }
  - { id: one, parent: part, plan: free, rate_limit: { algorithm: fixed_window, sustained: { rate: 2, window: second } } }
  - { id: two, parent: part, rate_limit: { sustained: { rate: 15, window: minute } } }
  - { id: deep, parent: one }
keys:
  - { id: a, tenant: deep, user: ci, plan: pro, sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" }
  - { tenant: two, plan: free, sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b856" }
"#;

    /// Where every value of `root` stands.
    fn pointers(root: &Value, at: String, all: &mut Vec<String>) {
        let below: Vec<(String, &Value)> = match root {
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone(), value)).collect()
            }
            Value::Array(items) => {
                items.iter().enumerate().map(|(n, v)| (n.to_string(), v)).collect()
            }
            _ => Vec::new(),
        };
        below.into_iter().for_each(|(name, value)| pointers(value, format!("{at}/{name}"), all));
        all.push(at);
    }

    /// `file` with one value of it, or its name, spoilt in each of several ways.
    fn spoilt(file: &Value, at: &str) -> Vec<Value> {
        let (above, name) = at.rsplit_once('/').unwrap_or_default();
        let mut all: Vec<Value> = [json!(5.5), json!([[]]), json!("a b")]
            .into_iter()
            .map(|wrong| {
                let mut file = file.clone();
                *file.pointer_mut(at).unwrap() = wrong;
                file
            })
            .collect();
        // A list or object with an item or field too many.
        let mut more = file.clone();
        match more.pointer_mut(at).unwrap() {
            Value::Object(fields) => drop(fields.insert("zzz".to_owned(), json!(1))),
            Value::Array(items) => items.push(json!(5.5)),
            _ => {}
        }
        all.push(more);
        // Misspelled, in its place, and left out.
        if let Some(Value::Object(fields)) = file.pointer(above) {
            for other in [Some(format!("{name}x")), None] {
                let renamed = fields.iter().filter_map(|(key, value)| match &other {
                    Some(other) if key == name => Some((other.clone(), value.clone())),
                    None if key == name => None,
                    _ => Some((key.clone(), value.clone())),
                });
                let renamed = Value::Object(renamed.collect());
                let mut file = file.clone();
                *file.pointer_mut(above).unwrap() = renamed;
                all.push(file);
            }
        }
        all
    }

    /// These are right but for one thing that is spoilt, so whatever is told besides is told because of it.
    #[test]
    fn nothing_is_told_that_is_only_wrong_because_of_a_fault_of_shape() {
        let loaded = crate::load("t.yaml", TIGHT.as_bytes()).unwrap_or_else(|why| panic!("{why}"));
        let file = serde_json::to_value(loaded.document.root()).unwrap();
        Policy::compile(loaded, Made::default()).unwrap_or_else(|why| panic!("{why:?}"));
        let mut all = Vec::new();
        pointers(&file, String::new(), &mut all);
        let mut spoils = 0;
        for spoilt in all.iter().flat_map(|at| spoilt(&file, at)) {
            let text = spoilt.to_string();
            let Err(unread) = load_file("t.yaml", text.as_bytes()) else { continue };
            let shape = lines(&unread.faults);
            assert_eq!(lines(&beyond_shape(unread, Names::Here).diagnostics), shape, "{text}");
            spoils += 1;
        }
        assert!(spoils > 500, "{spoils}");
    }

    fn lines(faults: &crate::Diagnostics) -> Vec<String> {
        faults.records().map(|r| format!("{}:{} {}", r.line, r.column, r.message)).collect()
    }
}
