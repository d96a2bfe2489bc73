//! Diagnostics as a person reads them: place, line, and a mark under what is wrong.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::secret::{HIDDEN, masked};
use crate::source::Source;

/// So many are shown of one file.
const MAX_SHOWN: usize = 100;

/// So many characters of a line are looked at before and after where the fault begins, of which the renderer
/// shows what fits a terminal: JSON may have all its megabytes in one line.
const REACH: usize = 1000;

/// Whether colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Text alone, for a file or a pipe.
    Plain,
    /// Colours, for a terminal.
    Coloured,
}

impl Diagnostics {
    /// All of them as text, the first 100 in full; ends with a line break unless there is none.
    pub fn render(&self, style: Style) -> String {
        let renderer = match style {
            Style::Plain => Renderer::plain(),
            Style::Coloured => Renderer::styled(),
        };
        let mut text = String::new();
        for one in self.iter().take(MAX_SHOWN) {
            let window = Window::around(self, one);
            text.push_str(&renderer.render(&[group(self.source(), one, &window)]));
            text.push_str("\n\n");
        }
        match self.len() {
            0 => {}
            len if len > MAX_SHOWN => text += &format!("and {} more\n", len - MAX_SHOWN),
            _ if self.may_hide_more() => text += "more may be found when this is mended\n",
            _ => drop(text.pop()),
        }
        text
    }
}

fn group<'a>(source: &'a Source, one: &'a Diagnostic, window: &'a Window) -> Group<'a> {
    let level = match one.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let position = source.position(one.span());
    let mark = AnnotationKind::Primary.span(window.mark.clone());
    let snippet = Snippet::source(&*window.text).line_start(position.line).annotation(mark);
    let title = level.primary_title(one.message());
    // The renderer counts the column in what it is given.
    let shown = if window.begins_later {
        let origin = Origin::path(source.name()).line(position.line).char_column(position.column);
        title.element(origin).element(snippet)
    } else {
        title.element(snippet.path(source.name()))
    };
    match one.help() {
        Some(help) => shown.element(Level::HELP.message(help)),
        None => shown,
    }
}

/// What is shown of the line where a fault begins.
struct Window {
    text: String,
    mark: Range<usize>,
    /// Whether it leaves out the beginning of the line.
    begins_later: bool,
}

impl Window {
    fn around(all: &Diagnostics, one: &Diagnostic) -> Window {
        let source = all.source();
        let (_, line_start) = source.line_of(one.span());
        let line = source.line_at(line_start);
        let at = boundary(line, (one.span().start as usize).saturating_sub(line_start));
        let end = boundary(line, (one.span().end as usize).saturating_sub(line_start));

        let from = line[..at].char_indices().rev().nth(REACH).map_or(0, |(byte, _)| byte);
        let to = line[at..].char_indices().nth(REACH).map_or(line.len(), |(byte, _)| at + byte);
        let end = end.clamp(at, to);
        let hidden: Vec<_> = all.hidden(line_start + from, line_start + to).collect();
        let is_hidden = |byte: usize| {
            let byte = line_start + from + byte;
            hidden.iter().any(|span| (span.start as usize..span.end as usize).contains(&byte))
        };
        let masked = masked(&line[from..to]);
        let shown = line[from..to].char_indices().zip(masked.chars()).map(|((byte, _), c)| {
            let is_hidden = is_hidden(byte);
            // A control character would move the mark, or the terminal; it is shown as another of three bytes.
            match c {
                _ if is_hidden => HIDDEN,
                '\t' => c,
                _ if c.is_control() => char::REPLACEMENT_CHARACTER,
                _ => c,
            }
        });
        let text: String = shown.collect();
        // Each character is shown as one.
        let place = |part: &str| {
            text.char_indices().nth(part.chars().count()).map_or(text.len(), |(byte, _)| byte)
        };
        let mark = place(&line[from..at])..place(&line[from..end]);
        Window { mark, text, begins_later: from > 0 }
    }
}

/// The first end of a character of `line` that is not before `byte`.
fn boundary(line: &str, byte: usize) -> usize {
    (byte..line.len()).find(|&at| line.is_char_boundary(at)).unwrap_or(line.len())
}
