//! What is wrong with a file beyond its shape.

use std::collections::HashMap;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::document::Document;
use crate::doubts::Doubts;
use crate::path::{Path, Segment};
use crate::text::TenantId;
use crate::words::nearest;

/// Collects faults by the path of what they are about.
#[derive(Debug)]
pub(crate) struct Faults<'d> {
    document: &'d Document,
    found: Diagnostics,
    /// What the document lacks because it was wrong.
    doubts: Doubts,
    /// The tenants that the API made, with the place of the first of them: they come after the file's.
    made: (usize, Vec<TenantId>),
    /// What is meant by names that are nobody's. To find it out takes a look at every name there is, and a tenant that is gone may be
    /// the parent of very many.
    meant: HashMap<(&'static str, Box<str>), Option<Box<str>>>,
    /// How many names were compared for that.
    compared: usize,
}

/// What to do where the file declares what the API made.
pub(crate) const MADE_ALREADY: &str = "take it out of the file, and start or reload again; to move it there, first delete it by the API, which \
     it takes when no key and no tenant uses it";

/// After so many comparisons, a tenth of a second's, nobody is told any more what is likely to be meant.
const MAX_COMPARED: usize = 300_000;

impl<'d> Faults<'d> {
    pub(crate) fn new(document: &'d Document) -> Faults<'d> {
        Faults::doubting(document, Doubts::default())
    }

    pub(crate) fn doubting(document: &'d Document, doubts: Doubts) -> Faults<'d> {
        let found = Diagnostics::new(document.source().clone());
        Faults {
            document,
            found,
            doubts,
            made: (0, Vec::new()),
            meant: HashMap::new(),
            compared: 0,
        }
    }

    /// Whether it is unknown what the object at `path` says in `field`. Whoever asks is about to tell a fault that may only be there
    /// because of that, and does not tell it.
    pub(crate) fn doubts(&mut self, path: &Path, field: &str) -> bool {
        let is_unknown = self.is_unknown(path, field);
        if is_unknown {
            self.found.hide_more();
        }
        is_unknown
    }

    /// Whether something was wrong with what the object at `path` says in `field`.
    pub(crate) fn is_unknown(&self, path: &Path, field: &str) -> bool {
        let object = || self.document.get(path);
        !self.doubts.is_empty() && object().is_some_and(|node| self.doubts.has(node.span, field))
    }

    /// Tenants from place `first` on were made by the API.
    pub(crate) fn made(&mut self, first: usize, tenants: Vec<TenantId>) {
        self.made = (first, tenants);
    }

    /// The file cannot be used. `help` is empty where the message says what would be right.
    pub(crate) fn error(&mut self, path: &Path, message: impl Into<String>, help: &str) {
        let message = self.whose(path) + &message.into();
        let fault = Diagnostic::error(self.document.span_of(path), message);
        self.found.push(if help.is_empty() { fault } else { fault.with_help(help) });
    }

    /// The file can be used, but somebody should look.
    pub(crate) fn warning(&mut self, path: &Path, message: impl Into<String>, help: &str) {
        let (span, message) = (self.document.span_of(path), self.whose(path) + &message.into());
        self.found.push(Diagnostic::warning(span, message).with_help(help));
    }

    /// A name that is nobody's.
    pub(crate) fn unknown<'n>(
        &mut self,
        path: &Path,
        what: &'static str,
        name: &str,
        known: impl Iterator<Item = &'n str>,
    ) {
        let section = match what {
            "tenant" => "tenants",
            "plan" => "plans",
            _ => "upstreams",
        };
        if self.doubts(&Path::root(), section) {
            return;
        }
        let whose = self.whose(path);
        let span = self.document.span_of(path);
        let (meant, compared) = (&mut self.meant, &mut self.compared);
        let may_compare = *compared < MAX_COMPARED;
        let known = known.filter(|_| may_compare).inspect(|_| *compared += 1);
        self.found.push_error(|| {
            let near = meant
                .entry((what, name.into()))
                .or_insert_with(|| nearest(name, known).map(Into::into));
            // Upstreams are the file's alone.
            let to_have_it = match (what, whose.is_empty()) {
                ("upstream", _) | (_, true) => format!("declare `{name}`"),
                _ => format!("create `{name}` first"),
            };
            let (meant, help) = match near {
                Some(near) => (
                    format!(", did you mean `{near}`?"),
                    format!("write `{near}`, or {to_have_it}"),
                ),
                None => (String::new(), to_have_it),
            };
            let message = format!("{whose}there is no {what} `{name}`{meant}");
            Diagnostic::error(span, message).with_help(help)
        });
    }

    /// Whom a fault is about, if the API made it: it has no line of its own that would tell.
    fn whose(&self, path: &Path) -> String {
        match path.segments() {
            [Segment::Key(list), Segment::Index(index), ..] if list == "tenants" => {
                let (first, made) = &self.made;
                let id = index.checked_sub(*first).and_then(|at| made.get(at));
                id.map_or_else(String::new, |id| format!("tenant `{id}` of the API: "))
            }
            [Segment::Key(all), Segment::Key(name), ..]
                if all == "plans" && !self.has(&Path::root().key("plans").key(name.clone())) =>
            {
                format!("plan `{name}` of the API: ")
            }
            _ => String::new(),
        }
    }

    /// Whether the file has something there.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.document.get(path).is_some()
    }

    /// The line something stands in.
    pub(crate) fn line_of(&self, path: &Path) -> usize {
        // Not its column as well: that is counted from where its line begins, which may be megabytes before.
        self.document.source().line_of(self.document.key_span_of(path)).0
    }

    /// Everything found.
    pub(crate) fn into_found(self) -> Diagnostics {
        self.found
    }
}
