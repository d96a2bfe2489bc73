//! Instructions of a request, counted by valgrind: the same on every run.

use std::process::Command;

use super::services::Side;
use crate::report::Report;

/// What differs between two runs is that many requests; what a program does before and after falls out.
const FEWER: u64 = 4_000;
const MORE: u64 = 8_000;

pub fn run(report: &mut Report) -> Result<(), String> {
    let mut bare = 0.0;
    for side in Side::ALL {
        let each = (of(side, MORE)? - of(side, FEWER)?) / (MORE - FEWER) as f64;
        if side == Side::Bare {
            bare = each;
        }
        report.row(&[
            ("bench", "counts".into()),
            ("side", side.name().into()),
            ("instructions", each.into()),
            ("added_instructions", (each - bare).into()),
        ]);
    }
    Ok(())
}

fn of(side: Side, calls: u64) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["middleware", "calls", side.name(), &calls.to_string()])
        .output()
        .map_err(|error| format!("valgrind did not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let collected = text.lines().find_map(|line| line.split("Collected :").nth(1));
    let counted = collected.and_then(|number| number.trim().parse().ok());
    counted.ok_or(format!("valgrind said something else than usual:\n{text}"))
}
