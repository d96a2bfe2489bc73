//! A policy in force, as the records and the law have it.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod elsewhere;
mod lone;
mod own;
mod records;
mod reload;
mod stale;
mod strategies;
mod told;
mod two_lines;

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{Clock, FakeClock, Time};
use tollgate_gate::{Caller, Gate, Holder, InForce, Passage};
use tollgate_policy::compile::{Policy, Work};

pub(crate) const NOW: Time = Time::from_secs(1_767_225_600);
pub(crate) const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(crate) fn policy(text: &str) -> Policy {
    Policy::of("t.yaml", text.as_bytes()).unwrap_or_else(|faults| panic!("{}", faults.diagnostics))
}

/// A gate whose clock stands still until it is moved.
pub(crate) struct Place {
    pub(crate) gate: Gate<FakeClock>,
    in_force: RefCell<Arc<InForce>>,
    pub(crate) clock: FakeClock,
}

impl Place {
    pub(crate) fn new(text: &str) -> Place {
        let clock = FakeClock::at(NOW);
        let gate = Gate::with_clock(clock.clone(), 1000);
        let in_force = RefCell::new(gate.enforce(policy(text)));
        Place { gate, in_force, clock }
    }

    pub(crate) fn in_force(&self) -> Arc<InForce> {
        Arc::clone(&self.in_force.borrow())
    }

    pub(crate) fn enforce(&self, text: &str) {
        self.in_force.replace(self.gate.enforce(policy(text)));
    }

    /// Whether a request of `tenant`'s user `ci` passes now, and if not, what keeps it out.
    pub(crate) fn ask(&self, tenant: &str, request: &str) -> Result<(), String> {
        self.ask_as(tenant, "ci", request)
    }

    pub(crate) fn ask_as(&self, tenant: &str, user: &str, request: &str) -> Result<(), String> {
        let in_force = self.in_force();
        let caller = caller(&self.gate, &in_force, tenant, user);
        let passage = self.gate.decide(&in_force, &caller, work(&in_force, request));
        cause(&passage)
    }

    /// How many requests pass in a row.
    pub(crate) fn admits(&self, tenant: &str, request: &str) -> usize {
        (0..).take_while(|_| self.ask(tenant, request).is_ok()).take(100_000).count()
    }

    pub(crate) fn advance(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }
}

pub(crate) fn caller<'k, C: Clock>(
    gate: &Gate<C>,
    in_force: &InForce,
    tenant: &str,
    user: &'k str,
) -> Caller<'k> {
    let number = in_force.policy().tenants().number(tenant).unwrap();
    gate.caller(in_force, number, Holder::User(user), HOME)
}

/// `POST /x`, or nothing.
pub(crate) fn work<'f>(in_force: &'f InForce, request: &str) -> Work<'f> {
    let Some((method, path)) = request.split_once(' ') else { return Work::default() };
    Work::on(in_force.policy().route("example.com", method, path).unwrap())
}

pub(crate) fn cause(passage: &Passage<'_>) -> Result<(), String> {
    match passage.refused_by() {
        None => Ok(()),
        Some(by) => Err(passage.limit(by).source().to_owned()),
    }
}
