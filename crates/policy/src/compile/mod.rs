//! From shapes to what is in force.
//!
//! ```text
//! tenants ──tree──▶ parents before children ──effective──▶ figures after what comes from above
//!                                           ──budgets────▶ what may not be allocated
//! ```

mod budgets;
mod effective;
mod faults;
mod figures;
mod tenants;
mod tree;

pub use budgets::BudgetExceeded;
pub use figures::Figures;
pub use tenants::{TenantFaults, TenantInForce, Tenants};
pub use tree::{ANONYMOUS, MAX_DEPTH, SYSTEM};
