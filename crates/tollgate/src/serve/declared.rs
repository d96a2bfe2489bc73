//! Keys of the API that the file declares as well.
//!
//! One that is revoked by the API would go on working by its entry in the file, and one whose id the file gives to another could not be
//! revoked. What the API has revoked may be declared: whoever writes a key into the file means it.

use std::collections::HashMap;

use tollgate_admin::NotReady;
use tollgate_engine::Time;
use tollgate_policy::compile::{Policy, PolicyFaults};
use tollgate_policy::{Diagnostic, Diagnostics, KeyId, Loaded, Path, Sha256};
use tollgate_storage::KeySnapshot;

/// A key of the file that the API has made and not revoked.
#[derive(Debug)]
struct MadeToo {
    /// Its place in the file.
    index: usize,
    /// What the API calls it.
    id: String,
    /// Whether it is that very key, or only called so.
    is_same: bool,
}

/// All of them, in the file's order.
fn made_too<'k, T>(
    declared: impl Iterator<Item = (Option<&'k str>, &'k Sha256)>,
    (stored, now): (&KeySnapshot<T>, Time),
) -> Vec<MadeToo> {
    let (mut found, mut by_id) = (Vec::new(), HashMap::new());
    for (index, (id, sha256)) in declared.enumerate() {
        if let Some(key) = stored.find(sha256, now) {
            found.push(MadeToo { index, id: key.id().to_owned(), is_same: true });
        } else if let Some(id) = id {
            by_id.insert(id, index);
        }
    }
    // Nothing finds stored keys by their ids: all are looked at, once for all of the file's.
    if !by_id.is_empty() {
        stored.for_each(|key| {
            if let Some(&index) = by_id.get(key.id()).filter(|_| key.ends_at() > now) {
                found.push(MadeToo { index, id: key.id().to_owned(), is_same: false });
            }
        });
    }
    found.sort_unstable_by_key(|one| one.index);
    found
}

/// What is wrong with the keys of a file that is to take the place of the policy in force. What that has declared since the start may
/// stay: else nothing could be changed any more, whatever it is, before somebody has tidied up.
pub(super) fn faults<T>(
    loaded: &Loaded,
    in_force: &Policy,
    stored: (&KeySnapshot<T>, Time),
) -> Option<Box<PolicyFaults>> {
    let declared = loaded.value.keys.iter();
    let declared = declared.map(|key| (key.id.as_ref().map(KeyId::as_str), &key.sha256));
    let mut found = made_too(declared, stored);
    if found.is_empty() {
        return None;
    }
    let before: HashMap<&Sha256, &str> =
        in_force.keys().iter().map(|key| (key.sha256(), key.id())).collect();
    found.retain(|one| {
        let there = before.get(&loaded.value.keys[one.index].sha256);
        there.is_none_or(|id| !one.is_same && **id != *one.id)
    });
    if found.is_empty() {
        return None;
    }
    let document = &loaded.document;
    let mut diagnostics = Diagnostics::new(document.source().clone());
    for MadeToo { index, id, is_same } in found {
        let (field, what, instead) = match is_same {
            true => (
                "sha256",
                format!("this key was made by the API already: it is `{id}`"),
                "leave it out",
            ),
            false => (
                "id",
                format!("key `{id}` was made by the API already"),
                "give this one another id",
            ),
        };
        let path = Path::root().key("keys").index(index).key(field);
        let help = format!("{instead}, or revoke the API's first: `tollgate keys revoke {id}`");
        diagnostics.push(Diagnostic::error(document.span_of(&path), what).with_help(help));
    }
    Some(Box::new(PolicyFaults { diagnostics, budgets: Vec::new() }))
}

/// The same faults, and those of the policy.
pub(super) fn with(keys: Option<&PolicyFaults>, mut others: Box<PolicyFaults>) -> NotReady {
    for fault in keys.into_iter().flat_map(|keys| keys.diagnostics.iter()) {
        others.diagnostics.push(fault.clone());
    }
    NotReady::Faults(others)
}

/// Says which keys of a file the API has made too, where it is put into force all the same.
pub(super) fn warn<T>(policy: &Policy, stored: (&KeySnapshot<T>, Time)) {
    let declared = policy.keys().iter().map(|key| (Some(key.id()), key.sha256()));
    for MadeToo { id, is_same, .. } in made_too(declared, stored) {
        let why = match is_same {
            true => {
                "the file declares a key that the API has made: revoked by the API, it would go on working by its entry in the \
                 file; take that out"
            }
            false => {
                "the file gives another key the id of one that the API has made, which cannot be changed or revoked meanwhile; \
                 give it another id, or take it out"
            }
        };
        tracing::warn!(key = id, "{why}");
    }
}
