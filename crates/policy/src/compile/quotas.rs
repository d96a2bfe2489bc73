//! Quotas of a plan or a tenant.

use crate::path::Path;
use crate::shapes::{OneOrMany, Quota};

use super::limits::{Limits, Spot};
use super::placed::{LimitId, Place};

/// Where quotas stand.
#[derive(Clone, Debug)]
pub(crate) struct Balance {
    /// For people.
    pub(crate) source: String,
    /// For counters: a plan's is called by no plan, so that what was used carries over to another. The quota's time zone is part of
    /// the counter all the same: periods of another zone begin at other moments, so what was used in one is not of the other.
    pub(crate) counter: String,
    pub(crate) path: Path,
}

/// Adds quotas. Two of a kind would be one balance with two limits.
pub(crate) fn gather(
    limits: &mut Limits<'_, '_>,
    balance: &Balance,
    quotas: &OneOrMany<Quota>,
) -> Box<[LimitId]> {
    let all = quotas.as_slice();
    let mut ids = Vec::with_capacity(all.len());
    for (index, quota) in all.iter().enumerate() {
        let path = match quotas {
            OneOrMany::One(_) => balance.path.clone(),
            OneOrMany::Many(_) => balance.path.clone().index(index),
        };
        let kind = |quota: &Quota| (quota.window, quota.scope, quota.unit);
        let is_twin = |other: &&Quota| {
            kind(other) == kind(quota) && other.time_zone.as_str() == quota.time_zone.as_str()
        };
        if all[..index].iter().find(is_twin).is_some() {
            limits.faults.error(
                &path,
                "this quota has the window, zone, scope and unit of one before it",
                "leave out the higher one",
            );
            continue;
        }
        let spot = Spot::new(Place::Quota, balance.source.clone(), path);
        ids.extend(limits.quota(spot, quota, &balance.counter));
    }
    ids.into()
}
