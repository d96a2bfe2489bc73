//! All that must pass before a change lands, quickest first.

use crate::run::{cargo, command, is_there, run};
use crate::tools;

pub(crate) fn all() -> Result<(), String> {
    tools::for_tests()?;
    cargo(["fmt", "--all", "--check"])?;
    cargo(["fmt", "--manifest-path", "bench/Cargo.toml", "--check"])?;
    cargo(["fmt", "--manifest-path", "xtask/proto/Cargo.toml", "--check"])?;
    crate::proto(["--check"])?;
    cargo(["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])?;
    if is_there(env!("CARGO"), &["nextest", "--version"]) {
        cargo(["nextest", "run", "--workspace", "--all-features", "--no-fail-fast"])?;
    } else {
        cargo(["test", "--workspace", "--all-targets", "--all-features", "--no-fail-fast"])?;
    }
    cargo(["test", "--workspace", "--all-features", "--doc"])?;
    loom()?;
    docs()?;
    eprintln!(
        "\nEverything passes. How to use it as a library: target/doc/tollgate_engine/index.html"
    );
    Ok(())
}

/// Every interleaving of the counters' locks. Apart from other builds, because it changes what they
/// are made of.
fn loom() -> Result<(), String> {
    let mut command = command(env!("CARGO"));
    command
        .args(["test", "--package", "tollgate-engine", "--test", "loom"])
        .args(["--target-dir", "target/loom"])
        .env("RUSTFLAGS", "--cfg tollgate_loom");
    run(command)
}

fn docs() -> Result<(), String> {
    let mut command = command(env!("CARGO"));
    command.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    run(command)
}
