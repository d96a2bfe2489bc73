//! Who is let in.

use super::{MAX_FIGURE, section, words};
use crate::text::{HeaderName, Text};

words! {
    /// Whether a key is needed.
    AuthMode {
        /// A request without a key is refused.
        #[default]
        Required,
        /// A request without a key is the tenant `anonymous`'s; a bad key is refused.
        Optional,
        /// Keys are not looked at.
        None,
    }
}

section! {
    /// Who is let in.
    Auth {
        /// Whether a key is needed.
        pub mode: AuthMode,
        /// The header looked at first; then `Authorization: Bearer tg_…`.
        pub header: HeaderName,
        /// How often an address may fail. A valid key is never refused by it.
        pub failures: Failures,
    }
}

impl Default for Auth {
    fn default() -> Auth {
        let header = HeaderName::read("x-api-key").expect("the default is the name of a header");
        Auth { mode: AuthMode::default(), header, failures: Failures::default() }
    }
}

section! {
    /// How often an address may fail to authenticate.
    Failures {
        /// Failures a second, in the long run.
        #[schemars(range(min = 1, max = 1_000_000_000))]
        pub rate: u64,
        /// Failures at once.
        #[schemars(range(min = 1, max = MAX_FIGURE))]
        pub capacity: u64,
    }
}

impl Default for Failures {
    fn default() -> Failures {
        Failures { rate: 10, capacity: 50 }
    }
}
