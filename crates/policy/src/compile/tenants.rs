//! Tenants as they are in force.

use std::collections::HashMap;

use crate::diagnostic::Diagnostics;
use crate::load::Loaded;
use crate::shapes::{BudgetMode, Sharing, Tenant};

use super::budgets::{self, BudgetExceeded};
use super::effective::effective;
use super::faults::Faults;
use super::figures::Figures;
use super::tree::Tree;

/// All tenants of a file as they are in force.
#[derive(Clone, Debug)]
pub struct Tenants {
    /// Parents before their children; the root is the first.
    all: Vec<TenantInForce>,
    by_id: HashMap<Box<str>, usize>,
    warnings: Diagnostics,
}

/// A tenant as it is in force.
#[derive(Clone, Debug)]
pub struct TenantInForce {
    id: Box<str>,
    parent: Option<usize>,
    effective: Option<Figures>,
    charged: Vec<usize>,
    pools: Vec<usize>,
}

impl TenantInForce {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The number of the tenant above it; none above the root.
    pub fn parent(&self) -> Option<usize> {
        self.parent
    }

    /// The rate and burst of its own counter, after what it receives from above; `None` if nothing in the tree
    /// limits it.
    pub fn effective(&self) -> Option<Figures> {
        self.effective
    }

    /// The numbers of the tenants above it whose counters its requests are charged to as well, nearest first.
    pub fn charged(&self) -> &[usize] {
        &self.charged
    }

    /// The numbers of the tenants, itself included, whose pools its requests are charged to, nearest first.
    pub fn pools(&self) -> &[usize] {
        &self.pools
    }
}

/// Why tenants cannot be used.
#[derive(Clone, Debug)]
pub struct TenantFaults {
    /// Everything that is wrong, with its place.
    pub diagnostics: Diagnostics,
    /// Of that, the budgets that are exceeded, with their figures.
    pub budgets: Vec<BudgetExceeded>,
}

impl Tenants {
    /// The tenants of a file, or everything that is wrong with them.
    pub fn compile(loaded: &Loaded) -> Result<Tenants, Box<TenantFaults>> {
        let mut faults = Faults::new(&loaded.document);
        let tree = Tree::grow(&loaded.value.tenants, &mut faults);
        let exceeded = budgets::check(&tree, &mut faults);
        let found = faults.into_found();
        if found.has_errors() {
            return Err(Box::new(TenantFaults { diagnostics: found, budgets: exceeded }));
        }
        let in_force = effective(&tree);
        let all: Vec<TenantInForce> = (0..tree.branches.len())
            .map(|number| TenantInForce {
                id: tree.branches[number].id.into(),
                parent: tree.branches[number].parent,
                effective: in_force[number].map(|effective| effective.figures),
                charged: tree.lineage(number).skip(1).filter(|at| enforces(&tree, *at)).collect(),
                pools: tree.lineage(number).filter(|at| has_pool(&tree, *at)).collect(),
            })
            .collect();
        let by_id =
            all.iter().zip(0..).map(|(tenant, number)| (tenant.id.clone(), number)).collect();
        Ok(Tenants { all, by_id, warnings: found })
    }

    /// The tenant called `id`.
    pub fn get(&self, id: &str) -> Option<&TenantInForce> {
        self.by_id.get(id).map(|number| &self.all[*number])
    }

    /// All of them, parents before their children.
    pub fn all(&self) -> &[TenantInForce] {
        &self.all
    }

    /// What deserves a look.
    pub fn warnings(&self) -> &Diagnostics {
        &self.warnings
    }
}

fn enforces(tree: &Tree<'_>, number: usize) -> bool {
    limit_is(tree, number, |tenant| {
        tenant.rate_limit.as_ref().is_some_and(|limit| limit.sharing == Sharing::Enforce)
    })
}

fn has_pool(tree: &Tree<'_>, number: usize) -> bool {
    limit_is(tree, number, |tenant| {
        tenant.rate_limit.as_ref().is_some_and(|limit| limit.budget.mode != BudgetMode::Unlimited)
    })
}

fn limit_is(tree: &Tree<'_>, number: usize, holds: impl Fn(&Tenant) -> bool) -> bool {
    tree.branches[number].declared.is_some_and(|(_, tenant)| holds(tenant))
}
