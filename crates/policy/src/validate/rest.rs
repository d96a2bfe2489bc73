//! What is left of a tree without what is wrong in it.
//!
//! Sections, and the tenants, routes, plans, keys and upstreams in them, stand for themselves: they lose the field that is wrong, or
//! the item. Whatever is below them is one statement, such as a limit: with a wrong figure it says nothing. To lose less
//! would make up what nobody wrote, as a limit whose misspelled burst were its rate.

use std::sync::Arc;

use crate::node::{Entry, Map, Node, Value};
use crate::source::Span;

/// Above this level an object loses a field; from it on it is gone as a whole.
pub(super) const STATEMENTS: u8 = 2;

/// What is left of one value.
pub(super) enum Rest {
    /// All of it.
    Whole,
    /// This much.
    Part(Part),
    /// Nothing.
    Nothing,
}

/// A value without what was wrong in it.
pub(super) struct Part {
    pub(super) node: Node,
    /// Whether items are gone, which others may name.
    pub(super) lacks_items: bool,
}

/// What is changed or left out of a list or object, by place.
pub(super) type Changes<T> = Vec<(usize, Option<T>)>;

impl Rest {
    pub(super) fn whole_if(is_right: bool) -> Rest {
        if is_right { Rest::Whole } else { Rest::Nothing }
    }

    pub(super) fn of_list(span: Span, items: &[Node], changes: Changes<Node>) -> Rest {
        let lacks_items = changes.iter().any(|(_, new)| new.is_none());
        let value = Value::Seq(changed(items, changes).into());
        Rest::Part(Part { node: Node { span, value }, lacks_items })
    }

    pub(super) fn of_object(
        span: Span,
        map: &Map,
        changes: Changes<Entry>,
        is_short: bool,
    ) -> Rest {
        let (map, _) = Map::new(changed(map.entries(), changes));
        let value = Value::Map(Arc::new(map));
        Rest::Part(Part { node: Node { span, value }, lacks_items: is_short })
    }
}

fn changed<T: Clone>(all: &[T], changes: Changes<T>) -> Vec<T> {
    let mut changes = changes.into_iter().peekable();
    let mut left = Vec::with_capacity(all.len());
    for (at, one) in all.iter().enumerate() {
        match changes.next_if(|(changed, _)| *changed == at) {
            Some((_, new)) => left.extend(new),
            None => left.push(one.clone()),
        }
    }
    left
}
