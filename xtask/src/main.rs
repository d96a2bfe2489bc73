//! What README's commands call: `cargo xtask test`, `cargo xtask bench <what>`, `cargo xtask dist` and
//! `cargo xtask proto`.

mod dist;
mod run;
mod test;
mod tools;

use std::process::ExitCode;

const USAGE: &str = "\
usage:
  cargo xtask test                     all that must pass before a change lands
  cargo xtask bench <what> [--json]    side by side with peers; <what>: control, gateway, limiter, middleware, policy, redis
  cargo xtask dist                     the program as it is shipped, in target/shipped: built, trained and built again
  cargo xtask proto [--check]          makes the code of the gRPC services, or says whether it is up to date
";

/// What makes code of .proto files is built apart, and only when it is asked for.
fn proto<'a>(args: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let tool = ["run", "--quiet", "--manifest-path", "xtask/proto/Cargo.toml", "--"];
    run::cargo(tool.into_iter().chain(args))
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.first().map(String::as_str) {
        Some("test") => test::all(),
        Some("bench") => tools::for_benches().and_then(|()| {
            run::cargo(
                ["run", "--release", "--quiet", "--manifest-path", "bench/Cargo.toml", "--"]
                    .into_iter()
                    .chain(args[1..].iter().map(String::as_str)),
            )
        }),
        Some("dist") => dist::build(),
        Some("proto") => proto(args[1..].iter().map(String::as_str)),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("xtask: {what}");
            ExitCode::FAILURE
        }
    }
}
