//! Tenants as they are in force.

use foldhash::{HashMap, HashSet};
use tollgate_core::Rate;

use crate::diagnostic::Diagnostics;
use crate::path::Path;
use crate::shapes::{self, BudgetMode, Sharing, Tenant, TenantLimit};

use super::budgets::{self, BudgetExceeded};
use super::effective::{Effective, effective};
use super::figures::{Figures, rate};
use super::limits::{Amount, Limits, Spot};
use super::placed::{LimitId, Place};
use super::quotas;
use super::tree::{Tree, path_of};

/// All tenants of a file as they are in force.
#[derive(Clone, Debug, Default)]
pub struct Tenants {
    /// Parents before their children; the root is the first.
    all: Vec<TenantInForce>,
    by_id: HashMap<Box<str>, u32>,
}

/// Up to so many tenants are found by a look at each: to compare a few lengths is less than to hash a text.
const FEW: usize = 8;

/// A tenant as it is in force.
#[derive(Clone, Debug)]
pub struct TenantInForce {
    id: Box<str>,
    parent: Option<u32>,
    effective: Option<Figures>,
    charged: Box<[u32]>,
    pools: Box<[u32]>,
    pub(crate) plan: Option<u32>,
    /// Its own counter and pool, then those of the tenants above it that its requests are charged to.
    pub(crate) limits: Box<[LimitId]>,
    pub(crate) quotas: Box<[LimitId]>,
}

impl TenantInForce {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The number of the tenant above it; none above the root.
    pub fn parent(&self) -> Option<usize> {
        self.parent.map(|number| number as usize)
    }

    /// The rate and burst of its own counter, after what it receives from above; `None` if nothing in the tree
    /// limits it.
    pub fn effective(&self) -> Option<Figures> {
        self.effective
    }

    /// The numbers of the tenants above it whose counters its requests are charged to as well, nearest first.
    pub fn charged(&self) -> &[u32] {
        &self.charged
    }

    /// The numbers of the tenants, itself included, whose pools its requests are charged to, nearest first.
    pub fn pools(&self) -> &[u32] {
        &self.pools
    }
}

/// Why a policy cannot be used.
#[derive(Clone, Debug)]
pub struct PolicyFaults {
    /// Everything that is wrong, with its place.
    pub diagnostics: Diagnostics,
    /// Of that, the budgets that are exceeded, with their figures.
    pub budgets: Vec<BudgetExceeded>,
}

impl Tenants {
    /// The tenants of a file with their limits, as far as they are right.
    pub(crate) fn gather(
        file: &shapes::File,
        limits: &mut Limits<'_, '_>,
    ) -> (Tenants, Vec<BudgetExceeded>) {
        let tree = Tree::grow(&file.tenants, &mut limits.faults);
        let exceeded = budgets::check(&tree, &mut limits.faults);
        let in_force = effective(&tree, &mut limits.faults);
        let own: Vec<Own> =
            (0..tree.branches.len()).map(|at| Own::of(&tree, at, in_force[at], limits)).collect();
        let all = (0..tree.branches.len()).map(|number| {
            let branch = &tree.branches[number];
            let charged = tree.lineage(number).skip(1).filter(|at| enforces(&tree, *at));
            let pools = tree.lineage(number).filter(|at| own[*at].pool.is_some());
            let chain = tree.lineage(number).flat_map(|at| {
                let counter = own[at].counter.filter(|_| at == number || enforces(&tree, at));
                counter.into_iter().chain(own[at].pool)
            });
            TenantInForce {
                id: branch.id.into(),
                parent: branch.parent.map(|parent| parent as u32),
                effective: in_force[number].map(|effective| effective.figures),
                charged: charged.map(|at| at as u32).collect(),
                pools: pools.map(|at| at as u32).collect(),
                plan: plan(file, branch.declared, limits),
                limits: chain.collect(),
                quotas: branch
                    .declared
                    .map_or_else(Box::default, |(index, tenant)| balances(index, tenant, limits)),
            }
        });
        let all: Vec<TenantInForce> = all.collect();
        check_unplaced(file, &tree, limits);
        let by_id = all.iter().zip(0..).map(|(tenant, number)| (tenant.id.clone(), number));
        (Tenants { by_id: by_id.collect(), all }, exceeded)
    }

    /// The tenant called `id`.
    pub fn get(&self, id: &str) -> Option<&TenantInForce> {
        self.number(id).map(|number| &self.all[number])
    }

    /// The number of the tenant called `id`.
    #[inline]
    pub fn number(&self, id: &str) -> Option<usize> {
        if self.all.len() <= FEW {
            return self.all.iter().position(|tenant| *tenant.id == *id);
        }
        self.by_id.get(id).map(|number| *number as usize)
    }

    /// All of them, parents before their children.
    pub fn all(&self) -> &[TenantInForce] {
        &self.all
    }
}

/// A tenant's own counter and pool.
#[derive(Clone, Copy, Debug)]
struct Own {
    counter: Option<LimitId>,
    pool: Option<LimitId>,
}

impl Own {
    fn of(
        tree: &Tree<'_>,
        number: usize,
        in_force: Option<Effective<'_>>,
        limits: &mut Limits<'_, '_>,
    ) -> Own {
        let id = tree.branches[number].id;
        let written = own_limit(tree, number);
        let counter = in_force.and_then(|effective| {
            // What it wrote is checked as it stands; what it amounts to after folding is in force.
            if let Some((path, own)) = &written {
                let spot = Spot::new(Place::Tenant, format!("tenant:{id}"), path.clone());
                let amount = Amount::written(&own.sustained, &own.terms);
                if limits.build(&spot, amount, &own.terms).is_none() {
                    limits.check_terms(&spot, &own.terms);
                    return None;
                }
            }
            let (path, _) = own_limit(tree, effective.from)?;
            let Effective { figures, limit, .. } = effective;
            let has_burst = super::limits::kind(limit.terms.algorithm).has_burst();
            let burst = has_burst.then_some(figures.capacity);
            let spot = Spot {
                node: Some(number),
                ..Spot::new(Place::Tenant, format!("tenant:{id}"), path)
            };
            limits.place(spot, Amount { rate: figures.rate, burst }, &limit.terms, limit.cost)
        });
        let pool = written.and_then(|(path, own)| {
            if own.budget.mode == BudgetMode::Unlimited {
                return None;
            }
            let rate = rate(&own.sustained);
            let total = own.budget.total.unwrap_or(rate.tokens());
            let burst = own.terms.burst.as_ref().map_or(rate.tokens(), |burst| burst.capacity);
            let terms = shapes::Terms {
                algorithm: shapes::Algorithm::TokenBucket,
                scope: shapes::Scope::Tenant,
                ..own.terms.clone()
            };
            let spot = Spot {
                node: Some(number),
                ..Spot::new(Place::Pool, format!("pool:{id}"), path.key("budget"))
            };
            let rate = Rate::new(total, rate.window());
            let amount = Amount { rate, burst: Some(burst.min(total)) };
            limits.place(spot, amount, &terms, own.cost)
        });
        Own { counter, pool }
    }
}

/// Tells what is wrong with tenants that have no place in the tree, beside that.
fn check_unplaced(file: &shapes::File, tree: &Tree<'_>, limits: &mut Limits<'_, '_>) {
    let placed: HashSet<usize> =
        tree.branches.iter().filter_map(|branch| Some(branch.declared?.0)).collect();
    if placed.len() == file.tenants.len() {
        return;
    }
    for (index, tenant) in file.tenants.iter().enumerate().filter(|(at, _)| !placed.contains(at)) {
        plan(file, Some((index, tenant)), limits);
        if let Some(own) = &tenant.rate_limit {
            let path = path_of(index).key("rate_limit");
            let spot = Spot::new(Place::Tenant, format!("tenant:{}", tenant.id), path);
            let amount = Amount::written(&own.sustained, &own.terms);
            limits.place(spot, amount, &own.terms, own.cost);
        }
        balances(index, tenant, limits);
    }
}

fn balances(index: usize, tenant: &Tenant, limits: &mut Limits<'_, '_>) -> Box<[LimitId]> {
    let source = format!("tenant:{}", tenant.id);
    let counter = format!("{source}:quota");
    let path = path_of(index).key("quota");
    quotas::gather(limits, &quotas::Balance { source, counter, path }, &tenant.quota)
}

fn plan(
    file: &shapes::File,
    declared: Option<(usize, &Tenant)>,
    limits: &mut Limits<'_, '_>,
) -> Option<u32> {
    let (index, tenant) = declared?;
    super::plans::number(file, tenant.plan.as_ref()?, &path_of(index).key("plan"), limits)
}

fn own_limit<'f>(tree: &Tree<'f>, number: usize) -> Option<(Path, &'f TenantLimit)> {
    let (index, tenant) = tree.branches[number].declared?;
    Some((path_of(index).key("rate_limit"), tenant.rate_limit.as_ref()?))
}

fn enforces(tree: &Tree<'_>, number: usize) -> bool {
    own_limit(tree, number).is_some_and(|(_, limit)| limit.sharing == Sharing::Enforce)
}
