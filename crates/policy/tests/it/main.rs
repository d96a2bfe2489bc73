//! One binary for all tests of the policy.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod accepts;
mod all_at_once;
mod api_keys;
mod bounds;
mod chains;
mod compiled_faults;
mod examples;
mod faults;
mod judge;
mod names;
mod places;
mod rendering;
mod routes;
mod tenants;
mod texts;
mod window_limits;

/// Every section and every field.
pub const FULL: &str = include_str!("full.yaml");

/// What is wrong with `text`, each as `line:column message`.
pub fn faults_of(text: &str) -> Vec<String> {
    match tollgate_policy::load("test.yaml", text.as_bytes()) {
        Ok(_) => Vec::new(),
        Err(faults) => {
            let line =
                |r: tollgate_policy::Record<'_>| format!("{}:{} {}", r.line, r.column, r.message);
            faults.records().map(line).collect()
        }
    }
}
