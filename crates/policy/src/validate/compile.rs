//! A schema becomes rules.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

use super::rule::{Bound, Others, Rule, RuleId, Rules, UnknownKeyword};
use crate::text::{check_of, is_secret};

type Compiled<T> = Result<T, UnknownKeyword>;

pub(super) struct Compiler<'a> {
    definitions: Option<&'a Map<String, Json>>,
    /// Definitions under way or done; a reference to one under way is what makes recursion possible.
    known: HashMap<&'a str, RuleId>,
    rules: Vec<Rule>,
}

impl<'a> Compiler<'a> {
    pub(super) fn compile(schema: &'a Json) -> Compiled<Rules> {
        let definitions = schema.get("$defs").and_then(Json::as_object);
        let mut compiler = Compiler { definitions, known: HashMap::new(), rules: Vec::new() };
        let root = compiler.rule(schema)?;
        Ok(Rules::new(compiler.rules, root))
    }

    fn rule(&mut self, schema: &'a Json) -> Compiled<RuleId> {
        let place = RuleId(self.rules.len());
        self.rules.push(Rule::default());
        let rule = self.read(schema)?;
        self.rules[place.0] = rule;
        Ok(place)
    }

    fn read(&mut self, schema: &'a Json) -> Compiled<Rule> {
        let mut rule = Rule::default();
        let object = schema.as_object().ok_or_else(|| unknown("schema", schema))?;
        for (keyword, said) in object {
            let understood = self.keyword(&mut rule, keyword, said, object)?;
            understood.ok_or_else(|| unknown(keyword, said))?;
        }
        // A rule that does not say which kinds it allows says so by what it says of them.
        if let (Some(low), Some(high)) = (object.get("minimum"), object.get("maximum")) {
            rule.range = Bound::of(low).zip(Bound::of(high));
        }
        Ok(rule)
    }

    /// `None` where it is not understood.
    fn keyword(
        &mut self,
        rule: &mut Rule,
        keyword: &str,
        said: &'a Json,
        all: &'a Map<String, Json>,
    ) -> Compiled<Option<()>> {
        Ok(match keyword {
            "$schema" | "$defs" | "title" | "description" | "default" | "examples" => Some(()),
            "x-help" => said.as_str().map(|help| rule.help = Some(help.to_owned())),
            "x-misplaced" => said.as_object().map(|fields| {
                let pair = |(name, whose): (&String, &Json)| {
                    Some((name.as_str().into(), whose.as_str()?.to_owned()))
                };
                rule.misplaced = fields.iter().filter_map(pair).collect();
            }),
            "$ref" => match said.as_str() {
                Some(reference) => self.reference(reference)?.map(|id| rule.reference = Some(id)),
                None => None,
            },
            "type" => said.as_str().and_then(|name| rule.kinds.set(name)),
            "const" => match said {
                Json::Null => rule.kinds.set("null"),
                Json::String(word) => {
                    rule.words.push(word.as_str().into());
                    rule.kinds.set("string")
                }
                _ => None,
            },
            "enum" => names(said).map(|words| rule.words = words),
            // A range has both ends, so that no figure is beyond what can be counted.
            "minimum" => all.get("maximum").and_then(Bound::of).map(drop),
            "maximum" => all.get("minimum").and_then(Bound::of).map(drop),
            "format" => said.as_str().and_then(|format| {
                rule.is_secret = is_secret(format);
                check_of(format).map(|check| rule.check = Some(check))
            }),
            // What a pattern says, the check of its format says better.
            "pattern" => all.get("format").map(drop),
            "items" => {
                rule.items = Some(self.rule(said)?);
                Some(())
            }
            "minItems" => count(said).map(|least| rule.min_items = least),
            "properties" => match said.as_object() {
                Some(fields) => {
                    for (name, field) in fields {
                        rule.fields.push((name.as_str().into(), self.rule(field)?));
                    }
                    Some(())
                }
                None => None,
            },
            "required" => names(said).map(|names| rule.required = names),
            "minProperties" => count(said).map(|least| rule.min_fields = least),
            "dependentRequired" => needs(said).map(|needs| rule.needs = needs),
            "additionalProperties" if said == &Json::Bool(false) => {
                rule.others = Others::None;
                Some(())
            }
            "additionalProperties" => {
                let name = all.get("propertyNames").map(|name| self.rule(name)).transpose()?;
                rule.others = Others::Of { name, value: self.rule(said)? };
                Some(())
            }
            "propertyNames" => all.get("additionalProperties").map(drop),
            "anyOf" => match said.as_array() {
                Some(choices) => {
                    rule.choices =
                        choices.iter().map(|choice| self.rule(choice)).collect::<Compiled<_>>()?;
                    Some(())
                }
                None => None,
            },
            "oneOf" => said.as_array().and_then(|choices| one_of(rule, choices)),
            "not" => said.get("required").and_then(names).map(|names| rule.not_both = names),
            _ => None,
        })
    }

    fn reference(&mut self, reference: &'a str) -> Compiled<Option<RuleId>> {
        let Some(name) = reference.strip_prefix("#/$defs/") else { return Ok(None) };
        if let Some(&known) = self.known.get(name) {
            return Ok(Some(known));
        }
        let Some(definition) = self.definitions.and_then(|all| all.get(name)) else {
            return Ok(None);
        };
        let place = RuleId(self.rules.len());
        self.known.insert(name, place);
        self.rule(definition).map(Some)
    }
}

/// Words with a comment each, or fields of which exactly one is written.
fn one_of(rule: &mut Rule, choices: &[Json]) -> Option<()> {
    for choice in choices {
        if let Some(word) = choice.get("const") {
            rule.words.push(word.as_str()?.into());
            rule.kinds.set("string")?;
        } else if let Some(words) = choice.get("enum") {
            rule.words.extend(names(words)?);
            rule.kinds.set("string")?;
        } else {
            let [name] = names(choice.get("required")?)?.try_into().ok()?;
            rule.one_of.push(name);
        }
    }
    Some(())
}

fn needs(said: &Json) -> Option<Vec<(Box<str>, Box<str>)>> {
    let pairs = said.as_object()?.iter().map(|(name, needed)| {
        Some(names(needed)?.into_iter().map(move |needed| (name.as_str().into(), needed)))
    });
    Some(pairs.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
}

fn names(said: &Json) -> Option<Vec<Box<str>>> {
    said.as_array()?.iter().map(|name| name.as_str().map(Into::into)).collect()
}

fn count(said: &Json) -> Option<usize> {
    said.as_u64().and_then(|count| usize::try_from(count).ok())
}

fn unknown(keyword: &str, said: &Json) -> UnknownKeyword {
    UnknownKeyword(format!("`{keyword}: {said}`"))
}
