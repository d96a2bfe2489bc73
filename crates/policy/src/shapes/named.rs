//! Things by name, in the order of the file.

use std::borrow::Cow;
use std::hash::Hash;
use std::ops::Deref;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Things by name, in the order of the file.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(transparent, bound(deserialize = "K: Deserialize<'de> + Eq + Hash, V: Deserialize<'de>"))]
pub struct Named<K: Eq + Hash, V>(IndexMap<K, V>);

impl<K: Eq + Hash, V> Default for Named<K, V> {
    fn default() -> Named<K, V> {
        Named(IndexMap::new())
    }
}

impl<K: Eq + Hash, V> Deref for Named<K, V> {
    type Target = IndexMap<K, V>;

    fn deref(&self) -> &IndexMap<K, V> {
        &self.0
    }
}

impl<K: Eq + Hash, V> FromIterator<(K, V)> for Named<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Named<K, V> {
        Named(pairs.into_iter().collect())
    }
}

impl<K: Eq + Hash, V> IntoIterator for Named<K, V> {
    type Item = (K, V);
    type IntoIter = indexmap::map::IntoIter<K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, K: Eq + Hash, V> IntoIterator for &'a Named<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = indexmap::map::Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<K: Eq + Hash + JsonSchema, V: JsonSchema> JsonSchema for Named<K, V> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Named{}", V::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": generator.subschema_for::<K>(),
            "additionalProperties": generator.subschema_for::<V>(),
        })
    }
}
