//! Keys that the file declares, as they are in force.

use std::collections::{HashMap, HashSet};

use crate::path::Path;
use crate::shapes;
use crate::text::{Instant, KeyId, Sha256, UserName};

use super::limits::{Limits, Spot};
use super::placed::{LimitId, Place};
use super::plans;
use super::tenants::Tenants;

/// A key of the file as it is in force.
#[derive(Clone, Debug)]
pub struct KeyInForce {
    id: Box<str>,
    sha256: Sha256,
    tenant: u32,
    user: Option<UserName>,
    plan: Option<u32>,
    limit: Option<LimitId>,
    expires_at: Option<Instant>,
}

impl KeyInForce {
    /// What it is called; not the key itself.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The SHA-256 of the whole key.
    pub fn sha256(&self) -> &Sha256 {
        &self.sha256
    }

    /// The number of its tenant.
    pub fn tenant(&self) -> usize {
        self.tenant as usize
    }

    /// Who holds it.
    pub fn user(&self) -> Option<&str> {
        self.user.as_ref().map(UserName::as_str)
    }

    /// The number of its own plan, which goes before its tenant's.
    pub fn plan(&self) -> Option<usize> {
        self.plan.map(|number| number as usize)
    }

    /// Its own limit, which goes before its plan's.
    pub fn limit(&self) -> Option<LimitId> {
        self.limit
    }

    /// When it ends.
    pub fn expires_at(&self) -> Option<Instant> {
        self.expires_at
    }
}

/// All keys of the file with their limits.
pub(crate) fn gather(
    file: &shapes::File,
    tenants: &Tenants,
    limits: &mut Limits<'_, '_>,
) -> Vec<KeyInForce> {
    let mut by_digest: HashMap<&Sha256, usize> = HashMap::new();
    let mut by_id: HashMap<Box<str>, usize> = HashMap::new();
    let mut declared: Option<HashSet<&str>> = None;
    let mut keys = Vec::with_capacity(file.keys.len());
    for (index, key) in file.keys.iter().enumerate() {
        let path = path_of(index);
        let id: Box<str> = match &key.id {
            Some(id) => KeyId::as_str(id).into(),
            None => format!("file-{}", &key.sha256.to_string()[..12]).into(),
        };
        let plan = key
            .plan
            .as_ref()
            .and_then(|plan| plans::number(file, plan, &path.clone().key("plan"), limits));
        let limit = key.rate_limit.as_ref().and_then(|limit| {
            let path = path.clone().key("rate_limit");
            limits.add(Spot::new(Place::Key, format!("key:{id}"), path), limit)
        });
        let first = *by_digest.entry(&key.sha256).or_insert(index);
        if first != index {
            let line = limits.faults.line_of(&path_of(first));
            let message = format!("this key is declared twice, first in line {line}");
            limits.faults.error(&path.key("sha256"), message, "leave one of them out");
            continue;
        }
        // One that was wrong may be any.
        let has_id = !limits.faults.doubts(&path, "id");
        let first = if has_id { *by_id.entry(id.clone()).or_insert(index) } else { index };
        if first != index {
            let line = limits.faults.line_of(&path_of(first));
            let message = format!("the key in line {line} is called `{id}` as well");
            limits.faults.error(&path.key("id"), message, "give it another id");
            continue;
        }
        let Some(tenant) = tenants.number(key.tenant.as_str()) else {
            // What keeps one that is declared out of the tree is told already.
            let ids = || file.tenants.iter().map(|tenant| tenant.id.as_str()).collect();
            if !declared.get_or_insert_with(ids).contains(key.tenant.as_str()) {
                let known = tenants.all().iter().map(super::TenantInForce::id);
                let path = path.key("tenant");
                limits.faults.unknown(&path, "tenant", key.tenant.as_str(), known);
            }
            continue;
        };
        keys.push(KeyInForce {
            id,
            sha256: key.sha256,
            tenant: tenant as u32,
            user: key.user.clone(),
            plan,
            limit,
            expires_at: key.expires_at,
        });
    }
    keys
}

fn path_of(index: usize) -> Path {
    Path::root().key("keys").index(index)
}
