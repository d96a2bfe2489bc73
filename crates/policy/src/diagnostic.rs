//! What is wrong with a file, and where.

use std::fmt;

use serde::Serialize;

use crate::secret::masked;
use crate::source::{Source, Span};

/// So many are kept of one file; the rest are only counted, so that megabytes of faults are answered
/// as fast as one.
const MAX_KEPT: usize = 1000;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, and does not say what its author is likely to mean.
    Warning,
}

/// One thing that is wrong at one place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    severity: Severity,
    span: Span,
    message: String,
    help: Option<String>,
}

impl Diagnostic {
    /// The file cannot be used because of what stands at `span`.
    pub fn error(span: Span, message: impl Into<String>) -> Diagnostic {
        let message = masked(&message.into()).into_owned();
        Diagnostic { severity: Severity::Error, span, message, help: None }
    }

    /// What stands at `span` is allowed, and deserves a look.
    pub fn warning(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message) }
    }

    /// Adds what would be right, where the message does not say it.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(masked(&help.into()).into_owned());
        self
    }

    /// How bad it is.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// Where it is.
    pub fn span(&self) -> Span {
        self.span
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What would be right.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

/// Everything that is wrong with one file, in the order of the file.
///
/// Printed, it shows each with its place, its line and a mark under it; [`records`](Diagnostics::records)
/// are the same for machines.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    source: Source,
    list: Vec<Diagnostic>,
    omitted: usize,
    has_errors: bool,
    /// What may be or hold a secret, in the order of the file.
    hidden: Vec<Span>,
}

/// One diagnostic for machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Record<'a> {
    /// The name of the file.
    pub file: &'a str,
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub message: &'a str,
    /// What would be right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<&'a str>,
}

impl Diagnostics {
    /// Nothing wrong so far with `source`.
    pub fn new(source: Source) -> Diagnostics {
        Diagnostics { source, list: Vec::new(), omitted: 0, has_errors: false, hidden: Vec::new() }
    }

    /// Adds one, in the order of the file. The same thing at the same place is said once, because an alias
    /// repeats what it stands for. Above 1,000 they are only counted.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.has_errors |= diagnostic.severity == Severity::Error;
        self.keep(|| diagnostic);
    }

    /// As [`push`](Diagnostics::push), for an error that is not worth making if it is only counted.
    pub(crate) fn push_error(&mut self, error: impl FnOnce() -> Diagnostic) {
        self.has_errors = true;
        self.keep(error);
    }

    fn keep(&mut self, diagnostic: impl FnOnce() -> Diagnostic) {
        if self.list.len() >= MAX_KEPT {
            self.omitted += 1;
            return;
        }
        let new = diagnostic();
        let start = self.list.partition_point(|other| other.span.start < new.span.start);
        let end = self.list.partition_point(|other| other.span.start <= new.span.start);
        if !self.list[start..end].contains(&new) {
            self.list.insert(end, new);
        }
    }

    /// What stands there is shown to nobody.
    pub(crate) fn hide(&mut self, span: Span) {
        self.hidden.push(span);
    }

    /// What of the file between two bytes is shown to nobody.
    pub(crate) fn hidden(&self, from: usize, to: usize) -> impl Iterator<Item = &Span> {
        let touches = move |span: &&Span| (span.start as usize) < to && (span.end as usize) > from;
        self.hidden.iter().filter(touches)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are, those only counted included.
    pub fn len(&self) -> usize {
        self.list.len() + self.omitted
    }

    /// How many are only counted.
    pub fn omitted(&self) -> usize {
        self.omitted
    }

    /// Whether the file cannot be used.
    pub fn has_errors(&self) -> bool {
        self.has_errors
    }

    /// Those that are kept, in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// The file they are about.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The same for machines.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.list.iter().map(|one| {
            let position = self.source.position(one.span);
            Record {
                file: self.source.name(),
                line: position.line,
                column: position.column,
                severity: one.severity,
                message: &one.message,
                help: one.help.as_deref(),
            }
        })
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(crate::Style::Plain))
    }
}

impl std::error::Error for Diagnostics {}
