//! Objects: fields unknown, missing, or not allowed together.

use super::rest::{Changes, Rest, STATEMENTS};
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
    ) -> Rest {
        let has_names_of_ours = !matches!(rule.others, Others::Of { .. });
        let is_statement = has_names_of_ours && place.level >= STATEMENTS;
        let level = place.level + u8::from(has_names_of_ours);
        let mut changes = Changes::new();
        let (mut is_right, mut is_short) = (self.has_all(rule, map, node, place), false);
        for (at, entry) in map.entries().iter().enumerate() {
            let name = Name::Field(&entry.key);
            let is_optional = !rule.requires(&entry.key);
            let below = Place { name, key_span: entry.key_span, help: None, is_optional, level };
            let mut meant = Some(&*entry.key);
            let mut rest = match (rule.field(&entry.key), rule.others) {
                (Some(id), _) => self.node(id, &entry.node, below),
                (None, Others::Any) => Rest::Whole,
                (None, Others::None) => {
                    meant = self.unknown(rule, entry);
                    Rest::Nothing
                }
                (None, Others::Of { name, value }) => {
                    let is_name = name.is_none_or(|name| {
                        let rule = self.rules.resolved(name);
                        self.name(rule, entry, below)
                    });
                    let rest = self.node(value, &entry.node, below);
                    if is_name { rest } else { Rest::Nothing }
                }
            };
            let is_repeated = map.is_repeated(at);
            if is_repeated {
                rest = Rest::Nothing;
            }
            match rest {
                Rest::Whole => continue,
                Rest::Part(part) => {
                    if part.lacks_items {
                        self.doubt(node.span, &entry.key);
                    }
                    changes.push((at, Some(Entry { node: part.node, ..entry.clone() })));
                }
                Rest::Nothing => {
                    changes.push((at, None));
                    is_short |= !has_names_of_ours;
                    // A field that is like none here is no statement at all.
                    let Some(meant) = meant else { continue };
                    is_right &= !is_statement;
                    is_right &= is_repeated || !rule.requires(&entry.key);
                    if has_names_of_ours {
                        self.doubt(node.span, meant);
                    }
                }
            }
        }
        match (is_right, changes.is_empty()) {
            (false, _) => Rest::Nothing,
            (true, true) => Rest::Whole,
            (true, false) => Rest::of_object(node.span, map, changes, is_short),
        }
    }

    /// Whether all fields are there that it cannot do without. A section, or what stands for itself in one, can be looked at without
    /// those that are only needed together with others.
    fn has_all(&mut self, rule: &'a Rule, map: &'a Map, node: &'a Node, place: Place<'a>) -> bool {
        let mut has_required = true;
        let mut goes_together = true;
        let at = beginning(node, place);
        for name in rule.required.iter().filter(|name| map.get(name).is_none()) {
            has_required = false;
            self.fault(place, at, || match place.name {
                Name::Root => format!("`{name}` is missing"),
                _ => format!("{} lacks `{name}`", place.name),
            });
        }
        for (name, needed) in &rule.needs {
            if let Some(entry) = map.get(name)
                && map.get(needed).is_none()
            {
                goes_together = false;
                self.fault(place, entry.key_span, || {
                    format!("`{name}` needs `{needed}` beside it")
                });
            }
        }
        if map.entries().len() < rule.min_fields {
            goes_together = false;
            self.fault(place, at, || format!("{} says nothing", place.name));
        }
        goes_together &= self.exclusive(rule, map, at, place);
        has_required && (goes_together || place.level < STATEMENTS)
    }

    fn doubt(&mut self, object: Span, field: &str) {
        if !self.faults.is_full() {
            self.doubts.add(object, field);
        }
    }

    /// Fields of which exactly one, or at most one, may be written.
    fn exclusive(&mut self, rule: &'a Rule, map: &'a Map, at: Span, place: Place<'a>) -> bool {
        let mut is_right = true;
        let names = |fields: &'a [Box<str>]| fields.iter().map(|name| &**name);
        for fields in [&rule.one_of, &rule.not_both] {
            let mut written = fields.iter().filter_map(|name| map.get(name));
            if let (Some(_), Some(second)) = (written.next(), written.next()) {
                is_right = false;
                self.fault(place, second.key_span, || {
                    format!("write {}, and not both", either(names(fields)))
                });
            }
        }
        if !rule.one_of.is_empty() && !rule.one_of.iter().any(|name| map.get(name).is_some()) {
            is_right = false;
            self.fault(place, at, || {
                format!("{} lacks {}", place.name, either(names(&rule.one_of)))
            });
        }
        is_right
    }

    fn name(&mut self, rule: &'a Rule, entry: &'a Entry, place: Place<'a>) -> bool {
        let checked = rule.check.map_or(Ok(()), |check| check(&entry.key));
        let is_name = checked.is_ok();
        if let Err(right) = checked {
            self.fault(place, entry.key_span, || {
                format!("{} is not a name: {right}", quoted(&entry.key))
            });
        }
        is_name
    }

    /// Tells of a field that is not known here, and returns the one that is likely to be meant.
    fn unknown(&mut self, rule: &'a Rule, entry: &'a Entry) -> Option<&'a str> {
        let known = || rule.fields.iter().map(|(name, _)| &**name);
        let misplaced = rule.misplaced.iter().find(|(name, _)| *name == entry.key);
        // Comparing costs more than the rest of the walk, and so many faults as that are only counted.
        let near = (misplaced.is_none() && !self.faults.is_full())
            .then(|| nearest(&entry.key, known()))
            .flatten();
        self.faults.push_error(|| {
            let key = cut(&entry.key);
            if let Some((_, whose)) = misplaced {
                let message = format!("`{key}` has no place here: {whose}");
                return Diagnostic::error(entry.key_span, message);
            }
            let meant = near.map_or(String::new(), |name| format!(", did you mean `{name}`?"));
            Diagnostic::error(entry.key_span, format!("unknown field `{key}`{meant}"))
                .with_help(format!("the fields here are {}", ticked(known())))
        });
        near
    }
}

/// Where to say that an object lacks something: at its name, else at its first character.
fn beginning(node: &Node, place: Place<'_>) -> Span {
    match place.name {
        Name::Field(_) => place.key_span,
        Name::Root | Name::Item(..) => Span { end: node.span.start + 1, ..node.span },
    }
}
