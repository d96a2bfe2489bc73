//! The JSON Schema of the shapes: what editors read, and what the validator checks by.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use crate::shapes::File;

/// The JSON Schema (draft 2020-12) of the configuration file.
pub fn schema() -> Value {
    schema_of::<File>()
}

/// The JSON Schema of one shape, by which [`load_fragment`](crate::load_fragment) checks it.
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(Strict);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// A field that is left out is left out: `null` is allowed only where a shape gives it a meaning, as a constant.
#[derive(Clone, Debug)]
struct Strict;

impl Transform for Strict {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        if object.get("default") == Some(&Value::Null) {
            object.remove("default");
        }
        // The width of an integer in memory is nobody's concern; its bounds are stated.
        let is_width = |format: &str| matches!(format, "uint64" | "double");
        if object.get("format").and_then(Value::as_str).is_some_and(is_width) {
            object.remove("format");
        }
        if let Some(Value::Array(types)) = object.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = &types[..] {
                object["type"] = only.clone();
            }
        }
        let nothing = serde_json::json!({ "type": "null" });
        if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
            choices.retain(|choice| *choice != nothing);
            if let [Value::Object(only)] = &choices[..] {
                let only = only.clone();
                object.remove("anyOf");
                object.extend(only);
            }
        }
    }
}
