//! Counting on several nodes: what Redis could do at most, what is promised, and what a request pays for it.

mod node;
mod outages;
mod paths;
mod quotas;
mod requests;
mod server;
mod strict;
mod through_gateway;

use crate::report::Report;

const ROUNDS: usize = 5;

pub fn run(report: &mut Report, wanted: &[String]) {
    if let [word, url, ..] = wanted
        && word == "drive"
    {
        return strict::drive(url);
    }
    let cases: [(&str, fn(&mut Report)); 7] = [
        ("strict", strict::ceiling_of),
        ("exact", strict::exact),
        ("gateway", through_gateway::run),
        ("outages", outages::run),
        ("paths", paths::run),
        ("quotas", quotas::run),
        ("requests", requests::run),
    ];
    for (name, case) in cases {
        if wanted.is_empty() || wanted.iter().any(|one| one == name) {
            case(report);
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}
