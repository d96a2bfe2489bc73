//! Files in, text out.

use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;

use tollgate_policy::compile::Policy;
use tollgate_policy::{Diagnostics, Style};

use crate::exit::Failure;

/// Reads a file, or standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let read = if path == Path::new("-") {
        bounded(io::stdin().lock(), &mut text)
    } else {
        std::fs::File::open(path).and_then(|file| bounded(file, &mut text))
    };
    read.map_err(|error| Failure::Failed(format!("cannot read {}: {error}", path.display())))?;
    Ok(text)
}

/// One byte more than a file may have is enough to see that it has too many.
fn bounded(from: impl Read, into: &mut Vec<u8>) -> io::Result<usize> {
    from.take(tollgate_policy::MAX_BYTES as u64 + 1).read_to_end(into)
}

/// Reads and compiles a file; what is wrong with it is said on standard error.
pub(crate) fn policy(path: &Path) -> Result<Policy, Failure> {
    let text = read(path)?;
    match Policy::of(&path.display().to_string(), &text) {
        Ok(policy) => {
            tell(policy.warnings());
            Ok(policy)
        }
        Err(faults) => {
            tell(&faults.diagnostics);
            Err(Failure::BadConfiguration)
        }
    }
}

/// Says what is wrong with a file.
pub(crate) fn tell(diagnostics: &Diagnostics) {
    let style = if io::stderr().is_terminal() { Style::Coloured } else { Style::Plain };
    eprint!("{}", diagnostics.render(style));
}

/// Prints text. A reader that has gone, as `head` does, is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Prints a value as JSON, for people too.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Failed(format!("cannot write JSON: {error}")))?;
    print(&(text + "\n"))
}
