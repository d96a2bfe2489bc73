//! Instructions of a request, counted by valgrind. Maps are laid out by chance, so a few hundred more or less come from one process to the
//! next: it is the median of some.

use std::process::Command;

use super::services::Side;
use crate::report::Report;

/// What differs between two runs is that many requests; what a program does before and after falls out.
const FEWER: u64 = 4_000;
const MORE: u64 = 12_000;
const PROCESSES: usize = 5;

pub fn run(report: &mut Report) -> Result<(), String> {
    let mut bare = 0.0;
    for side in Side::ALL {
        let each = |_| Ok((of(side, MORE)? - of(side, FEWER)?) / (MORE - FEWER) as f64);
        let mut each = (0..PROCESSES).map(each).collect::<Result<Vec<f64>, String>>()?;
        each.sort_by(f64::total_cmp);
        let each = each[PROCESSES / 2];
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
