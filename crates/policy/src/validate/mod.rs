//! The tree is held against the schema, and every fault is told.
//!
//! A schema is compiled into [`rule`]s once; a walk over the tree then looks up nothing by text but the names of
//! fields. A keyword that the rules do not know makes the schema unusable instead of being ignored, so that what
//! the schema says and what is checked cannot drift apart.

mod compile;
mod object;
mod rest;
mod rule;
mod value;

pub(crate) use rule::{Rules, UnknownKeyword};

use rest::{Changes, Rest, STATEMENTS};
use rule::{Rule, RuleId};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::doubts::Doubts;
use crate::node::{Node, Value};
use crate::source::{Source, Span};
use crate::text::quoted;

/// What can be read of a tree all the same, where something is wrong with it.
pub(crate) struct Readable {
    pub(crate) root: Node,
    /// What it lacks.
    pub(crate) doubts: Doubts,
}

/// Everything that is structurally wrong with `root` is pushed to `faults`; what is right about it is returned, if anything is.
pub(crate) fn validate(
    rules: &Rules,
    source: &Source,
    root: &Node,
    faults: &mut Diagnostics,
) -> Option<Readable> {
    let place =
        Place { name: Name::Root, key_span: root.span, help: None, is_optional: false, level: 0 };
    let mut walk = Walk { rules, source, faults, doubts: Doubts::default() };
    let root = match walk.node(rules.root(), root, place) {
        Rest::Whole => root.clone(),
        Rest::Part(part) => part.node,
        Rest::Nothing => return None,
    };
    Some(Readable { root, doubts: walk.doubts })
}

struct Walk<'a> {
    rules: &'a Rules,
    source: &'a Source,
    faults: &'a mut Diagnostics,
    doubts: Doubts,
}

/// What messages call a value, and where its name stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    name: Name<'a>,
    key_span: Span,
    /// What the schema adds to any fault here.
    help: Option<&'a str>,
    /// Whether it may be left out.
    is_optional: bool,
    /// In how many objects it stands whose fields have names of ours.
    level: u8,
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
    fn node(&mut self, id: RuleId, node: &'a Node, place: Place<'a>) -> Rest {
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
            self.wrong_kind(rule, node, place);
            return Rest::Nothing;
        }
        match &node.value {
            Value::Null | Value::Bool(_) => Rest::Whole,
            Value::Int(_) | Value::Huge | Value::Float(_) => self.number(rule, node, place),
            Value::Str(text) => self.text(rule, text, node, place),
            Value::Seq(items) => self.list(rule, items, node, place),
            Value::Map(map) => self.object(rule, map, node, place),
        }
    }

    /// The choice that is of the value's kind is the one meant; its faults are the ones told.
    fn choice(&mut self, rule: &'a Rule, node: &'a Node, place: Place<'a>) -> Rest {
        let is_meant = |&&id: &&RuleId| self.rules.resolved(id).kinds.contains(node);
        let Some(&meant) = rule.choices.iter().find(is_meant) else {
            self.wrong_kind(rule, node, place);
            return Rest::Nothing;
        };
        match &node.value {
            // Another word is as likely to be meant for one of the other choices.
            Value::Str(text) if !self.rules.resolved(meant).allows_word(text) => {
                let rules = self.rules;
                self.fault(place, node.span, || {
                    format!("{} is {}: write {}", place.name, quoted(text), rules.expected(rule))
                });
                Rest::Nothing
            }
            _ => self.node(meant, node, place),
        }
    }

    fn list(
        &mut self,
        rule: &'a Rule,
        items: &'a [Node],
        node: &'a Node,
        place: Place<'a>,
    ) -> Rest {
        let mut is_right = items.len() >= rule.min_items;
        if !is_right {
            self.fault(place, node.span, || {
                format!("{} is empty: write at least one item, or leave it out", place.name)
            });
        }
        let Some(item_rule) = rule.items else { return Rest::whole_if(is_right) };
        let list = match place.name {
            Name::Field(key) => key,
            Name::Root | Name::Item(..) => "",
        };
        let mut changes = Changes::new();
        for (index, item) in items.iter().enumerate() {
            let name = Name::Item(list, index);
            let below = Place { name, key_span: item.span, help: None, is_optional: true, ..place };
            match self.node(item_rule, item, below) {
                Rest::Whole => {}
                Rest::Part(part) => changes.push((index, Some(part.node))),
                Rest::Nothing => {
                    is_right = false;
                    changes.push((index, None));
                }
            }
        }
        match (is_right, changes.is_empty()) {
            (false, _) if place.level >= STATEMENTS => Rest::Nothing,
            (_, true) => Rest::whole_if(is_right),
            _ => Rest::of_list(node.span, items, changes),
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
