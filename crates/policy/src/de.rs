//! A tree becomes a shape, by serde.
//!
//! The validator has passed the tree before, so an error here is rare; it still says where it stands, by the
//! steps collected on the way out.

use std::fmt;
use std::slice;

use serde::de::{
    self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::node::{Entry, Node, Value};
use crate::path::{Path, Segment};

/// Why a tree is not a shape, and where.
#[derive(Debug)]
pub(crate) struct ShapeError {
    message: String,
    /// From the value up to the root.
    steps: Vec<Segment>,
}

impl ShapeError {
    fn below(mut self, step: Segment) -> ShapeError {
        self.steps.push(step);
        self
    }

    pub(crate) fn into_parts(self) -> (Path, String) {
        (Path::from_leaf(self.steps), self.message)
    }
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ShapeError {}

impl de::Error for ShapeError {
    fn custom<T: fmt::Display>(message: T) -> ShapeError {
        ShapeError { message: message.to_string(), steps: Vec::new() }
    }
}

/// A value to be read into a shape.
pub(crate) struct Written<'de>(pub(crate) &'de Node);

impl<'de> Deserializer<'de> for Written<'de> {
    type Error = ShapeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        match &self.0.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(truth) => visitor.visit_bool(*truth),
            Value::Int(number) => match u64::try_from(*number) {
                Ok(number) => visitor.visit_u64(number),
                Err(_) => visitor.visit_i64(*number),
            },
            Value::Huge => Err(de::Error::custom("the number is too large")),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Str(text) => visitor.visit_borrowed_str(text),
            Value::Seq(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            Value::Map(map) => {
                visitor.visit_map(Fields { rest: map.entries().iter(), value: None })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        match self.0.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        match &self.0.value {
            Value::Str(text) => {
                let word: de::value::StrDeserializer<'_, ShapeError> = (**text).into_deserializer();
                word.deserialize_enum(name, variants, visitor)
            }
            _ => Err(de::Error::custom("expected text")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Items<'de>(std::iter::Enumerate<slice::Iter<'de, Node>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = ShapeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ShapeError> {
        let Some((index, item)) = self.0.next() else { return Ok(None) };
        seed.deserialize(Written(item))
            .map(Some)
            .map_err(|error| error.below(Segment::Index(index)))
    }
}

struct Fields<'de> {
    rest: slice::Iter<'de, Entry>,
    value: Option<&'de Entry>,
}

impl Entry {
    fn step(&self) -> Segment {
        Segment::Key(self.key.to_string().into())
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = ShapeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ShapeError> {
        let Some(entry) = self.rest.next() else { return Ok(None) };
        self.value = Some(entry);
        let key = de::value::BorrowedStrDeserializer::new(&entry.key);
        seed.deserialize(key).map(Some).map_err(|error: ShapeError| error.below(entry.step()))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ShapeError> {
        let Some(entry) = self.value.take() else {
            return Err(de::Error::custom("a value was asked for before its name"));
        };
        seed.deserialize(Written(&entry.node)).map_err(|error| error.below(entry.step()))
    }
}
