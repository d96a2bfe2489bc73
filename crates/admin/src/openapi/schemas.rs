//! The schemas of the shapes, in one place of the document.

use schemars::JsonSchema;
use serde_json::{Map, Value, json};
use tollgate_policy::schema_of;

/// Schemas by name; what they refer to stands beside them.
#[derive(Default)]
pub(super) struct Schemas {
    pub(super) all: Map<String, Value>,
}

impl Schemas {
    /// A reference to the schema of `T`, which is called `name`.
    pub(super) fn of<T: JsonSchema>(&mut self, name: &str) -> Value {
        let mut schema = schema_of::<T>();
        relocate(&mut schema);
        if let Some(object) = schema.as_object_mut() {
            object.remove("$schema");
            object.remove("title");
            if let Some(Value::Object(parts)) = object.remove("$defs") {
                parts.into_iter().for_each(|(name, part)| self.add(name, part));
            }
        }
        self.add(name.to_owned(), schema);
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    /// Two things must not have one name; whoever gives a second the same is told by every test.
    pub(super) fn add(&mut self, name: String, schema: Value) {
        let old = self.all.get(&name);
        debug_assert!(old.is_none_or(|old| *old == schema), "two schemas are called {name}");
        self.all.insert(name, schema);
    }

    /// A reference to a page of such things, which is called `name`.
    pub(super) fn page(&mut self, name: &str, item: &Value) -> Value {
        let page = json!({
            "type": "object",
            "required": ["items"],
            "properties": {
                "items": { "type": "array", "items": item },
                "next": { "type": "string", "description": "The `cursor` of the next page; absent on the last." },
            },
        });
        self.add(name.to_owned(), page);
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }
}

/// References to parts of a schema become references to parts of the document.
fn relocate(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(to)) = object.get_mut("$ref") {
                *to = to.replace("#/$defs/", "#/components/schemas/");
            }
            object.values_mut().for_each(relocate);
        }
        Value::Array(items) => items.iter_mut().for_each(relocate),
        _ => {}
    }
}

/// What every fault looks like.
pub(super) fn problem() -> Value {
    json!({
        "type": "object",
        "description": "Problem details (RFC 9457). `faults` lists every fault of a body or configuration, and after them what deserves a look in it, `budgets` the figures of budgets that are exceeded.",
        "required": ["type", "title", "status"],
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "faults": { "type": "array", "items": { "type": "object" } },
            "budgets": { "type": "array", "items": { "type": "object" } },
        },
    })
}
