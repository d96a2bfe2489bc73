//! Side by side with peers: `cargo xtask bench <what> [--json]`.
//!
//! Machines are shared and noisy, so ours and the peer alternate within one run, and what counts is the
//! median of the ratios of neighbouring measurements.

mod allocations;
mod limiter;
mod measure;
mod redis;
mod report;

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let json = args.iter().position(|arg| arg == "--json").map(|at| args.remove(at)).is_some();
    let mut report = report::Report::new(json);
    match args.first().map(String::as_str) {
        Some("limiter") => limiter::run(&mut report, &args[1..]),
        Some("redis") => redis::run(&mut report, &args[1..]),
        _ => {
            eprintln!(
                "usage: cargo xtask bench limiter [check|chain|hot|memory|flood|drift …] [--json]\n\
                 usage: cargo xtask bench redis [exact|outages|paths] [--json]"
            );
            std::process::exit(2);
        }
    }
}
