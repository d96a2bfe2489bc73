//! The admin API from a shell: the real command against a real control plane.

mod backup;
mod config;
mod documented;
mod keys;
mod limits;
mod node;
mod objects;
mod place;
mod served;
mod tls;
mod usage;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub use node::{Node, TOKEN};

/// What a run of the command said, and how it ended.
#[derive(Debug)]
pub struct Told {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// A run of the command, in a folder, with no environment of ours but what is given.
pub struct Run<'a> {
    command: Command,
    args: &'a [&'a str],
    input: Vec<u8>,
}

impl<'a> Run<'a> {
    pub fn new(folder: &Path, args: &'a [&'a str]) -> Run<'a> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command
            .current_dir(folder)
            .env_remove("TOLLGATE_ADMIN")
            .env_remove("TOLLGATE_ADMIN_TOKEN")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Run { command, args, input: Vec::new() }
    }

    pub fn env(mut self, name: &str, value: &str) -> Run<'a> {
        self.command.env(name, value);
        self
    }

    pub fn input(mut self, text: &str) -> Run<'a> {
        self.input = text.as_bytes().to_vec();
        self
    }

    /// Runs it. Whatever happens, the token is not said.
    pub fn told(mut self) -> Told {
        let mut child = self.command.spawn().unwrap();
        // Whoever does not read may have closed it.
        let _ = child.stdin.take().unwrap().write_all(&self.input);
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        let told = Told {
            code: status.code().unwrap(),
            out: String::from_utf8(stdout).unwrap(),
            err: String::from_utf8(stderr).unwrap(),
        };
        for said in [&told.out, &told.err] {
            assert!(!said.contains(TOKEN), "{:?} tells the token: {said}", self.args);
        }
        told
    }
}

impl Told {
    /// What it printed, of a run that went well.
    #[track_caller]
    pub fn good(&self) -> &str {
        assert_eq!(self.code, 0, "{self:?}");
        &self.out
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(self.good()).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// What it complained of, of a run that ended so. It printed nothing else.
    #[track_caller]
    pub fn failed(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
        &self.err
    }

    /// The cells of a table's rows, without its headings.
    #[track_caller]
    pub fn rows(&self) -> Vec<Vec<&str>> {
        self.good().lines().skip(1).map(cells).collect()
    }
}

/// What stands between two spaces or more.
fn cells(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}
