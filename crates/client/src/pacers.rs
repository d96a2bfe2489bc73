//! One pacer for each server and key, and each operation that is told.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::Arc;

use http::Uri;
use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName};
use parking_lot::RwLock;

use crate::{Ask, Pacer, Settings};

/// The pacers of a program: limits are counted per server and key, so it has one for each. Clones share them.
///
/// ```
/// use http::{HeaderMap, Uri};
/// use tollgate_client::{Pacers, Settings};
///
/// let pacers = Pacers::new(Settings::new());
/// let uri = Uri::from_static("https://api.example.com/v1/chat");
/// let mut headers = HeaderMap::new();
/// headers.insert("x-api-key", "tg_live_…".parse().unwrap());
/// let status = pacers.pacer(&uri, &headers).status();
/// assert_eq!(status.waiting, 0);
/// ```
#[derive(Clone, Debug)]
pub struct Pacers(Arc<Known>);

#[derive(Debug)]
struct Known {
    settings: Settings,
    /// Keys are hashed with a secret: the credentials themselves are not kept.
    hash: RandomState,
    pacers: RwLock<HashMap<u64, Pacer, BuildHasherDefault<AsItIs>>>,
    /// For whoever finds no room.
    overflow: Pacer,
}

/// So many servers and keys are told apart.
const MOST: usize = 4_096;

/// Whether a header says who is asking.
fn is_credential(name: &HeaderName) -> bool {
    *name == AUTHORIZATION || matches!(name.as_str(), "x-api-key" | "api-key" | "x-goog-api-key")
}

/// The keys are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Pacers {
    /// None yet.
    pub fn new(settings: Settings) -> Pacers {
        Pacers(Arc::new(Known {
            settings,
            hash: RandomState::new(),
            pacers: RwLock::default(),
            overflow: Pacer::new(settings),
        }))
    }

    /// The pacer for requests to this server with these credentials, of no operation in particular.
    pub fn pacer(&self, uri: &Uri, headers: &HeaderMap) -> Pacer {
        self.pacer_for(uri, headers, Ask::default())
    }

    /// The pacer for requests to this server with these credentials that ask for this [operation](Ask::operation).
    pub fn pacer_for(&self, uri: &Uri, headers: &HeaderMap, ask: Ask) -> Pacer {
        let key = self.key(uri, headers, ask.operation);
        if let Some(pacer) = self.0.pacers.read().get(&key) {
            return pacer.clone();
        }
        let mut pacers = self.0.pacers.write();
        if pacers.len() >= MOST {
            pacers.retain(|_, pacer| !pacer.is_unused());
        }
        if pacers.len() >= MOST {
            return self.0.overflow.clone();
        }
        pacers.entry(key).or_insert_with(|| Pacer::new(self.0.settings)).clone()
    }

    fn key(&self, uri: &Uri, headers: &HeaderMap, operation: Option<&str>) -> u64 {
        let mut hasher = self.0.hash.build_hasher();
        operation.hash(&mut hasher);
        uri.scheme_str().hash(&mut hasher);
        match uri.authority() {
            Some(authority) => authority.as_str().hash(&mut hasher),
            None => headers.get(HOST).map(http::HeaderValue::as_bytes).hash(&mut hasher),
        }
        for (name, value) in headers.iter().filter(|(name, _)| is_credential(name)) {
            (name.as_str(), value.as_bytes()).hash(&mut hasher);
        }
        hasher.finish()
    }
}
