//! Limits of callers that nothing else limits.

use crate::path::Path;
use crate::shapes::{self, DefaultLimit, RateLimit};

use super::limits::{Limits, Spot};
use super::placed::{LimitId, Place};

/// One of the defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Default {
    pub(crate) limit: LimitId,
    /// A built-in one is only for a caller for whom nothing is configured.
    pub(crate) is_built_in: bool,
}

/// Both defaults, where they are not switched off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) client: Option<Default>,
    pub(crate) tenant: Option<Default>,
}

impl Defaults {
    pub(crate) fn gather(file: &shapes::File, limits: &mut Limits<'_, '_>) -> Defaults {
        let mut one = |name: &'static str, written: &DefaultLimit, built_in: RateLimit| {
            let path = Path::root().key("defaults").key(name);
            let spot = Spot::new(Place::Default, format!("default:{name}"), path);
            let (limit, is_built_in) = match written {
                DefaultLimit::Off => return None,
                DefaultLimit::BuiltIn => (limits.add(spot, &built_in)?, true),
                DefaultLimit::Given(limit) => (limits.add(spot, limit)?, false),
            };
            Some(Default { limit, is_built_in })
        };
        Defaults {
            client: one("client", &file.defaults.client, shapes::Defaults::built_in_client()),
            tenant: one("tenant", &file.defaults.tenant, shapes::Defaults::built_in_tenant()),
        }
    }
}
