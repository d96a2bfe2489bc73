//! A file as a tree of values that know where they stand.
//!
//! Lists, objects and text are shared, because an alias may repeat one many times: a clone copies a pointer.

use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::source::Span;

/// Objects up to this many fields are searched one by one.
const FEW: usize = 12;

/// One value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it stands.
    pub span: Span,
    /// What it is.
    pub value: Value,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number, also one written `1e3` or `1.0`.
    Int(i64),
    /// A whole number beyond the 64-bit ones. No field takes one; its digits are in the source.
    Huge,
    /// Any other number; not finite for `.nan`, `.inf` and what is too large for a double.
    Float(f64),
    /// Text.
    Str(Arc<str>),
    /// A list.
    Seq(Arc<[Node]>),
    /// An object.
    Map(Arc<Map>),
}

/// A field of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its name.
    pub key: Arc<str>,
    /// Where its name stands.
    pub key_span: Span,
    /// Its value.
    pub node: Node,
}

/// The fields of an object, in the order of the file, each name once.
#[derive(Debug, PartialEq)]
pub struct Map {
    entries: Vec<Entry>,
    /// Places in `entries` by name, where there are more than a few.
    by_name: Vec<u32>,
}

impl Map {
    /// The object of `entries`, and those whose name stood before. A file with any of these is refused.
    pub(crate) fn new(entries: Vec<Entry>) -> (Map, Vec<Repeated>) {
        let is_new =
            |(at, entry): (usize, &Entry)| entries[..at].iter().all(|e| e.key != entry.key);
        if entries.len() <= FEW && entries.iter().enumerate().all(is_new) {
            return (Map { entries, by_name: Vec::new() }, Vec::new());
        }
        let key = |at: u32| &entries[at as usize].key;
        let mut by_name: Vec<u32> = (0..).take(entries.len()).collect();
        by_name.sort_by(|&a, &b| key(a).cmp(key(b)));
        let groups = by_name.chunk_by(|&a, &b| key(a) == key(b));
        let repeated = groups.flat_map(|group| {
            let again = group.iter().skip(1);
            again.map(|&again| Repeated { first: group[0] as usize, again: again as usize })
        });
        let repeated = repeated.collect();
        (Map { entries, by_name }, repeated)
    }

    /// The field called `key`.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        if self.by_name.is_empty() {
            return self.entries.iter().find(|entry| &*entry.key == key);
        }
        let found = self.by_name.binary_search_by(|&at| (*self.entries[at as usize].key).cmp(key));
        found.ok().map(|place| &self.entries[self.by_name[place] as usize])
    }

    /// Whether the field at this place has the name of one before it.
    pub(crate) fn is_repeated(&self, place: usize) -> bool {
        let key = &self.entries[place].key;
        let first = self.by_name.partition_point(|&at| self.entries[at as usize].key < *key);
        self.by_name.get(first).is_some_and(|&at| at as usize != place)
    }

    /// All fields, in the order of the file.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// The places of two fields of one name.
#[derive(Debug)]
pub(crate) struct Repeated {
    pub(crate) first: usize,
    pub(crate) again: usize,
}

/// As JSON. What JSON cannot say, a number that is not finite or beyond 64 bits, becomes `null`.
impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Value::Null | Value::Huge => serializer.serialize_unit(),
            Value::Bool(truth) => serializer.serialize_bool(*truth),
            Value::Int(number) => serializer.serialize_i64(*number),
            Value::Float(number) => serializer.serialize_f64(*number),
            Value::Str(text) => serializer.serialize_str(text),
            Value::Seq(items) => serializer.collect_seq(items.iter()),
            Value::Map(map) => {
                let mut fields = serializer.serialize_map(Some(map.entries.len()))?;
                for entry in &map.entries {
                    fields.serialize_entry(&*entry.key, &entry.node)?;
                }
                fields.end()
            }
        }
    }
}
