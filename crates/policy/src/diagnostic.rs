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
    /// Warnings among those in the list.
    kept_warnings: usize,
    omitted: usize,
    omitted_warnings: usize,
    may_hide_more: bool,
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
        Diagnostics {
            source,
            list: Vec::new(),
            kept_warnings: 0,
            omitted: 0,
            omitted_warnings: 0,
            may_hide_more: false,
            hidden: Vec::new(),
        }
    }

    /// Adds one, in the order of the file. The same thing at the same place is said once, because an alias
    /// repeats what it stands for. Above 1,000 they are only counted, warnings before errors.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.keep(diagnostic.severity, || diagnostic);
    }

    /// As [`push`](Diagnostics::push), for an error that is not worth making if it is only counted.
    pub(crate) fn push_error(&mut self, error: impl FnOnce() -> Diagnostic) {
        self.keep(Severity::Error, error);
    }

    fn keep(&mut self, severity: Severity, diagnostic: impl FnOnce() -> Diagnostic) {
        let is_warning = severity == Severity::Warning;
        if self.is_full() && (is_warning || self.kept_warnings == 0) {
            self.omitted += 1;
            self.omitted_warnings += usize::from(is_warning);
            return;
        }
        let new = diagnostic();
        let start = self.list.partition_point(|other| other.span.start < new.span.start);
        let end = self.list.partition_point(|other| other.span.start <= new.span.start);
        if self.list[start..end].contains(&new) {
            return;
        }
        self.list.insert(end, new);
        self.kept_warnings += usize::from(is_warning);
        if self.list.len() > MAX_KEPT {
            self.omit_warning();
        }
    }

    /// Makes room for an error.
    fn omit_warning(&mut self) {
        let is_warning = |one: &Diagnostic| one.severity == Severity::Warning;
        if let Some(last) = self.list.iter().rposition(is_warning) {
            self.list.remove(last);
            self.kept_warnings -= 1;
            self.omitted += 1;
            self.omitted_warnings += 1;
        }
    }

    /// Adds the errors of another look at the same file.
    pub(crate) fn add_errors(&mut self, other: Diagnostics) {
        self.may_hide_more |= other.may_hide_more;
        self.omitted += other.omitted - other.omitted_warnings;
        for one in other.list.into_iter().filter(|one| one.severity == Severity::Error) {
            self.push(one);
        }
    }

    /// Whether more are only counted.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= MAX_KEPT
    }

    /// More may be wrong than could be found out.
    pub(crate) fn hide_more(&mut self) {
        self.may_hide_more = true;
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

    /// How many of them are errors.
    pub fn errors(&self) -> usize {
        self.len() - self.warnings()
    }

    /// How many of them are warnings.
    pub fn warnings(&self) -> usize {
        self.kept_warnings + self.omitted_warnings
    }

    /// Whether the file cannot be used.
    pub fn has_errors(&self) -> bool {
        self.errors() > 0
    }

    /// Whether more may be found once these are mended, because what is wrong kept from looking at everything.
    pub fn may_hide_more(&self) -> bool {
        self.may_hide_more
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
