//! What each tenant's limit amounts to, after what it receives from above.
//!
//! | parent's sharing | child says | effective |
//! |---|---|---|
//! | `private` | anything | the child's alone |
//! | `inherit` | nothing | the parent's |
//! | `inherit` | a limit | the lower of both |
//! | `enforce` | anything | the lower of both, and the parent's own counter is charged too |
//!
//! A silent tenant passes on what it received. `inherit` stops at a tenant whose own limit is private;
//! `enforce` reaches every descendant, through anything. A limit that counts by a window, under a lower rate of a longer one,
//! counts that rate by its own window, rounded down: 100/second under 5000/minute is 83/second.

use crate::shapes::{Sharing, TenantLimit};

use super::faults::Faults;
use super::figures::Figures;
use super::limits::kind;
use super::tree::{Tree, path_of};

/// A tenant's limit as it is in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effective<'f> {
    pub(crate) figures: Figures,
    /// What says how to count: its own limit, or the one it was inherited from.
    pub(crate) limit: &'f TenantLimit,
    /// The number of the tenant whose limit that is.
    pub(crate) from: usize,
}

/// What a tenant passes down.
#[derive(Clone, Copy, Debug, Default)]
struct Passed<'f> {
    /// By `inherit`, up to the next private limit.
    inherited: Option<Effective<'f>>,
    /// By `enforce`, through anything.
    enforced: Option<Effective<'f>>,
}

/// Every tenant's limit as it is in force, by number; `None` where nothing limits it. What cannot be
/// counted by the window that a tenant chose is told.
pub(crate) fn effective<'f>(
    tree: &Tree<'f>,
    faults: &mut Faults<'_>,
) -> Vec<Option<Effective<'f>>> {
    let mut passed: Vec<Passed<'f>> = Vec::with_capacity(tree.branches.len());
    let mut all = Vec::with_capacity(tree.branches.len());
    for (number, branch) in tree.branches.iter().enumerate() {
        let above = branch.parent.map(|parent| passed[parent]).unwrap_or_default();
        let own = branch.declared.and_then(|(_, tenant)| tenant.rate_limit.as_ref());
        let received = lower(above.inherited, above.enforced);
        let own = own.map(|limit| Effective {
            figures: Figures::written(&limit.sustained, &limit.terms, number),
            limit,
            from: number,
        });
        let in_force = match (own, received) {
            (Some(own), Some(received)) if !kind(own.limit.terms.algorithm).has_burst() => {
                let figures = own.figures.fold_by_window(received.figures).unwrap_or_else(|| {
                    tell_window(tree, &own, &received, faults);
                    own.figures
                });
                Some(Effective { figures, ..own })
            }
            _ => lower(own, received),
        };
        let is_unknown = own.is_none()
            && branch.declared.is_some_and(|(at, _)| faults.is_unknown(&path_of(at), "rate_limit"));
        passed.push(match own.map(|own| own.limit.sharing) {
            None if is_unknown => Passed::default(),
            None => above,
            Some(Sharing::Private) => Passed { inherited: None, enforced: above.enforced },
            Some(Sharing::Inherit) => Passed { inherited: in_force, enforced: above.enforced },
            Some(Sharing::Enforce) => Passed { inherited: None, enforced: in_force },
        });
        all.push(in_force);
    }
    all
}

/// The lower of both figures, counted as the first says.
fn lower<'f>(near: Option<Effective<'f>>, far: Option<Effective<'f>>) -> Option<Effective<'f>> {
    match (near, far) {
        (Some(near), Some(far)) => {
            Some(Effective { figures: near.figures.fold(far.figures), ..near })
        }
        (near, far) => near.or(far),
    }
}

/// Tells that what a tenant receives is less than one in the window it counts by.
fn tell_window(
    tree: &Tree<'_>,
    own: &Effective<'_>,
    received: &Effective<'_>,
    faults: &mut Faults<'_>,
) {
    let tenant = &tree.branches[own.from];
    let Some((index, _)) = tenant.declared else { return };
    let rate = received.figures.rate;
    let message = format!(
        "tenant `{}` counts by a {} of a {}, in which the {rate} of `{}` are less than 1",
        tenant.id,
        kind(own.limit.terms.algorithm).name(),
        own.figures.rate.window(),
        tree.branches[received.figures.rate_from].id,
    );
    let help = format!(
        "write its rate with `window: {}`, or choose `token_bucket`, whose burst keeps to both",
        rate.window()
    );
    faults.error(&path_of(index).key("rate_limit"), message, &help);
}
