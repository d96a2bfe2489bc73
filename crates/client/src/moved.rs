//! Servers that lead elsewhere: what is asked of them another one answers.

use std::collections::HashMap;

use http::Uri;
use http::header::{AUTHORIZATION, COOKIE, HeaderMap, PROXY_AUTHORIZATION};
use parking_lot::RwLock;

/// Where requests to a server and under a key were last led, as from `http` to `https`, or to a host's full name. Where only a
/// page has moved, nobody can tell by the server which requests that is true of, and nothing is remembered.
#[derive(Debug, Default)]
pub(crate) struct Moved(RwLock<HashMap<u64, Uri>>);

/// So many are known; they are learnt again by the next answer.
const MOST: usize = 1_024;

impl Moved {
    pub(crate) fn of(&self, key: u64) -> Option<Uri> {
        self.0.read().get(&key).cloned()
    }

    pub(crate) fn note(&self, key: u64, to: &Uri) {
        if self.0.read().get(&key) == Some(to) {
            return;
        }
        let mut known = self.0.write();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, to.clone());
    }

    /// It answers itself.
    pub(crate) fn forget(&self, key: u64) {
        if self.0.read().contains_key(&key) {
            self.0.write().remove(&key);
        }
    }
}

/// What of the credentials reqwest takes along to another origin.
pub(crate) fn taken_along(mut credentials: HeaderMap) -> HeaderMap {
    for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
        credentials.remove(name);
    }
    credentials
}
