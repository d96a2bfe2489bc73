//! The server's layer against a bare axum and tower_governor, and the client's check before it sends.
//!
//! Three looks at the same services: called in this process, where a request is little else than the layers; over a loopback
//! connection, as users have them; and counted in instructions, which no neighbour can disturb.

mod counts;
mod inside;
mod loopback;
mod preflight;
mod services;

use crate::measure::median;
use crate::report::Report;
use services::Side;

pub fn run(report: &mut Report, wanted: &[String]) {
    if let [program, side, number] = wanted
        && let Some(side) = Side::named(side)
        && let Ok(number) = number.parse()
    {
        match program.as_str() {
            "calls" => return inside::calls(side, number),
            "serve" => return loopback::serve(side, number),
            _ => {}
        }
    }
    type Bench = fn(&mut Report) -> Result<(), String>;
    let all: [(&str, Bench); 4] = [
        ("inside", inside::run),
        ("loopback", loopback::run),
        ("counts", counts::run),
        ("preflight", preflight::run),
    ];
    for (name, bench) in all {
        let is_wanted = wanted.is_empty() || wanted.iter().any(|one| one == name);
        if is_wanted && let Err(error) = bench(report) {
            eprintln!("bench middleware {name}: {error}");
            std::process::exit(1);
        }
    }
}

/// What every side of a bench took in every round, sides in the order of [`Side::ALL`].
struct Rounds(Vec<[f64; Side::ALL.len()]>);

impl Rounds {
    /// Measures all sides in turns; who is first changes, because each has the machine as the one before left it.
    fn measure(
        rounds: usize,
        mut of: impl FnMut(Side) -> Result<f64, String>,
    ) -> Result<Rounds, String> {
        let mut all = Vec::new();
        for round in 0..rounds {
            let mut one = [0.0; Side::ALL.len()];
            for at in 0..Side::ALL.len() {
                let which = (round + at) % Side::ALL.len();
                one[which] = of(Side::ALL[which])?;
            }
            all.push(one);
        }
        Ok(Rounds(all))
    }

    fn median(&self, side: Side) -> f64 {
        median(self.0.iter().map(|round| round[side as usize]))
    }

    /// What a side took more than the bare service, measured beside it.
    fn added(&self, side: Side) -> f64 {
        median(self.0.iter().map(|round| round[side as usize] - round[Side::Bare as usize]))
    }
}
