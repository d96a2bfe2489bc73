//! Objects: fields unknown, missing, or not allowed together.

use super::rule::{Others, Rule};
use super::{Name, Place, Walk};
use crate::diagnostic::Diagnostic;
use crate::node::{Entry, Map, Node};
use crate::source::Span;
use crate::text::quoted;
use crate::words::{cut, either, nearest, ticked};

impl<'a> Walk<'a> {
    pub(super) fn object(
        &mut self,
        rule: &'a Rule,
        map: &'a Map,
        node: &'a Node,
        place: Place<'a>,
    ) {
        for entry in map.entries() {
            let below =
                Place { name: Name::Field(&entry.key), key_span: entry.key_span, help: None };
            match rule.field(&entry.key) {
                Some(id) => self.node(id, &entry.node, below),
                None => match rule.others {
                    Others::Any => {}
                    Others::None => self.unknown(rule, entry),
                    Others::Of { name, value } => {
                        if let Some(name) = name {
                            let rule = self.rules.resolved(name);

                            self.name(rule, entry, below);
                        }
                        self.node(value, &entry.node, below);
                    }
                },
            }
        }
        let at = beginning(node, place);
        for name in rule.required.iter().filter(|name| map.get(name).is_none()) {
            self.fault(place, at, || match place.name {
                Name::Root => format!("`{name}` is missing"),
                _ => format!("{} lacks `{name}`", place.name),
            });
        }
        for (name, needed) in &rule.needs {
            if let Some(entry) = map.get(name)
                && map.get(needed).is_none()
            {
                self.fault(place, entry.key_span, || {
                    format!("`{name}` needs `{needed}` beside it")
                });
            }
        }
        if map.entries().len() < rule.min_fields {
            self.fault(place, at, || format!("{} says nothing", place.name));
        }
        self.exclusive(rule, map, at, place);
    }

    /// Fields of which exactly one, or at most one, may be written.
    fn exclusive(&mut self, rule: &'a Rule, map: &'a Map, at: Span, place: Place<'a>) {
        let names = |fields: &'a [Box<str>]| fields.iter().map(|name| &**name);
        for fields in [&rule.one_of, &rule.not_both] {
            let mut written = fields.iter().filter_map(|name| map.get(name));
            if let (Some(_), Some(second)) = (written.next(), written.next()) {
                self.fault(place, second.key_span, || {
                    format!("write {}, and not both", either(names(fields)))
                });
            }
        }
        if !rule.one_of.is_empty() && !rule.one_of.iter().any(|name| map.get(name).is_some()) {
            self.fault(place, at, || {
                format!("{} lacks {}", place.name, either(names(&rule.one_of)))
            });
        }
    }

    fn name(&mut self, rule: &'a Rule, entry: &'a Entry, place: Place<'a>) {
        if let Some(check) = rule.check
            && let Err(right) = check(&entry.key)
        {
            self.fault(place, entry.key_span, || {
                format!("{} is not a name: {right}", quoted(&entry.key))
            });
        }
    }

    fn unknown(&mut self, rule: &'a Rule, entry: &'a Entry) {
        let known = || rule.fields.iter().map(|(name, _)| &**name);
        self.faults.push_error(|| {
            let key = cut(&entry.key);
            if let Some((_, whose)) = rule.misplaced.iter().find(|(name, _)| *name == entry.key) {
                let message = format!("`{key}` has no place here: {whose}");
                return Diagnostic::error(entry.key_span, message);
            }
            let meant = nearest(&entry.key, known())
                .map_or(String::new(), |name| format!(", did you mean `{name}`?"));
            Diagnostic::error(entry.key_span, format!("unknown field `{key}`{meant}"))
                .with_help(format!("the fields here are {}", ticked(known())))
        });
    }
}

/// Where to say that an object lacks something: at its name, else at its first character.
fn beginning(node: &Node, place: Place<'_>) -> Span {
    match place.name {
        Name::Field(_) => place.key_span,
        Name::Root | Name::Item(..) => Span { end: node.span.start + 1, ..node.span },
    }
}
