//! Running other programs from the workspace's root.

use std::path::Path;
use std::process::Command;

/// The workspace's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace")
}

/// A program that will run in the workspace's root.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    // Cargo has told us about ourselves; told on, it makes some dependencies build again, and all that stands on them.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    command
}

/// Runs cargo with these arguments, saying so.
pub(crate) fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let mut command = command(env!("CARGO"));
    command.args(args);
    run(command)
}

/// Runs a command, saying so, to its successful end.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    let shown = shown(&command);
    eprintln!("\n$ {shown}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` ended with {status}")),
        Err(error) => Err(format!("`{shown}` did not start: {error}")),
    }
}

/// What a command says, run to its successful end.
pub(crate) fn said(mut command: Command) -> Result<String, String> {
    let shown = shown(&command);
    let output = command.output().map_err(|error| format!("`{shown}` did not start: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("`{shown}` ended with {}:\n{why}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command as a person would type it.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Whether a program is there and answers `--version`.
pub(crate) fn is_there(program: &str, args: &[&str]) -> bool {
    let answered = command(program).args(args).output();
    answered.is_ok_and(|output| output.status.success())
}
