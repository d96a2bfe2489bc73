//! Budgets: what a tenant and all below it may spend together.
//!
//! With mode `allocated` the rates that the direct children declare, in the parent's window, may sum to the total
//! times the overcommit ratio. Everything is compared in whole numbers: rates a day, ratios in millionths.

use std::fmt;

use tollgate_core::{Rate, Window};

use crate::shapes::BudgetMode;

use super::faults::Faults;
use super::figures::rate;
use super::tree::{Tree, path_of};

/// A child that asks for more than its parent has left.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetExceeded {
    /// The parent whose budget it is.
    pub parent: String,
    /// The child that asks.
    pub child: String,
    /// The parent's total, in its window.
    pub total: Rate,
    /// How far above the total the children's rates may go.
    pub overcommit_ratio: f64,
    /// What its other children before this one have, in the parent's window.
    pub allocated: f64,
    /// What the child asks for, in the parent's window.
    pub asked: f64,
    /// What is left for it, in the parent's window.
    pub available: f64,
}

impl fmt::Display for BudgetExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tenant `{}` asks for {} a {} of `{}`'s budget, but only {} is available: {} × {} = {} in \
             all, {} allocated already",
            self.child,
            self.asked,
            self.total.window(),
            self.parent,
            self.available,
            self.total.tokens(),
            self.overcommit_ratio,
            self.total.tokens() as f64 * self.overcommit_ratio,
            self.allocated,
        )
    }
}

const MILLION: u128 = 1_000_000;

/// Checks every allocated budget of the tree. Children that ask for too much are told, in the order of the
/// file, and returned; what is only overcommitted, or has a total above its own rate, is a warning.
pub(crate) fn check(tree: &Tree<'_>, faults: &mut Faults<'_>) -> Vec<BudgetExceeded> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); tree.branches.len()];
    for (number, branch) in tree.branches.iter().enumerate() {
        if let Some(parent) = branch.parent {
            children[parent].push(number);
        }
    }
    let mut exceeded = Vec::new();
    for (number, branch) in tree.branches.iter().enumerate() {
        let Some((index, tenant)) = branch.declared else { continue };
        let Some(limit) = tenant.rate_limit.as_ref() else { continue };
        let path = path_of(index).key("rate_limit").key("budget");
        let own = rate(&limit.sustained);
        let total = Rate::new(limit.budget.total.unwrap_or(own.tokens()), own.window());
        if limit.budget.mode != BudgetMode::Unlimited && total.tokens() > own.tokens() {
            let message = format!(
                "`total` is {total}, above the sustained rate of {own}, which `{}` itself cannot exceed",
                branch.id
            );
            faults.warning(&path.clone().key("total"), message, "lower `total`, or raise the rate");
        }
        if limit.budget.mode != BudgetMode::Allocated {
            continue;
        }
        children[number]
            .sort_by_key(|child| tree.branches[*child].declared.map(|(index, _)| index));
        let ratio = (limit.budget.overcommit_ratio * MILLION as f64).round() as u128;
        let most = a_day(total) * ratio;
        let in_window = |a_day: u128| a_day as f64 * total.window().secs() as f64 / 86_400.0;
        let mut allocated = 0;
        for child in &children[number] {
            let Some((index, tenant)) = tree.branches[*child].declared else { continue };
            let Some(asked) = tenant.rate_limit.as_ref().map(|limit| rate(&limit.sustained)) else {
                continue;
            };
            if (allocated + a_day(asked)) * MILLION > most {
                let fault = BudgetExceeded {
                    parent: branch.id.to_owned(),
                    child: tenant.id.to_string(),
                    total,
                    overcommit_ratio: limit.budget.overcommit_ratio,
                    allocated: in_window(allocated),
                    asked: in_window(a_day(asked)),
                    available: in_window(most.saturating_sub(allocated * MILLION) / MILLION),
                };
                let path = path_of(index).key("rate_limit").key("sustained").key("rate");
                let help = "ask for less, or raise the parent's `total` or `overcommit_ratio`";
                faults.error(&path, fault.to_string(), help);
                exceeded.push(fault);
            } else {
                allocated += a_day(asked);
            }
        }
        if allocated > a_day(total) {
            let message = format!(
                "the tenants below `{}` have {} a {} of a total of {}: they will contend for it",
                branch.id,
                in_window(allocated),
                total.window(),
                total.tokens()
            );
            faults.warning(&path, message, "nothing need be done if that is meant");
        }
    }
    exceeded
}

/// Tokens a day: every window divides a day, so this is exact.
fn a_day(rate: Rate) -> u128 {
    u128::from(rate.tokens()) * u128::from(Window::Day.secs() / rate.window().secs())
}
