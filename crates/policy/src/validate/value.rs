//! Numbers and text.

use std::cmp::Ordering;

use super::rule::Rule;
use super::{Name, Place, Rest, Walk};
use crate::diagnostic::Diagnostic;
use crate::node::{Node, Value};
use crate::text::quoted;
use crate::words::{cut, either, found, nearest};

impl<'a> Walk<'a> {
    pub(super) fn wrong_kind(&mut self, rule: &'a Rule, node: &'a Node, place: Place<'a>) {
        let (rules, source) = (self.rules, self.source);
        self.faults.push_error(|| {
            let expected = rules.expected(rule);
            let found = match &node.value {
                Value::Int(_) | Value::Huge | Value::Float(_) if rule.is_secret => {
                    "a number".to_owned()
                }
                _ => found(source, node),
            };
            let message = match place.name {
                Name::Root => format!("expected {expected}, found {found}"),
                name => format!("{name}: expected {expected}, found {found}"),
            };
            let fault = Diagnostic::error(node.span, message);
            let written = source.slice(node.span);
            let what = if matches!(place.name, Name::Item(..)) { "item" } else { "field" };
            let is_unquoted_text = rule.kinds.text && rule.words.is_empty();
            match &node.value {
                Value::Null if place.is_optional => {
                    fault.with_help(format!("write a value, or leave the {what} out"))
                }
                Value::Null => fault.with_help("write a value"),
                Value::Str(_) | Value::Seq(_) | Value::Map(_) => fault,
                _ if rule.is_secret => fault.with_help("put it in quotes"),
                _ if is_unquoted_text => fault
                    .with_help(format!("to make it text, put it in quotes: {}", quoted(written))),
                _ => fault,
            }
        });
    }

    pub(super) fn number(&mut self, rule: &'a Rule, node: &'a Node, place: Place<'a>) -> Rest {
        let Some((low, high)) = &rule.range else { return Rest::Whole };
        let is_above = low.compared(&node.value).is_some_and(Ordering::is_ge);
        let is_below = high.compared(&node.value).is_some_and(Ordering::is_le);
        let is_right = is_above && is_below;
        if !is_right {
            let written = self.source.slice(node.span);
            let what = if rule.kinds.number { "a number" } else { "an integer" };
            self.fault(place, node.span, || {
                let written = cut(written);
                format!("{} is {written}: write {what} from {low} to {high}", place.name)
            });
        }
        Rest::whole_if(is_right)
    }

    pub(super) fn text(
        &mut self,
        rule: &'a Rule,
        text: &'a str,
        node: &'a Node,
        place: Place<'a>,
    ) -> Rest {
        let mut is_right = true;
        if let Some(check) = rule.check
            && let Err(right) = check(text)
        {
            is_right = false;
            let what = || match rule.is_secret {
                true => "wrong".to_owned(),
                false => quoted(text),
            };
            self.fault(place, node.span, || format!("{} is {}: {right}", place.name, what()));
        }
        if !rule.allows_word(text) {
            is_right = false;
            let words = || rule.words.iter().map(|word| &**word);
            self.faults.push_error(|| {
                let meant = nearest(text, words())
                    .map_or(String::new(), |word| format!(", did you mean `{word}`?"));
                let message = format!("{} is {}{meant}", place.name, quoted(text));
                let help = format!("write {}", either(words()));
                Diagnostic::error(node.span, message).with_help(help)
            });
        }
        Rest::whole_if(is_right)
    }
}
