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
    /// The operations that it limits on their own, in order of their numbers. Only these: a place for every operation in every
    /// plan would be the product of both.
    operations: Box<[(u32, LimitId)]>,
    pub(crate) quotas: Box<[LimitId]>,
}

impl PlanInForce {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limit that it has for the operation with this number. Most plans limit none or a few: that is a look or two.
    #[inline]
    pub(crate) fn operation(&self, number: u32) -> Option<LimitId> {
        let place = self.operations.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(self.operations[place].1)
    }

    /// All of these limits, with their operations' numbers.
    pub(crate) fn operations(&self) -> &[(u32, LimitId)] {
        &self.operations
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
        let mut by_operation = Vec::with_capacity(plan.operations.len());
        for (operation, limit) in &plan.operations {
            let path = path.clone().key("operations").key(operation.as_str().to_owned());
            operations.expect_route(operation, &path, &mut limits.faults);
            let source = format!("operation:{name}/{operation}");
            let id = limits.add(Spot::new(Place::Operation, source, path), limit);
            by_operation.extend(operations.number(operation).map(|number| number as u32).zip(id));
        }
        by_operation.sort_unstable();
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

#[cfg(test)]
mod tests {
    use crate::compile::Policy;

    /// A place for every operation in every plan would be their product: gigabytes for these.
    #[test]
    fn a_plan_takes_room_for_its_own_operations_only() {
        const PLANS: usize = 20_000;
        let plan = |n: usize| {
            format!("  p{n}: {{ operations: {{ o{n}: {{ sustained: {{ rate: 1 }} }} }} }}\n")
        };
        let plans: String = (0..PLANS).map(plan).collect();
        let policy = Policy::of("t.yaml", format!("plans:\n{plans}").as_bytes())
            .unwrap_or_else(|faults| panic!("{}", faults.diagnostics));
        let room: usize = policy.plans().iter().map(|plan| plan.operations.len()).sum();
        assert_eq!(room, PLANS);
    }

    /// Operations have their numbers from whichever plan names them first.
    #[test]
    fn a_plan_finds_its_operations_in_whichever_order_it_names_them() {
        let text = "
plans:
  one: { operations: { a: { sustained: { rate: 1 } }, b: { sustained: { rate: 2 } }, c: { sustained: { rate: 3 } } } }
  two: { operations: { c: { sustained: { rate: 4 } }, a: { sustained: { rate: 5 } } } }
  none: {}
";
        let policy = Policy::of("t.yaml", text.as_bytes())
            .unwrap_or_else(|faults| panic!("{}", faults.diagnostics));
        for (plan, expected) in [
            ("one", [Some("operation:one/a"), Some("operation:one/b"), Some("operation:one/c")]),
            ("two", [Some("operation:two/a"), None, Some("operation:two/c")]),
            ("none", [None; 3]),
        ] {
            let plan = &policy.plans()[policy.plan(plan).unwrap_or_else(|| panic!("{plan}"))];
            let found = ["a", "b", "c"].map(|name| {
                let id = plan.operation(policy.operation(name)? as u32)?;
                Some(policy.limit(id).source())
            });
            assert_eq!(found, expected);
        }
    }
}
