//! Text becomes events; [`tree`](crate::tree) makes a tree of them.

use granit_parser::{ErrorKind, Options, Parser, ScanError};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::node::{Node, Value};
use crate::source::{Source, Span};
use crate::tree::{MAX_DEPTH, Tree, too_deep};

/// The tree of `source`, which is nothing where nothing is written; `None` if it has none, with the reason in `faults`.
pub(crate) fn parse(source: &Source, faults: &mut Diagnostics) -> Option<Node> {
    let mut options = Options::default();
    options.flow_nesting_limit = MAX_DEPTH;
    options.block_nesting_limit = MAX_DEPTH;
    let mut events = Parser::new_from_str_with_options(source.text(), options);
    let mut tree = Tree::new(source, faults);
    while let Some(next) = events.next_event() {
        let taken = match next {
            Ok((event, span)) => {
                let bytes = span.byte_range().unwrap_or_default();
                tree.take(event, Span::new(bytes.start, bytes.end))
            }
            Err(error) => Err(syntax(source, &error)),
        };
        if let Err(fault) = taken {
            faults.push(fault);
            faults.hide_more();
            return None;
        }
    }
    Some(tree.finish().unwrap_or(Node { span: Span::default(), value: Value::Null }))
}

fn syntax(source: &Source, error: &ScanError) -> Diagnostic {
    let at = error.marker().byte_offset().unwrap_or_default();
    let span = Span::new(at, at + 1);
    if *error.kind() == ErrorKind::RecursionLimitExceeded {
        return too_deep(span);
    }
    let fault = Diagnostic::error(span, format!("this is not YAML: {}", error.info()));
    let (_, line_start) = source.line_of(span);
    let is_blank = |c: char| c == ' ' || c == '\t';
    let indentation = source.line_at(line_start).split(|c| !is_blank(c)).next();
    if indentation.is_some_and(|blanks| blanks.contains('\t')) {
        return fault.with_help("indent with spaces: YAML does not allow tabs there");
    }
    fault
}
