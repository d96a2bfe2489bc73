//! The tree is held against the schema, and every fault is told.
//!
//! A schema is compiled into [`rule`]s once; a walk over the tree then looks up nothing by text but the names of
//! fields. A keyword that the rules do not know makes the schema unusable instead of being ignored, so that what
//! the schema says and what is checked cannot drift apart.

mod compile;
mod object;
mod rule;
mod value;

pub(crate) use rule::{Rules, UnknownKeyword};

use rule::{Rule, RuleId};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::node::{Node, Value};
use crate::source::{Source, Span};
use crate::text::quoted;

/// Everything that is structurally wrong with `root` is pushed to `faults`.
pub(crate) fn validate(rules: &Rules, source: &Source, root: &Node, faults: &mut Diagnostics) {
    let place = Place { name: Name::Root, key_span: root.span, help: None };
    Walk { rules, source, faults }.node(rules.root(), root, place);
}

struct Walk<'a> {
    rules: &'a Rules,
    source: &'a Source,
    faults: &'a mut Diagnostics,
}

/// What messages call a value, and where its name stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    name: Name<'a>,
    key_span: Span,
    /// What the schema adds to any fault here.
    help: Option<&'a str>,
}

#[derive(Clone, Copy)]
enum Name<'a> {
    Root,
    Field(&'a str),
    Item(&'a str, usize),
}

impl std::fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Name::Root => write!(f, "this"),
            Name::Field(key) => write!(f, "`{key}`"),
            Name::Item(list, index) => write!(f, "`{list}[{index}]`"),
        }
    }
}

impl<'a> Walk<'a> {
    fn node(&mut self, id: RuleId, node: &'a Node, place: Place<'a>) {
        let rule = self.rules.get(id);
        let place = Place { help: place.help.or(rule.help.as_deref()), ..place };
        if let Some(target) = rule.reference {
            return self.node(target, node, place);
        }
        if !rule.choices.is_empty() {
            return self.choice(rule, node, place);
        }
        if rule.is_secret {
            self.faults.hide(node.span);
        }
        if !rule.kinds.contains(node) {
            return self.wrong_kind(rule, node, place);
        }
        match &node.value {
            Value::Null | Value::Bool(_) => {}
            Value::Int(_) | Value::Huge | Value::Float(_) => self.number(rule, node, place),
            Value::Str(text) => self.text(rule, text, node, place),
            Value::Seq(items) => self.list(rule, items, node, place),
            Value::Map(map) => self.object(rule, map, node, place),
        }
    }

    /// The choice that is of the value's kind is the one meant; its faults are the ones told.
    fn choice(&mut self, rule: &'a Rule, node: &'a Node, place: Place<'a>) {
        let is_meant = |&&id: &&RuleId| self.rules.resolved(id).kinds.contains(node);
        let Some(&meant) = rule.choices.iter().find(is_meant) else {
            return self.wrong_kind(rule, node, place);
        };
        match &node.value {
            // Another word is as likely to be meant for one of the other choices.
            Value::Str(text) if !self.rules.resolved(meant).allows_word(text) => {
                let rules = self.rules;
                self.fault(place, node.span, || {
                    format!("{} is {}: write {}", place.name, quoted(text), rules.expected(rule))
                });
            }
            _ => self.node(meant, node, place),
        }
    }

    fn list(&mut self, rule: &'a Rule, items: &'a [Node], node: &'a Node, place: Place<'a>) {
        if items.len() < rule.min_items {
            self.fault(place, node.span, || {
                format!("{} is empty: write at least one item, or leave it out", place.name)
            });
        }
        let Some(item_rule) = rule.items else { return };
        let list = match place.name {
            Name::Field(key) => key,
            Name::Root | Name::Item(..) => "",
        };
        for (index, item) in items.iter().enumerate() {
            let place = Place { name: Name::Item(list, index), key_span: item.span, help: None };
            self.node(item_rule, item, place);
        }
    }

    fn fault(&mut self, place: Place<'_>, span: Span, message: impl FnOnce() -> String) {
        self.faults.push_error(|| {
            let fault = Diagnostic::error(span, message());
            match place.help {
                Some(help) => fault.with_help(help),
                None => fault,
            }
        });
    }
}
