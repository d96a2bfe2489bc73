//! What everything is called in Redis.

use tollgate_core::Time;
use tollgate_policy::Sha256;

use crate::ObjectKind;

/// The longest name of a quota that is written as it is.
const LONGEST: usize = 200;

/// The names of one store.
#[derive(Clone, Debug)]
pub(super) struct Names {
    prefix: String,
    base: String,
}

impl Names {
    pub(super) fn new(prefix: &str) -> Names {
        Names { prefix: prefix.to_owned(), base: format!("{prefix}:{{{prefix}:store}}:") }
    }

    pub(super) fn of(&self, what: &str) -> String {
        format!("{}{what}", self.base)
    }

    pub(super) fn meta(&self) -> String {
        self.of("meta")
    }

    pub(super) fn objects(&self, kind: ObjectKind) -> String {
        self.of(&format!("objects:{}", kind.name()))
    }

    /// The list of keys: all, or a tenant's.
    pub(super) fn order(tenant: Option<&str>) -> String {
        tenant.map_or_else(|| "order".to_owned(), |tenant| format!("order:{tenant}"))
    }

    /// Where nodes are told that there is something new.
    pub(super) fn channel(&self) -> String {
        self.of("changed")
    }

    /// Quotas need no other key beside them, so they are spread over a cluster. Names hold what callers have chosen: they must
    /// not choose the slot.
    pub(super) fn quota(&self, name: &str, begins: Time) -> String {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'{' && byte != b'}';
        let seconds = begins.as_nanos() / 1_000_000_000;
        let prefix = &self.prefix;
        if name.len() <= LONGEST && name.bytes().all(is_plain) {
            return format!("{prefix}:quota:{name}:{seconds}");
        }
        format!("{prefix}:quota:sha256-{}:{seconds}", Sha256::of(name.as_bytes()))
    }
}
