//! From bytes to a shape, or to everything that is wrong with them.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::compile::{Names, beyond_shape};
use crate::de::{ShapeError, Written};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::document::Document;
use crate::doubts::Doubts;
use crate::node::Value;
use crate::parse::parse;
use crate::schema::{schema, schema_of};
use crate::shapes::File;
use crate::source::{Source, Span};
use crate::validate::{Readable, Rules, UnknownKeyword, validate};

/// A shape and the text it was read from.
#[derive(Clone, Debug)]
pub struct Loaded<T = File> {
    /// What the text says.
    pub value: T,
    /// The text, to say where things stand in it.
    pub document: Document,
}

/// A text that cannot be used.
pub(crate) struct Unread<T = File> {
    /// What is wrong with its shape.
    pub(crate) faults: Diagnostics,
    /// What can be looked at without that.
    pub(crate) rest: Option<Box<Rest<T>>>,
}

/// What is right about the shape of a text.
pub(crate) struct Rest<T> {
    pub(crate) loaded: Loaded<T>,
    /// What it lacks.
    pub(crate) doubts: Doubts,
}

/// Reads a configuration file. `name` is what diagnostics call it.
///
/// Of a file whose shape is wrong everything is told that is wrong besides, but for tenants and plans that it does not declare:
/// the API may have made them.
///
/// ```
/// let loaded = tollgate_policy::load("tollgate.yaml", b"
/// upstreams:
///   api: { url: \"http://127.0.0.1:3000\" }
/// routes:
///   - { path: /*, upstream: api }
/// ")?;
/// assert_eq!(loaded.value.routes[0].upstream.as_str(), "api");
///
/// let faults = tollgate_policy::load("tollgate.yaml", b"
/// tenants:
///   - { id: acme, rate_limit: { sustaned: { rate: 0 } } }
/// ").unwrap_err();
/// let told: Vec<_> = faults.records().map(|r| (r.line, r.column, r.message)).collect();
/// assert_eq!(told, [
///     (3, 17, "`rate_limit` lacks `sustained`"),
///     (3, 31, "unknown field `sustaned`, did you mean `sustained`?"),
/// ]);
/// # Ok::<(), tollgate_policy::Diagnostics>(())
/// ```
pub fn load(name: &str, text: &[u8]) -> Result<Loaded, Diagnostics> {
    load_file(name, text).map_err(|unread| beyond_shape(unread, Names::SomeElsewhere).diagnostics)
}

/// As [`load`], but for what is wrong beyond the shape.
pub(crate) fn load_file(name: &str, text: &[u8]) -> Result<Loaded, Unread> {
    static RULES: LazyLock<Result<Rules, UnknownKeyword>> = LazyLock::new(|| Rules::of(&schema()));
    let at_least =
        |_: &Rules| "write at least one section, such as `upstreams` or `routes`".to_owned();
    read(name, text, RULES.as_ref(), at_least)
}

/// Reads one shape, such as the tenant that an API call brings, by the same rules as the file it might stand in.
pub fn load_fragment<T>(name: &str, text: &[u8]) -> Result<Loaded<T>, Diagnostics>
where
    T: JsonSchema + DeserializeOwned,
{
    let rules = Rules::of(&schema_of::<T>());
    read(name, text, rules.as_ref(), Rules::at_least).map_err(|unread| unread.faults)
}

fn read<T: DeserializeOwned>(
    name: &str,
    text: &[u8],
    rules: Result<&Rules, &UnknownKeyword>,
    at_least: impl Fn(&Rules) -> String,
) -> Result<Loaded<T>, Unread<T>> {
    let nothing_of = |faults| Unread { faults, rest: None };
    let source = match Source::read(name, text) {
        Ok(source) => source,
        Err((shown, fault)) => {
            let mut faults = Diagnostics::new(shown);
            faults.push(fault);
            return Err(nothing_of(faults));
        }
    };
    let mut faults = Diagnostics::new(source.clone());
    let Some(root) = parse(&source, &mut faults) else { return Err(nothing_of(faults)) };
    let readable = match rules {
        Ok(rules) if root.value == Value::Null => {
            let fault = Diagnostic::error(Span::default(), "there is nothing in it");
            faults.push(fault.with_help(at_least(rules)));
            return Err(nothing_of(faults));
        }
        Ok(rules) => validate(rules, &source, &root, &mut faults),
        Err(unknown) => {
            faults.push(Diagnostic::error(Span::default(), unknown.to_string()));
            None
        }
    };
    // Of so many faults that some are only counted, more need not be found.
    let Some(Readable { root, doubts }) = readable.filter(|_| !faults.is_full()) else {
        faults.hide_more();
        return Err(nothing_of(faults));
    };
    let value = T::deserialize(Written(&root)).map_err(ShapeError::into_parts);
    let document = Document::new(source, root);
    match value {
        Ok(value) if faults.is_empty() => Ok(Loaded { value, document }),
        Ok(value) => {
            let loaded = Loaded { value, document };
            Err(Unread { faults, rest: Some(Box::new(Rest { loaded, doubts })) })
        }
        Err((path, message)) => {
            if faults.is_empty() {
                faults.push(Diagnostic::error(document.span_of(&path), message));
            }
            faults.hide_more();
            Err(nothing_of(faults))
        }
    }
}
