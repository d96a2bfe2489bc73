//! Plans.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_policy::compile::Made;
use tollgate_policy::shapes::{File, Named, OneOrMany, Plan, Quota, RateLimit};
use tollgate_policy::{OperationName, PlanName};
use tollgate_storage::ObjectKind;

use super::declared::Declared;

/// A plan with its name, which in the file stands before it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanBody {
    /// Its name.
    pub(crate) name: PlanName,
    /// The plan's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rate_limit: Option<RateLimit>,
    /// Limits of operations, by name, besides the plan's own.
    #[serde(default)]
    pub(crate) operations: Named<OperationName, RateLimit>,
    /// The balance of a period, or several.
    #[serde(default)]
    pub(crate) quota: OneOrMany<Quota>,
}

impl PlanBody {
    pub(crate) fn into_named(self) -> (PlanName, Plan) {
        let PlanBody { name, rate_limit, operations, quota } = self;
        (name, Plan { rate_limit, operations, quota })
    }

    fn of((name, plan): (&PlanName, &Plan)) -> PlanBody {
        let Plan { rate_limit, operations, quota } = plan.clone();
        PlanBody { name: name.clone(), rate_limit, operations, quota }
    }
}

impl Declared for PlanBody {
    const KIND: ObjectKind = ObjectKind::Plan;
    const PATH: &'static str = "/v1/plans";

    fn id(&self) -> &str {
        self.name.as_str()
    }

    fn of_file(file: &File) -> Vec<PlanBody> {
        file.plans.iter().map(PlanBody::of).collect()
    }

    fn put(self, made: &mut Made) {
        let plans = std::mem::take(&mut made.plans);
        made.plans = plans.into_iter().chain([self.into_named()]).collect();
    }

    fn take(made: &mut Made, id: &str) {
        let plans = std::mem::take(&mut made.plans);
        made.plans = plans.into_iter().filter(|(name, _)| name.as_str() != id).collect();
    }

    /// The tenants whose plan it is, and the file's keys.
    fn dependents(file: &File, made: &Made, id: &str) -> Vec<String> {
        let is_it = |plan: &Option<PlanName>| plan.as_ref().is_some_and(|plan| plan.as_str() == id);
        let tenants = file.tenants.iter().chain(&made.tenants).filter(|one| is_it(&one.plan));
        let keys = file.keys.iter().filter(|key| is_it(&key.plan)).count();
        let mut all: Vec<String> = tenants.map(|one| format!("tenant {}", one.id)).collect();
        all.extend((keys > 0).then(|| format!("{keys} keys of the file")));
        all
    }
}
