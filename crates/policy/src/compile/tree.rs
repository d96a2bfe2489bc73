//! The tree of tenants: who is above whom.

use std::collections::HashMap;

use crate::path::Path;
use crate::shapes::Tenant;
use crate::text::TenantId;

use super::faults::{Faults, MADE_ALREADY};

/// The root of every tree, declared or not.
pub const SYSTEM: &str = "system";

/// The tenant of callers without a key, under the root unless declared elsewhere.
pub const ANONYMOUS: &str = "anonymous";

/// How far below the root a tenant may stand.
pub const MAX_DEPTH: usize = 16;

/// A tenant in its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch<'f> {
    pub(crate) id: &'f str,
    /// What the file says of it, and as which of its tenants; nothing of a root or an `anonymous` that it
    /// leaves out.
    pub(crate) declared: Option<(usize, &'f Tenant)>,
    /// The number of the tenant above it; none above the root.
    pub(crate) parent: Option<usize>,
    depth: usize,
}

/// All tenants, parents before their children; the root is the first.
#[derive(Debug)]
pub(crate) struct Tree<'f> {
    pub(crate) branches: Vec<Branch<'f>>,
}

/// The path of a tenant by its place in the file.
pub(crate) fn path_of(index: usize) -> Path {
    Path::root().key("tenants").index(index)
}

impl<'f> Tree<'f> {
    /// Orders tenants that the file lists in any order. Every fault is told, and what has one is left out.
    pub(crate) fn grow(tenants: &'f [Tenant], faults: &mut Faults<'_>) -> Tree<'f> {
        let declared = by_id(tenants, faults);
        let mut children: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, tenant) in tenants.iter().enumerate() {
            if declared[tenant.id.as_str()] != index {
                continue;
            }
            // Nobody knows where it belongs.
            if tenant.id.as_str() != SYSTEM && faults.doubts(&path_of(index), "parent") {
                continue;
            }
            let parent = tenant.parent.as_ref().map(TenantId::as_str);
            match (tenant.id.as_str(), parent.unwrap_or(SYSTEM)) {
                (SYSTEM, _) if parent.is_none() => {}
                (SYSTEM, _) => faults.error(
                    &path_of(index).key("parent"),
                    "`system` is the root and has no parent",
                    "leave `parent` out",
                ),
                (_, above) if above == SYSTEM || declared.contains_key(above) => {
                    children.entry(above).or_default().push(index);
                }
                (_, above) => {
                    let known = tenants.iter().map(|tenant| tenant.id.as_str()).chain([SYSTEM]);
                    faults.unknown(&path_of(index).key("parent"), "tenant", above, known);
                }
            }
        }
        let root = declared.get(SYSTEM).map(|index| (*index, &tenants[*index]));
        let mut branches = vec![Branch { id: SYSTEM, declared: root, parent: None, depth: 0 }];
        let mut next = 0;
        while let Some(&Branch { id, depth, .. }) = branches.get(next) {
            for index in children.remove(id).unwrap_or_default() {
                let tenant = &tenants[index];
                if depth == MAX_DEPTH {
                    let message =
                        format!("tenant `{}` is more than {MAX_DEPTH} below `system`", tenant.id);
                    faults.error(&path_of(index), message, "give it a parent further up");
                } else {
                    branches.push(Branch {
                        id: tenant.id.as_str(),
                        declared: Some((index, tenant)),
                        parent: Some(next),
                        depth: depth + 1,
                    });
                }
            }
            next += 1;
        }
        tell_circles(tenants, children, faults);
        if !declared.contains_key(ANONYMOUS) {
            branches.push(Branch { id: ANONYMOUS, declared: None, parent: Some(0), depth: 1 });
        }
        Tree { branches }
    }

    /// A tenant and all above it, up to the root.
    pub(crate) fn lineage(&self, tenant: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(tenant), |at| self.branches[*at].parent)
    }
}

fn by_id<'f>(tenants: &'f [Tenant], faults: &mut Faults<'_>) -> HashMap<&'f str, usize> {
    let mut by_id = HashMap::with_capacity(tenants.len());
    for (index, tenant) in tenants.iter().enumerate() {
        let first = *by_id.entry(tenant.id.as_str()).or_insert(index);
        if first == index {
            continue;
        }
        if faults.has(&path_of(index)) {
            let line = faults.line_of(&path_of(first));
            faults.error(
                &path_of(index).key("id"),
                format!("tenant `{}` is declared twice, first in line {line}", tenant.id),
                "give it another id, or leave one of them out",
            );
        } else {
            // What the API made has no place in the file; the one that does stands before it.
            faults.error(
                &path_of(first).key("id"),
                format!("tenant `{}` was made by the API already", tenant.id),
                MADE_ALREADY,
            );
        }
    }
    by_id
}

/// Whoever was not reached from the root, but by a parent that exists, is in a circle or below one; or below
/// somebody who is too deep, which is told already.
fn tell_circles(tenants: &[Tenant], unreached: HashMap<&str, Vec<usize>>, faults: &mut Faults<'_>) {
    let mut unreached: Vec<usize> = unreached.into_values().flatten().collect();
    unreached.sort_unstable();
    let places: HashMap<&str, usize> = unreached
        .iter()
        .zip(0..)
        .map(|(index, place)| (tenants[*index].id.as_str(), place))
        .collect();
    let above = |place: usize| {
        let parent = tenants[unreached[place]].parent.as_ref()?;
        places.get(parent.as_str()).copied()
    };
    // Each is walked over once: a walk ends where an earlier one has been, and has found a circle if it comes to itself.
    let mut walked_from: Vec<Option<usize>> = vec![None; unreached.len()];
    let mut is_in_circle = vec![false; unreached.len()];
    for start in 0..unreached.len() {
        let mut next = Some(start);
        while let Some(at) = next.filter(|at| walked_from[*at].is_none()) {
            walked_from[at] = Some(start);
            next = above(at);
        }
        let mut circle = next.filter(|met| walked_from[*met] == Some(start));
        while let Some(at) = circle.filter(|at| !is_in_circle[*at]) {
            is_in_circle[at] = true;
            circle = above(at);
        }
    }
    for (index, _) in unreached.iter().zip(is_in_circle).filter(|(_, is_in_circle)| *is_in_circle) {
        faults.error(
            &path_of(*index).key("parent"),
            format!("tenant `{}` is, through its parents, above itself", tenants[*index].id),
            "let one of them have the parent `system`",
        );
    }
}
