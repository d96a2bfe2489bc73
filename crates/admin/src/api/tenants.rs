//! Tenants.

use tollgate_policy::compile::{Made, SYSTEM};
use tollgate_policy::shapes::{File, Tenant};
use tollgate_storage::ObjectKind;

use super::declared::Declared;

impl Declared for Tenant {
    const KIND: ObjectKind = ObjectKind::Tenant;
    const PATH: &'static str = "/v1/tenants";

    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn of_file(file: &File) -> Vec<Tenant> {
        file.tenants.clone()
    }

    /// At the end: budgets are given out in this order, and what is too much is to be said of the tenant that changes.
    fn put(self, made: &mut Made) {
        made.tenants.retain(|one| one.id != self.id);
        made.tenants.push(self);
    }

    fn take(made: &mut Made, id: &str) {
        made.tenants.retain(|one| one.id.as_str() != id);
    }

    /// Its children, and the file's keys.
    fn dependents(file: &File, made: &Made, id: &str) -> Vec<String> {
        let parent = |tenant: &Tenant| {
            let above = tenant.parent.as_ref().map_or(SYSTEM, |parent| parent.as_str());
            above == id && tenant.id.as_str() != SYSTEM
        };
        // Without its entry the root is still the root.
        let is_root = id == SYSTEM;
        let tenants =
            file.tenants.iter().chain(&made.tenants).filter(|one| parent(one) && !is_root);
        let keys = file.keys.iter().filter(|key| key.tenant.as_str() == id).count();
        let mut all: Vec<String> = tenants.map(|one| format!("tenant {}", one.id)).collect();
        all.extend((keys > 0).then(|| format!("{keys} keys of the file")));
        all
    }
}
