//! A bucket filling and refusing: `cargo run --release --example bucket`.
//!
//! Somebody sends three requests every 200 ms to a limit of 5 a second with a burst of 10. Watch the bucket
//! empty, refuse with the exact wait, and fill again while they rest.

use std::error::Error;
use std::io::{self, Write};
use std::thread::sleep;
use std::time::Duration;

use tollgate_engine::{Limit, Limiter, Rate, Refusal};

fn main() -> Result<(), Box<dyn Error>> {
    let limiter = Limiter::new();
    let limit = Limit::token_bucket(Rate::per_second(5)).burst(10).build()?;
    let rule = limiter.define("example", limit);
    let alice = limiter.identity("alice");

    let mut out = io::stdout();
    writeln!(out, "5 tokens a second, 10 at most; three requests every 200 ms, then a rest:\n")?;
    for round in 0..18 {
        if (8..14).contains(&round) {
            sleep(Duration::from_millis(200));
            let standing = limiter.peek(&rule, alice);
            writeln!(out, "{}  resting", drawn(standing.remaining, standing.limit))?;
            continue;
        }
        for _ in 0..3 {
            let decision = limiter.decide(&rule, alice, 1);
            let standing = decision.standing;
            let answer = match decision.refusal.map(Refusal::retry_after) {
                None => "200".to_owned(),
                Some(wait) => format!("429, come back in {:.0?}", wait.unwrap_or_default()),
            };
            writeln!(out, "{}  {answer}", drawn(standing.remaining, standing.limit))?;
        }
        sleep(Duration::from_millis(200));
    }
    writeln!(
        out,
        "\nNext: change the figures in crates/engine/examples/bucket.rs, read the guide with"
    )?;
    writeln!(
        out,
        "`cargo doc --open -p tollgate-engine`, or run all tests with `cargo xtask test`."
    )?;
    Ok(())
}

fn drawn(tokens: u64, capacity: u64) -> String {
    (0..capacity).map(|n| if n < tokens { '●' } else { '·' }).collect()
}
