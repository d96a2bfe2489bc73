//! The limit of a key that the API issued: no policy numbers it, because keys come and go between two policies.

use crate::document::Document;
use crate::node::{Node, Value};
use crate::path::Path;
use crate::shapes::RateLimit;
use crate::source::{Source, Span};
use crate::text::UpstreamName;

use super::faults::Faults;
use super::limits::{Limits, Spot};
use super::placed::{Place, PlacedLimit};
use super::policy::Policy;

/// The limit of a key that the API issued, which goes before its plan's.
#[derive(Clone, Debug)]
pub struct KeyLimit {
    placed: PlacedLimit,
    /// By name: it outlives the policy it was made under, whose numbers another does not have.
    degrade: Option<UpstreamName>,
}

impl KeyLimit {
    /// The limit in its place.
    #[inline]
    pub fn placed(&self) -> &PlacedLimit {
        &self.placed
    }

    /// The number of the upstream that strategy `degrade` forwards to, under this policy.
    #[inline]
    pub fn degrade_to(&self, policy: &Policy) -> Option<usize> {
        let name = self.degrade.as_ref()?;
        policy.settings().upstreams.get_index_of(name)
    }
}

impl Policy {
    /// The limit of the key `id`, which the API issued; `None` if its figures make no limit. The first key of its line
    /// of rotations is `origin`: all of them share the counters.
    ///
    /// What may be written is checked when a key is issued. Here a key that is in force already gets its limit, so what does
    /// not fit a later policy is left out: nodes that stopped counting together count alone.
    pub fn key_limit(&self, id: &str, origin: &str, written: &RateLimit) -> Option<KeyLimit> {
        let nowhere = Node { span: Span::default(), value: Value::Null };
        let document = Document::new(Source::of("", ""), nowhere);
        let mut limits = Limits::new(self.settings(), Faults::new(&document));
        let path = Path::root().key("rate_limit");
        limits.add(Spot::new(Place::Key, format!("key:{origin}"), path), written)?;
        let mut placed = limits.all.pop()?;
        placed.source = format!("key:{id}").into();
        placed.degrade = None;
        placed.line = 0;
        Some(KeyLimit { placed, degrade: written.terms.degrade.upstream.clone() })
    }
}
