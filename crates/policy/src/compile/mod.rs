//! From shapes to what is in force.
//!
//! ```text
//! tenants ──tree──▶ parents before children ──effective──▶ figures after what comes from above
//!                                           ──budgets────▶ what may not be allocated
//! plans, routes, keys, defaults ──▶ limits in their places ──▶ Policy ──chain──▶ what one request meets
//! ```
//!
//! Every limit has a number. What a request meets is a handful of lists of numbers that were made with the policy:
//! of its plan, its tenant with all above it, its route. Nothing is made for a request but the choice of lists.

mod beyond_shape;
mod budgets;
mod chain;
mod costs;
mod defaults;
mod effective;
mod faults;
mod figures;
mod keys;
mod limits;
mod operations;
mod own;
mod placed;
mod plans;
mod policy;
mod quotas;
mod routes;
mod tenants;
mod tree;

pub(crate) use beyond_shape::{Names, beyond_shape};
pub use budgets::BudgetExceeded;
pub use chain::{Client, Links, Stated, Work};
pub use figures::Figures;
pub use keys::KeyInForce;
pub use own::KeyLimit;
pub use placed::{Counted, LimitId, Place, PlacedLimit, QueueBounds};
pub use plans::PlanInForce;
pub use policy::{Made, Policy};
pub use routes::RouteInForce;
pub use tenants::{PolicyFaults, TenantInForce, Tenants};
pub use tree::{ANONYMOUS, MAX_DEPTH, SYSTEM};
