//! Side by side with peers: `cargo xtask bench <what> [--json]`.
//!
//! Machines are shared and noisy, so ours and the peer alternate within one run, and what counts is the
//! median of the ratios of neighbouring measurements.

mod allocations;
mod calls;
mod control;
mod gateway;
mod limiter;
mod measure;
mod middleware;
mod policy;
mod redis;
mod report;

const USAGE: &str = "\
usage: cargo xtask bench <what> [case …] [--json]
  control [issue|keys|usage|path|undisturbed …]
  gateway [forward|refuse|bare|counts|idle|stream …]
  limiter [check|chain|hot|memory|flood|drift …]
  middleware [inside|loopback|counts|preflight …]
  policy
  redis [strict|exact|gateway|outages|paths|quotas|requests]
";

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let json = args.iter().position(|arg| arg == "--json").map(|at| args.remove(at)).is_some();
    let mut report = report::Report::new(json);
    match args.first().map(String::as_str) {
        Some("control") => control::run(&mut report, &args[1..]),
        Some("gateway") => gateway::run(&mut report, &args[1..]),
        Some("limiter") => limiter::run(&mut report, &args[1..]),
        Some("middleware") => middleware::run(&mut report, &args[1..]),
        Some("policy") => policy::run(&mut report),
        Some("redis") => redis::run(&mut report, &args[1..]),
        _ => {
            eprint!("{USAGE}");
            std::process::exit(2);
        }
    }
}
