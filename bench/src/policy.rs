//! A large file: how long it takes to put into force, what it weighs, and what one request asks of it.

use std::hint::black_box;
use std::time::Instant;

use tollgate_policy::compile::{Client, Policy, Work};

use crate::allocations;
use crate::measure::{median, nanos_per_call, scatter};
use crate::report::Report;

const TENANTS: usize = 10_000;
const ROUTES: usize = 1_000;

pub fn run(report: &mut Report) {
    let text = file();
    let mut compiled = Vec::new();
    for _ in 0..5 {
        let begin = Instant::now();
        black_box(policy(&text));
        compiled.push(begin.elapsed().as_secs_f64() * 1000.0);
    }
    report.row(&[
        ("bench", "compile".into()),
        ("tenants", TENANTS.into()),
        ("routes", ROUTES.into()),
        ("file_bytes", text.len().into()),
        ("ours_ms", median(compiled.into_iter()).into()),
    ]);

    let (policy, bytes) = allocations::weigh(|| policy(&text));
    report.row(&[
        ("bench", "policy-memory".into()),
        ("bytes", (bytes as u64).into()),
        ("bytes_per_tenant", (bytes as f64 / TENANTS as f64).into()),
    ]);

    let paths: Vec<String> =
        (0..ROUTES).map(|n| format!("/v1/service{}/item/{n}/x", n % 50)).collect();
    let find = |thread: usize, call: u64| {
        let path = &paths[scatter(thread, call, ROUTES as u64) as usize];
        black_box(policy.route("api.example.com", "POST", black_box(path)));
    };
    let find = median((0..11).map(|_| nanos_per_call(1, 200_000, find)));
    report.row(&[("bench", "route".into()), ("routes", ROUTES.into()), ("ours_ns", find.into())]);

    let clients: Vec<Client> = (0..TENANTS).map(|tenant| Client::of(&policy, tenant)).collect();
    let resolve = |thread: usize, call: u64| {
        let client = clients[scatter(thread, call, TENANTS as u64) as usize];
        let route = &policy.routes()[scatter(thread, call ^ 1, ROUTES as u64) as usize];
        for (id, limit) in policy.chain(client, Work::on(route)) {
            black_box((id, limit.cost(route.cost())));
        }
    };
    let ((), allocated) = allocations::count(|| (0..1_000).for_each(|call| resolve(0, call)));
    let nanos = median((0..11).map(|_| nanos_per_call(1, 200_000, resolve)));
    let limits = policy.chain(clients[TENANTS - 1], Work::on(&policy.routes()[0])).count();
    report.row(&[
        ("bench", "resolve".into()),
        ("limits", limits.into()),
        ("ours_ns", nanos.into()),
        ("allocations_per_call", (allocated as f64 / 1_000.0).into()),
    ]);
}

fn policy(text: &str) -> Policy {
    match Policy::of("large.yaml", text.as_bytes()) {
        Ok(policy) => policy,
        Err(faults) => panic!("{}", faults.diagnostics),
    }
}

/// Ten thousand tenants in three levels, each with a limit, under plans with quotas; a thousand routes.
fn file() -> String {
    let mut text =
        String::from("upstreams: { api: { url: \"http://127.0.0.1:3000\" } }\nroutes:\n");
    for n in 0..ROUTES {
        let cost = n % 7 + 1;
        text += &format!(
            "  - {{ path: \"/v1/service{}/item/{n}/{{id}}\", methods: [POST], upstream: api, operation: op{}, rate_limit: {{ cost: {cost} }} }}\n",
            n % 50,
            n % 5
        );
    }
    text += "plans:\n";
    for n in 0..20 {
        text += &format!(
            "  plan{n}:\n    rate_limit: {{ sustained: {{ rate: {} }}, scope: user }}\n    operations: {{ op{}: {{ sustained: {{ rate: 900, window: minute }}, scope: user }} }}\n    quota: {{ limit: 100000, window: month, time_zone: Europe/Vienna }}\n",
            100 + n,
            n % 5
        );
    }
    text += "tenants:\n  - { id: system, rate_limit: { sharing: enforce, sustained: { rate: 100000000 }, budget: { mode: shared } } }\n";
    for n in 0..TENANTS - 2 {
        let parent = if n < 100 { "system".to_owned() } else { format!("tenant-{}", n % 100) };
        text += &format!(
            "  - {{ id: tenant-{n}, parent: {parent}, plan: plan{}, rate_limit: {{ sharing: enforce, sustained: {{ rate: {} }} }} }}\n",
            n % 20,
            1000 + n
        );
    }
    text
}
