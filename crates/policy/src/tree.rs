//! Events become a tree of [`Node`]s.
//!
//! They are folded on an explicit stack, so that depth costs no call stack, and everything is bounded: how
//! deep, how many values, and how much aliases may repeat.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use granit_parser::{Event, ScalarStyle, Tag};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::node::{Entry, Map, Node, Repeated, Value};
use crate::scalar;
use crate::source::{Source, Span};

/// So deep may lists and objects stand in one another; the schema needs six.
pub(crate) const MAX_DEPTH: usize = 64;

/// So many values may a file have: twice what the largest file of tenants with a limit each has.
const MAX_VALUES: usize = 1_000_000;

/// So many values may aliases repeat.
const MAX_REPEATED: usize = 100_000;

/// So many values may have an anchor, each of which is kept until the end.
const MAX_ANCHORS: usize = 10_000;

/// So many names of fields are kept to be shared by all fields of that name; a policy has some sixty.
const MAX_NAMES: usize = 256;

/// A tree in the making.
pub(crate) struct Tree<'a> {
    source: &'a Source,
    faults: &'a mut Diagnostics,
    open: Vec<Open>,
    anchors: HashMap<usize, Grown>,
    names: HashSet<Arc<str>>,
    values: usize,
    repeated: usize,
    documents: usize,
    root: Option<Node>,
}

/// A list or object whose end has not come.
struct Open {
    start: usize,
    anchor: usize,
    weight: usize,
    height: usize,
    content: Content,
}

enum Content {
    Seq(Vec<Node>),
    Map { entries: Vec<Entry>, key: Option<(Arc<str>, Span)> },
}

/// A value with what an alias of it costs.
#[derive(Clone)]
struct Grown {
    node: Node,
    /// How many values it has; long text counts as several, because it takes longer to look at.
    weight: usize,
    height: usize,
}

type Taken = Result<(), Diagnostic>;

impl<'a> Tree<'a> {
    pub(crate) fn new(source: &'a Source, faults: &'a mut Diagnostics) -> Tree<'a> {
        Tree {
            source,
            faults,
            open: Vec::new(),
            anchors: HashMap::new(),
            names: HashSet::new(),
            values: 0,
            repeated: 0,
            documents: 0,
            root: None,
        }
    }

    pub(crate) fn finish(self) -> Option<Node> {
        self.root
    }

    /// The next event; an error ends the reading, because nothing after it could be understood.
    pub(crate) fn take(&mut self, event: Event<'_>, span: Span) -> Taken {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Diagnostic::error(span, "a second document begins here")
                        .with_help(
                            "one file is one document: remove `---` or move it to another file",
                        ));
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                untagged(tag.as_deref(), span)?;
                if self.awaits_key() {
                    return self.key(&text, style, span);
                }
                let value = match style {
                    ScalarStyle::Plain => scalar::resolve(&text),
                    _ => Value::Str(text.into()),
                };
                let weight = 1 + (span.end - span.start) as usize / 64;
                self.grown(Grown { node: Node { span, value }, weight, height: 0 }, anchor)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.begin(Content::Seq(Vec::new()), anchor, tag.as_deref(), span)?;
            }
            Event::MappingStart(_, anchor, tag) => {
                let content = Content::Map { entries: Vec::new(), key: None };
                self.begin(content, anchor, tag.as_deref(), span)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span)?,
            Event::Alias(anchor) => self.alias(anchor, span)?,
            _ => {}
        }
        Ok(())
    }

    fn awaits_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { content: Content::Map { key: None, .. }, .. }))
    }

    fn key(&mut self, text: &str, style: ScalarStyle, span: Span) -> Taken {
        if style == ScalarStyle::Plain {
            match text {
                "<<" => {
                    return Err(Diagnostic::error(span, "merge keys are not understood here")
                        .with_help(
                            "write the fields out, or repeat a whole value by an alias (`*name`)",
                        ));
                }
                "" => return Err(Diagnostic::error(span, "a field's name is missing before `:`")),
                _ => {}
            }
        }
        let name = self.name(text);
        if let Some(Open { content: Content::Map { key, .. }, .. }) = self.open.last_mut() {
            *key = Some((name, span));
        }
        Ok(())
    }

    fn name(&mut self, text: &str) -> Arc<str> {
        if let Some(name) = self.names.get(text) {
            return Arc::clone(name);
        }
        let name = Arc::from(text);
        if self.names.len() < MAX_NAMES {
            self.names.insert(Arc::clone(&name));
        }
        name
    }

    fn begin(&mut self, content: Content, anchor: usize, tag: Option<&Tag>, span: Span) -> Taken {
        untagged(tag, span)?;
        if self.awaits_key() {
            return Err(not_a_name(span));
        }
        self.open.push(Open { start: span.start as usize, anchor, weight: 1, height: 1, content });
        Ok(())
    }

    fn end(&mut self, span: Span) -> Taken {
        let Some(Open { start, anchor, weight, height, content }) = self.open.pop() else {
            return Ok(());
        };
        let (value, last) = match content {
            Content::Seq(items) => {
                let last = items.last().map(|item| item.span.end);
                (Value::Seq(items.into()), last)
            }
            Content::Map { entries, .. } => {
                let last = entries.last().map(|entry| entry.node.span.end.max(entry.key_span.end));
                let (map, repeated) = Map::new(entries);
                for Repeated { first, again } in repeated {
                    let [first, again] = [first, again].map(|at| &map.entries()[at]);
                    let source = self.source;
                    self.faults.push_error(|| {
                        let line = source.position(first.key_span).line;
                        let message = format!("`{}` is written twice", again.key);
                        Diagnostic::error(again.key_span, message)
                            .with_help(format!("it stands in line {line} already: remove one"))
                    });
                }
                (Value::Map(Arc::new(map)), last)
            }
        };
        // A block ends where its last value does, and not where the parser noticed.
        let is_flow = span.end > span.start;
        let end = if is_flow { span.end as usize } else { last.map_or(start, |end| end as usize) };
        let node = Node { span: Span::new(start, end), value };
        self.grown(Grown { node, weight, height }, anchor)
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Taken {
        if self.awaits_key() {
            return Err(not_a_name(span));
        }
        let Some(mut again) = self.anchors.get(&anchor).cloned() else {
            return Err(Diagnostic::error(span, "this alias stands inside the value it repeats"));
        };
        if self.open.len() + again.height > MAX_DEPTH {
            return Err(too_deep(span));
        }
        self.repeated = self.repeated.saturating_add(again.weight);
        if self.repeated > MAX_REPEATED {
            let message = format!("aliases repeat more than {MAX_REPEATED} values up to here");
            return Err(Diagnostic::error(span, message)
                .with_help("write what differs out; a plan gives many tenants the same limits"));
        }
        again.node.span = span;
        self.grown(again, 0)
    }

    /// Puts a whole value where it belongs.
    fn grown(&mut self, grown: Grown, anchor: usize) -> Taken {
        if anchor != 0 {
            if self.anchors.len() >= MAX_ANCHORS {
                let message = format!("there are more than {MAX_ANCHORS} anchors up to here");
                return Err(Diagnostic::error(grown.node.span, message)
                    .with_help("name only what an alias repeats"));
            }
            self.anchors.insert(anchor, grown.clone());
        }
        self.values += 1;
        if self.values > MAX_VALUES {
            let message = format!("there are more than {MAX_VALUES} values up to here");
            return Err(Diagnostic::error(grown.node.span, message)
                .with_help("tenants and keys can also be made by the API"));
        }
        let Some(parent) = self.open.last_mut() else {
            self.root.get_or_insert(grown.node);
            return Ok(());
        };
        parent.weight = parent.weight.saturating_add(grown.weight);
        parent.height = parent.height.max(grown.height + 1);
        match &mut parent.content {
            Content::Seq(items) => items.push(grown.node),
            Content::Map { entries, key } => {
                if let Some((key, key_span)) = key.take() {
                    entries.push(Entry { key, key_span, node: grown.node });
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn too_deep(span: Span) -> Diagnostic {
    Diagnostic::error(span, format!("this stands deeper than {MAX_DEPTH} levels"))
        .with_help("nothing here needs more than six: look for a bracket that is not closed")
}

fn not_a_name(span: Span) -> Diagnostic {
    Diagnostic::error(span, "a field's name must be text, and not a list, an object or an alias")
}

fn untagged(tag: Option<&Tag>, span: Span) -> Taken {
    match tag {
        None => Ok(()),
        Some(tag) => Err(Diagnostic::error(
            span,
            format!("the tag `{}` has no meaning here", tag.original()),
        )
        .with_help("write the value alone; quotes make it text")),
    }
}
