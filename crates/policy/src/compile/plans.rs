//! Plans as they are in force.

use crate::path::Path;
use crate::shapes;
use crate::text::PlanName;

use super::limits::{Limits, Spot};
use super::operations::Operations;
use super::placed::{LimitId, Place};
use super::quotas::{self, Balance};

/// A plan as it is in force.
#[derive(Clone, Debug)]
pub struct PlanInForce {
    name: Box<str>,
    pub(crate) limit: Option<LimitId>,
    /// By the operation's number.
    pub(crate) operations: Box<[Option<LimitId>]>,
    pub(crate) quotas: Box<[LimitId]>,
}

impl PlanInForce {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The number of a plan that something names.
pub(crate) fn number(
    file: &shapes::File,
    name: &PlanName,
    path: &Path,
    limits: &mut Limits<'_, '_>,
) -> Option<u32> {
    let number = file.plans.get_index_of(name);
    if number.is_none() {
        let known = file.plans.keys().map(PlanName::as_str);
        limits.faults.unknown(path, "plan", name.as_str(), known);
    }
    number.map(|number| number as u32)
}

/// All plans with their limits.
pub(crate) fn gather(
    file: &shapes::File,
    operations: &Operations<'_>,
    limits: &mut Limits<'_, '_>,
) -> Vec<PlanInForce> {
    let plan = |(name, plan): (&PlanName, &shapes::Plan)| {
        let path = Path::root().key("plans").key(name.as_str().to_owned());
        let source = format!("plan:{name}");
        let own = plan.rate_limit.as_ref().and_then(|limit| {
            let path = path.clone().key("rate_limit");
            limits.add(Spot::new(Place::Plan, source.clone(), path), limit)
        });
        let mut by_operation = vec![None; operations.len()];
        for (operation, limit) in &plan.operations {
            let path = path.clone().key("operations").key(operation.as_str().to_owned());
            operations.expect_route(operation, &path, &mut limits.faults);
            let source = format!("operation:{name}/{operation}");
            let id = limits.add(Spot::new(Place::Operation, source, path), limit);
            if let Some(number) = operations.number(operation) {
                by_operation[number] = id;
            }
        }
        let balance = Balance { source, counter: "quota".to_owned(), path: path.key("quota") };
        PlanInForce {
            name: name.as_str().into(),
            limit: own,
            operations: by_operation.into(),
            quotas: quotas::gather(limits, &balance, &plan.quota),
        }
    };
    file.plans.iter().map(plan).collect()
}
