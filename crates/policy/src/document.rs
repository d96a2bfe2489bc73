//! A file that has been read: its text and its tree.

use crate::node::{Node, Value};
use crate::path::{Path, Segment};
use crate::source::{Source, Span};

/// A file that has been read. It outlives the shapes made of it, so that a later check can say where in the
/// file a thing stands. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Document {
    source: Source,
    root: Node,
}

impl Document {
    pub(crate) fn new(source: Source, root: Node) -> Document {
        Document { source, root }
    }

    /// The text.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The tree.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The value at `path`, if the file has one.
    pub fn get(&self, path: &Path) -> Option<&Node> {
        let steps = path.segments();
        let (node, _, reached) = self.walk(steps);
        (reached == steps.len()).then_some(node)
    }

    /// Where the value at `path` stands; if the file leaves it out, where the nearest value around it does.
    pub fn span_of(&self, path: &Path) -> Span {
        self.walk(path.segments()).0.span
    }

    /// Where the name of the field at `path` stands; of an item of a list, the item itself. If the file leaves
    /// it out, the nearest field around it.
    pub fn key_span_of(&self, path: &Path) -> Span {
        self.walk(path.segments()).1
    }

    /// The last value on the way, the span of its name, and after how many steps it was reached.
    fn walk(&self, steps: &[Segment]) -> (&Node, Span, usize) {
        let mut node = &self.root;
        let mut name = node.span;
        for (reached, step) in steps.iter().enumerate() {
            let next = match (step, &node.value) {
                (Segment::Key(key), Value::Map(map)) => {
                    map.get(key).map(|entry| (&entry.node, entry.key_span))
                }
                (Segment::Index(index), Value::Seq(items)) => {
                    items.get(*index).map(|item| (item, item.span))
                }
                _ => None,
            };
            match next {
                Some((below, below_name)) => (node, name) = (below, below_name),
                None => return (node, name, reached),
            }
        }
        (node, name, steps.len())
    }
}
