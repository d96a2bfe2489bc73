//! The schema and the loader agree, by an independent judge of JSON Schema.

use std::sync::LazyLock;

use jsonschema::Validator;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use tollgate_policy::shapes::File;
use tollgate_policy::{load, load_fragment, schema};

use crate::FULL;

static JUDGE: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::draft202012::new(&schema()).unwrap());

/// The full file as JSON.
static FULL_JSON: LazyLock<Value> = LazyLock::new(|| {
    serde_json::to_value(load("full.yaml", FULL.as_bytes()).unwrap().document.root()).unwrap()
});

#[test]
fn schema_is_sound_and_accepts_the_full_file() {
    assert!(jsonschema::draft202012::meta::is_valid(&schema()));
    assert!(JUDGE.is_valid(&FULL_JSON));
    assert!(JUDGE.is_valid(&json!({})));
}

/// All schemas inside `schema`.
fn each(schema: &Value, visit: &mut impl FnMut(&Value)) {
    visit(schema);
    match schema {
        Value::Object(fields) => fields.values().for_each(|field| each(field, visit)),
        Value::Array(items) => items.iter().for_each(|item| each(item, visit)),
        _ => {}
    }
}

#[test]
fn every_number_has_bounds_and_every_field_a_description() {
    each(&schema(), &mut |part| {
        if matches!(part["type"].as_str(), Some("integer" | "number")) {
            assert!(part["minimum"].is_number() && part["maximum"].is_number(), "{part}");
        }
        for (name, field) in part["properties"].as_object().into_iter().flatten() {
            assert!(name == "description" || field["description"].is_string(), "{name}: {field}");
        }
    });
}

#[test]
fn every_default_in_the_schema_is_what_the_loader_uses() {
    let schema = schema();
    for (section, field) in schema["properties"].as_object().unwrap() {
        let file = json!({ section: field["default"] });
        assert!(JUDGE.is_valid(&file), "{section}");
        let loaded =
            load("default.json", file.to_string().as_bytes()).unwrap_or_else(|f| panic!("{f}"));
        assert_eq!(loaded.value, File::default(), "{section}");
    }
}

/// Where every value of `root` stands.
fn pointers(root: &Value, at: String, all: &mut Vec<String>) {
    match root {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| pointers(value, format!("{at}/{name}"), all));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| pointers(item, format!("{at}/{n}"), all));
        }
        _ => {}
    }
    all.push(at);
}

#[derive(Clone, Debug)]
enum Mutation {
    Replace(Value),
    Remove,
    Add(&'static str, Value),
}

fn value() -> impl Strategy<Value = Value> {
    let words = select(vec![
        "",
        "none",
        "auto",
        "minute",
        "minutes",
        "acme",
        "a b",
        "GET",
        "get",
        "/x",
        "10.0.0.0/8",
        "http://a",
        "system",
        "enforce",
        "user",
        "tokens",
        "month",
        "UTC",
        "127.0.0.1:1",
    ]);
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-2i64..5).prop_map(Value::from),
        (-20i64..60).prop_map(|tenths| json!(tenths as f64 / 10.0)),
        words.prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([{}])),
        Just(json!({ "sustained": { "rate": 5 } })),
        Just(json!({ "cost": 0 })),
    ]
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let names = select(vec![
        "sharing",
        "budget",
        "cost",
        "sustained",
        "sustaned",
        "burst",
        "url",
        "urls",
        "redis",
        "plan",
        "id",
        "quota",
        "a b",
        "window",
        "rate_limit",
    ]);
    prop_oneof![
        value().prop_map(Mutation::Replace),
        Just(Mutation::Remove),
        (names, value()).prop_map(|(name, value)| Mutation::Add(name, value)),
    ]
}

fn mutate(root: &mut Value, at: &str, mutation: Mutation) {
    let (above, name) = at.rsplit_once('/').unwrap_or_default();
    match (mutation, root.pointer_mut(at)) {
        (Mutation::Replace(value), Some(place)) => *place = value,
        (Mutation::Add(name, value), Some(Value::Object(fields))) => {
            fields.insert(name.to_owned(), value);
        }
        (Mutation::Remove, Some(_)) => {
            if let Some(Value::Object(fields)) = root.pointer_mut(above) {
                fields.shift_remove(name);
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is changed in a valid file, either both accept it or both refuse it. The judge knows the patterns
    /// of text but not its meaning, so only a fault of text may be the loader's alone.
    #[test]
    fn mutated_file_is_judged_alike(changes in prop::collection::vec((any::<Index>(), mutation()), 1..4)) {
        let mut file = FULL_JSON.clone();
        for (index, mutation) in changes {
            let mut all = Vec::new();
            pointers(&file, String::new(), &mut all);
            mutate(&mut file, &all[index.index(all.len())], mutation);
        }
        let judged = JUDGE.is_valid(&file);
        match load("mutated.json", file.to_string().as_bytes()) {
            Ok(_) => prop_assert!(judged, "the loader alone accepts {file}"),
            Err(_) if !judged || file.is_null() => {}
            Err(_) => {
                // Whether it names what there is, is no question of the schema.
                let shape = load_fragment::<File>("mutated.json", file.to_string().as_bytes());
                let Err(faults) = shape else { return Err(TestCaseError::fail("two answers")) };
                let is_text = |message: &str| message.contains("\": ") && message.contains(" is \"");
                let is_text = faults.iter().all(|fault| is_text(fault.message()));
                prop_assert!(is_text, "the schema alone accepts {file}\n{faults}");
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(faults) = load("noise", &bytes) {
            prop_assert!(!faults.is_empty() && !faults.to_string().is_empty());
        }
    }

    #[test]
    fn noise_of_yaml_never_panics(words in prop::collection::vec(select(vec![
        "a", ":", ": ", " ", "\n", "\n  ", "- ", "[", "]", "{", "}", ",", "&a ", "*a", "<<", "? ", "|", ">", "'", "\"", "#", "\t",
        "---\n", "...\n", "!!x ", "%", "1", "-", ".", "e", "é", "\r", "\u{85}", "\\", "tenants", "plans: ", "rate",
    ]), 0..40)) {
        let text = words.concat();
        if let Err(faults) = load("noise", text.as_bytes()) {
            prop_assert!(!faults.to_string().is_empty());
        }
    }

    /// A byte changed, inserted or removed anywhere in a valid file.
    #[test]
    fn damaged_file_never_panics(
        damage in prop::collection::vec((any::<Index>(), any::<u8>(), 0..3u8), 1..6)
    ) {
        let mut bytes = FULL.as_bytes().to_vec();
        for (index, byte, kind) in damage {
            let at = index.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        match load("damaged", &bytes) {
            Ok(loaded) => prop_assert!(JUDGE.is_valid(&serde_json::to_value(loaded.document.root()).unwrap())),
            Err(faults) => prop_assert!(!faults.to_string().is_empty()),
        }
    }
}
