//! What is wrong with a file beyond its shape.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::document::Document;
use crate::path::Path;
use crate::words::nearest;

/// Collects faults by the path of what they are about.
#[derive(Debug)]
pub(crate) struct Faults<'d> {
    document: &'d Document,
    found: Diagnostics,
}

impl<'d> Faults<'d> {
    pub(crate) fn new(document: &'d Document) -> Faults<'d> {
        Faults { document, found: Diagnostics::new(document.source().clone()) }
    }

    /// The file cannot be used. `help` is empty where the message says what would be right.
    pub(crate) fn error(&mut self, path: &Path, message: impl Into<String>, help: &str) {
        let fault = Diagnostic::error(self.document.span_of(path), message);
        self.found.push(if help.is_empty() { fault } else { fault.with_help(help) });
    }

    /// The file can be used, but somebody should look.
    pub(crate) fn warning(&mut self, path: &Path, message: impl Into<String>, help: &str) {
        let span = self.document.span_of(path);
        self.found.push(Diagnostic::warning(span, message).with_help(help));
    }

    /// A name that is nobody's.
    pub(crate) fn unknown<'n>(
        &mut self,
        path: &Path,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'n str>,
    ) {
        let (message, help) = match nearest(name, known) {
            Some(near) => (
                format!("there is no {what} `{name}`, did you mean `{near}`?"),
                format!("write `{near}`, or declare `{name}`"),
            ),
            None => (format!("there is no {what} `{name}`"), format!("declare `{name}`")),
        };
        self.error(path, message, &help);
    }

    /// Whether the file has something there.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.document.get(path).is_some()
    }

    /// The line something stands in.
    pub(crate) fn line_of(&self, path: &Path) -> usize {
        self.document.source().position(self.document.key_span_of(path)).line
    }

    /// Everything found.
    pub(crate) fn into_found(self) -> Diagnostics {
        self.found
    }
}
