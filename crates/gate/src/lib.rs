//! A policy in force.
//!
//! A [`Gate`] puts a compiled [`Policy`](tollgate_policy::compile::Policy) together with a limiter's counters: every
//! limit of the policy becomes a rule, a caller becomes the identities it is counted by, and one request
//! becomes a chain that is decided all or nothing.
//!
//! ```text
//! Policy ──enforce──▶ InForce: a rule a limit, an identity a tenant and a route
//!                         │
//! Caller + Work ──decide──┴──▶ Passage: the verdict, what each limit was charged, what the caller is told
//!                  ──pass───▶ the same, after waiting in line where the strategy is `queue`
//! ```
//!
//! Another policy is put into force whole, and whoever holds the present one swaps it. Requests that are under way
//! finish by the one they began with; counters are the gate's and outlive both.
//!
//! ```
//! use std::net::IpAddr;
//! use tollgate_gate::{Gate, Holder};
//! use tollgate_policy::compile::{Policy, Work};
//!
//! let policy = Policy::of("tollgate.yaml", b"
//! plans: { free: { rate_limit: { sustained: { rate: 1 }, scope: user } } }
//! tenants: [ { id: acme, plan: free } ]
//! ").unwrap();
//! let gate = Gate::new(1_000_000);
//! let in_force = gate.enforce(policy);
//!
//! let acme = in_force.policy().tenants().number("acme").unwrap();
//! let address: IpAddr = "203.0.113.7".parse().unwrap();
//! let caller = gate.caller(&in_force, acme, Holder::User("ci"), address);
//!
//! assert!(gate.decide(&in_force, &caller, Work::default()).is_admitted());
//! let refused = gate.decide(&in_force, &caller, Work::default());
//! assert!(!refused.is_admitted());
//! assert_eq!(refused.limit(refused.refused_by().unwrap()).source(), "plan:free");
//! ```

mod caller;
pub mod elsewhere;
mod gate;
mod handles;
mod in_force;
mod kept;
mod lines;
mod lone;
mod own;
mod passage;
mod waiting;
mod waiting_room;

pub use caller::Caller;
pub use gate::Gate;
pub use handles::Handles;
pub use in_force::InForce;
pub use lines::Lines;
pub use lone::Lone;
pub use own::{OwnLimit, OwnTerms};
pub use passage::Passage;
pub use tollgate_policy::Holder;
