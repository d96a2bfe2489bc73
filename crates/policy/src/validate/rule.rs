//! A schema, compiled.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value as Json;

use super::compile::Compiler;
use crate::node::{Node, Value};
use crate::text::Check;
use crate::words::{either, ticked};

/// The place of a [`Rule`] in its [`Rules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RuleId(pub(super) usize);

/// A whole schema.
#[derive(Debug)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    root: RuleId,
}

impl Rules {
    /// The rules of `schema`, or what it says that they do not know.
    pub(crate) fn of(schema: &Json) -> Result<Rules, UnknownKeyword> {
        Compiler::compile(schema)
    }

    pub(super) fn new(rules: Vec<Rule>, root: RuleId) -> Rules {
        Rules { rules, root }
    }

    /// What is to be written where nothing is.
    pub(crate) fn at_least(&self) -> String {
        let root = self.resolved(self.root);
        let fields = ticked(root.fields.iter().map(|(name, _)| &**name));
        match &root.required[..] {
            [] => format!("write an object; its fields are {fields}"),
            all => {
                let all = ticked(all.iter().map(|name| &**name));
                format!("write an object with {all}; its fields are {fields}")
            }
        }
    }

    pub(super) fn root(&self) -> RuleId {
        self.root
    }

    pub(super) fn get(&self, id: RuleId) -> &Rule {
        &self.rules[id.0]
    }

    /// The rule that says what `id` refers to.
    pub(super) fn resolved(&self, id: RuleId) -> &Rule {
        let rule = self.get(id);
        rule.reference.map_or(rule, |target| self.resolved(target))
    }

    /// What `rule` allows, for "expected …".
    pub(super) fn expected(&self, rule: &Rule) -> String {
        if !rule.choices.is_empty() {
            let choices = rule.choices.iter().map(|&id| self.expected(self.resolved(id)));
            return choices.collect::<Vec<_>>().join(" or ");
        }
        if !rule.words.is_empty() {
            return either(rule.words.iter().map(|word| &**word));
        }
        let kinds = rule.kinds.names().collect::<Vec<_>>().join(" or ");
        match &rule.range {
            Some((low, high)) => format!("{kinds} from {low} to {high}"),
            None => kinds,
        }
    }
}

/// What a schema says of one value.
#[derive(Debug, Default)]
pub(super) struct Rule {
    /// Everything is said by another.
    pub(super) reference: Option<RuleId>,
    pub(super) help: Option<String>,
    pub(super) kinds: Kinds,
    pub(super) choices: Vec<RuleId>,
    pub(super) range: Option<(Bound, Bound)>,
    pub(super) check: Option<Check>,
    /// What stands here may be or hold a secret.
    pub(super) is_secret: bool,
    pub(super) words: Vec<Box<str>>,
    pub(super) items: Option<RuleId>,
    pub(super) min_items: usize,
    pub(super) fields: Vec<(Box<str>, RuleId)>,
    pub(super) others: Others,
    pub(super) required: Vec<Box<str>>,
    pub(super) needs: Vec<(Box<str>, Box<str>)>,
    pub(super) min_fields: usize,
    pub(super) one_of: Vec<Box<str>>,
    pub(super) not_both: Vec<Box<str>>,
    /// Fields that stand elsewhere, and where.
    pub(super) misplaced: Vec<(std::sync::Arc<str>, String)>,
}

/// What becomes of fields that are not named.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Others {
    #[default]
    Any,
    None,
    Of {
        name: Option<RuleId>,
        value: RuleId,
    },
}

/// One end of a range, as the schema writes it.
#[derive(Debug)]
pub(super) struct Bound {
    number: Number,
    written: String,
}

/// A figure: doubles alone would call 2⁵³ + 1 equal to 2⁵³.
#[derive(Clone, Copy, Debug)]
enum Number {
    Whole(i64),
    Other(f64),
}

impl Bound {
    pub(super) fn of(json: &Json) -> Option<Bound> {
        let number = match json.as_i64() {
            Some(whole) => Number::Whole(whole),
            None => Number::Other(json.as_f64()?),
        };
        Some(Bound { number, written: json.to_string() })
    }

    /// How `value` compares to it; `None` for what is no finite number of 64 bits.
    pub(super) fn compared(&self, value: &Value) -> Option<Ordering> {
        match (value, self.number) {
            (Value::Int(number), Number::Whole(bound)) => Some(number.cmp(&bound)),
            (Value::Int(number), Number::Other(bound)) => (*number as f64).partial_cmp(&bound),
            (Value::Float(number), Number::Whole(bound)) => number.partial_cmp(&(bound as f64)),
            (Value::Float(number), Number::Other(bound)) => number.partial_cmp(&bound),
            _ => None,
        }
    }
}

impl Rule {
    /// Whether `text` is one of the words, or any text is.
    pub(super) fn allows_word(&self, text: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| **word == *text)
    }

    pub(super) fn requires(&self, name: &str) -> bool {
        self.required.iter().any(|field| **field == *name)
    }

    pub(super) fn field(&self, name: &str) -> Option<RuleId> {
        self.fields.iter().find(|(field, _)| **field == *name).map(|&(_, id)| id)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// Which kinds of value are allowed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kinds {
    pub(super) null: bool,
    pub(super) boolean: bool,
    pub(super) integer: bool,
    pub(super) number: bool,
    pub(super) text: bool,
    pub(super) list: bool,
    pub(super) object: bool,
}

impl Kinds {
    pub(super) fn contains(self, node: &Node) -> bool {
        match node.value {
            Value::Null => self.null,
            Value::Bool(_) => self.boolean,
            Value::Int(_) | Value::Huge => self.integer || self.number,
            Value::Float(number) => self.number && number.is_finite(),
            Value::Str(_) => self.text,
            Value::Seq(_) => self.list,
            Value::Map(_) => self.object,
        }
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        [
            (self.null, "null"),
            (self.boolean, "true or false"),
            (self.integer, "an integer"),
            (self.number, "a number"),
            (self.text, "text"),
            (self.list, "a list"),
            (self.object, "an object"),
        ]
        .into_iter()
        .filter_map(|(is_allowed, name)| is_allowed.then_some(name))
    }

    pub(super) fn set(&mut self, name: &str) -> Option<()> {
        let kind = match name {
            "null" => &mut self.null,
            "boolean" => &mut self.boolean,
            "integer" => &mut self.integer,
            "number" => &mut self.number,
            "string" => &mut self.text,
            "array" => &mut self.list,
            "object" => &mut self.object,
            _ => return None,
        };
        *kind = true;
        Some(())
    }
}

/// A schema says something that the rules do not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownKeyword(pub(super) String);

impl fmt::Display for UnknownKeyword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the schema says {}, which is not understood", self.0)
    }
}
