//! Costs that can never pass.

use std::collections::HashMap;

use crate::path::Path;

use super::limits::Limits;
use super::placed::{LimitId, Place};
use super::plans::PlanInForce;
use super::routes::RouteInForce;

/// Tells of routes whose cost is above the capacity of a limit they may meet. A route's own limit was checked
/// where it stands; any other may be for callers who are not meant to use the route.
pub(crate) fn check(routes: &[RouteInForce], plans: &[PlanInForce], limits: &mut Limits<'_, '_>) {
    let meets_all = |place: Place| {
        matches!(place, Place::Key | Place::Plan | Place::Tenant | Place::Pool | Place::Default)
    };
    let mut low: Vec<LimitId> = (0..limits.all.len() as u32)
        .map(LimitId)
        .filter(|id| {
            let limit = limits.get(*id);
            // The built-in defaults are for callers whom nobody has thought of.
            let is_built_in = limit.place == Place::Default && limit.line == 0;
            meets_all(limit.place) && !is_built_in
                || limit.place == Place::Quota && !limit.counts_requests
        })
        .collect();
    low.sort_by_key(|id| limits.get(*id).limit.capacity());
    // Once for all routes: to ask every plan for every route takes the product of both.
    let mut by_operation: HashMap<u32, Vec<LimitId>> = HashMap::new();
    for (operation, id) in plans.iter().flat_map(PlanInForce::operations) {
        by_operation.entry(*operation).or_default().push(*id);
    }
    for (index, route) in routes.iter().enumerate() {
        let Some(cost) = route.cost else { continue };
        let is_below = |id: &LimitId| limits.get(*id).limit.capacity() < cost;
        let common = low.partition_point(is_below);
        let of_operation = route.operation.and_then(|number| by_operation.get(&number));
        let of_operation = of_operation.into_iter().flatten().copied();
        let of_upstream = route.limits.iter().copied();
        let of_upstream = of_upstream.filter(|id| limits.get(*id).place == Place::Upstream);
        let others: Vec<LimitId> = of_operation.chain(of_upstream).filter(is_below).collect();
        let lowest = low[..common].iter().chain(&others);
        let Some(lowest) = lowest.min_by_key(|id| limits.get(**id).limit.capacity()) else {
            continue;
        };
        let lowest = limits.get(*lowest);
        let more = match common + others.len() - 1 {
            0 => String::new(),
            1 => " and 1 other limit's".to_owned(),
            more => format!(" and {more} other limits'"),
        };
        let message = format!(
            "a cost of {cost} is above {}'s capacity of {}{more}: callers under it are always refused",
            lowest.source,
            lowest.limit.capacity()
        );
        let path = Path::root().key("routes").index(index).key("rate_limit").key("cost");
        limits.faults.warning(&path, message, "raise that capacity, or lower the cost");
    }
}
