//! What README's commands call: `cargo xtask test` and `cargo xtask bench <what>`.

mod run;
mod test;
mod tools;

use std::process::ExitCode;

const USAGE: &str = "\
usage:
  cargo xtask test                     all that must pass before a change lands
  cargo xtask bench <what> [--json]    side by side with peers; <what>: control, gateway, limiter, middleware, policy, redis
";

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
