//! How messages speak.

use crate::node::{Node, Value};
use crate::secret;
use crate::source::Source;
use crate::text::quoted;

/// What `node` is, for "expected …, found …".
pub(crate) fn found(source: &Source, node: &Node) -> String {
    match &node.value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(truth) => format!("{truth}"),
        Value::Float(number) if !number.is_finite() => {
            format!("{}, which is no finite number", cut(source.slice(node.span)))
        }
        Value::Int(_) | Value::Huge | Value::Float(_) => {
            format!("the number {}", cut(source.slice(node.span)))
        }
        Value::Str(text) => format!("the text {}", quoted(text)),
        Value::Seq(_) => "a list".to_owned(),
        Value::Map(_) => "an object".to_owned(),
    }
}

/// So many characters of a text are shown.
pub(crate) const SHOWN: usize = 64;

/// `text`, cut where it is long, without secrets.
pub(crate) fn cut(text: &str) -> String {
    match secret::beginning(text, SHOWN) {
        (all, true) => all,
        (some, false) => some + "…",
    }
}

/// "`a`, `b`, `c`".
pub(crate) fn ticked<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// "`a`, `b` or `c`".
pub(crate) fn either<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let all = ticked(names);
    match all.rsplit_once(", ") {
        Some((before, last)) => format!("{before} or {last}"),
        None => all,
    }
}

/// The one of `known` that `written` is likely to mean, if any is near.
pub(crate) fn nearest<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Nobody misspells a name to several times its length, and comparing costs the product of both.
    if written.len() > 64 {
        return None;
    }
    let lower = written.to_ascii_lowercase().replace('-', "_");
    known
        .map(|name| (strsim::damerau_levenshtein(&lower, name), name))
        .filter(|&(distance, name)| distance <= name.len().max(3) / 3)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}
