//! One pacer for each server and key, and each operation that is told.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue};
use http::uri::Authority;
use parking_lot::RwLock;
use tokio::time::Instant;
use tollgate_core::Time;

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
    /// The headers that say who is asking.
    credentials: Vec<HeaderName>,
    table: RwLock<Table>,
    /// For whoever finds no room.
    overflow: Vec<Pacer>,
}

#[derive(Debug, Default)]
struct Table {
    pacers: HashMap<u64, Pacer, BuildHasherDefault<AsItIs>>,
    /// When it was last looked for something to forget.
    looked_at: Option<Instant>,
}

/// So many servers and keys are told apart.
const MOST: usize = 4_096;

/// And so many of those beyond, by chance.
const OVERFLOW: u64 = 64;

/// So many are forgotten at once, so that not every newcomer has to look for one.
const FORGOTTEN: usize = MOST / 8;

/// A table in which nothing can be forgotten is not looked through more often.
const LOOKED_AGAIN: Duration = Duration::from_secs(1);

impl Table {
    /// Those that nobody has and that nothing is to be waited for can be learnt again. The ones that were used last stay.
    fn make_room(&mut self) {
        let now = Instant::now();
        if self.looked_at.is_some_and(|looked| now.duration_since(looked) < LOOKED_AGAIN) {
            return;
        }
        let idle = self.pacers.iter().filter_map(|(key, pacer)| Some((pacer.idle_since()?, *key)));
        let mut idle: Vec<(Time, u64)> = idle.collect();
        idle.sort_unstable();
        for (_, key) in idle.iter().take(FORGOTTEN) {
            self.pacers.remove(key);
        }
        self.looked_at = idle.is_empty().then_some(now);
    }
}

/// The headers that say who is asking, if the program does not say which.
static CREDENTIALS: [HeaderName; 4] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

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
    /// None yet. Who is asking is told by `Authorization`, `X-Api-Key`, `Api-Key` and `X-Goog-Api-Key`.
    pub fn new(settings: Settings) -> Pacers {
        Pacers::with_credentials(settings, CREDENTIALS.iter().cloned())
    }

    /// None yet. Who is asking is told by these headers and no others: for servers that want their keys elsewhere, or for an
    /// `Authorization` that is a signature, another one with each request.
    ///
    /// ```
    /// use http::HeaderName;
    /// use tollgate_client::{Pacers, Settings};
    ///
    /// let pacers = Pacers::with_credentials(Settings::new(), [HeaderName::from_static("x-acme-key")]);
    /// # let _ = pacers;
    /// ```
    pub fn with_credentials(
        settings: Settings,
        headers: impl IntoIterator<Item = HeaderName>,
    ) -> Pacers {
        Pacers(Arc::new(Known {
            settings,
            hash: RandomState::new(),
            credentials: headers.into_iter().collect(),
            table: RwLock::default(),
            overflow: (0..OVERFLOW).map(|_| Pacer::new(settings)).collect(),
        }))
    }

    /// The pacer for requests to this server with these credentials, of no operation in particular.
    pub fn pacer(&self, uri: &Uri, headers: &HeaderMap) -> Pacer {
        self.pacer_for(uri, headers, Ask::default())
    }

    /// The pacer for requests to this server with these credentials that ask for this [operation](Ask::operation).
    pub fn pacer_for(&self, uri: &Uri, headers: &HeaderMap, ask: Ask) -> Pacer {
        let key = self.key(uri, headers, ask.operation);
        if let Some(pacer) = self.0.table.read().pacers.get(&key) {
            return pacer.clone();
        }
        let mut table = self.0.table.write();
        if table.pacers.len() >= MOST && !table.pacers.contains_key(&key) {
            table.make_room();
            if table.pacers.len() >= MOST {
                return self.0.overflow[(key % OVERFLOW) as usize].clone();
            }
        }
        table.pacers.entry(key).or_insert_with(|| Pacer::new(self.0.settings)).clone()
    }

    /// The headers that say who is asking.
    #[cfg(feature = "reqwest")]
    pub(crate) fn credentials(&self, headers: &HeaderMap) -> HeaderMap {
        let mut credentials = HeaderMap::new();
        for name in &self.0.credentials {
            for value in headers.get_all(name) {
                credentials.append(name, value.clone());
            }
        }
        credentials
    }

    pub(crate) fn key(&self, uri: &Uri, headers: &HeaderMap, operation: Option<&str>) -> u64 {
        let mut hasher = self.0.hash.build_hasher();
        operation.hash(&mut hasher);
        hash_server(uri, headers, &mut hasher);
        for name in &self.0.credentials {
            for value in headers.get_all(name) {
                (name.as_str(), value.as_bytes()).hash(&mut hasher);
            }
        }
        hasher.finish()
    }
}

/// The server however it is written: capitals make no other host, and a scheme's own port need not be told. What stands
/// before the host says who is asking.
fn hash_server(uri: &Uri, headers: &HeaderMap, hasher: &mut impl Hasher) {
    uri.scheme().hash(hasher);
    let told = headers.get(HOST).map(HeaderValue::as_bytes);
    let in_header = || Authority::try_from(told?).ok();
    let Some(authority) = uri.authority().cloned().or_else(in_header) else {
        return told.hash(hasher);
    };
    let who = authority.as_str().rsplit_once('@').map(|(who, _)| who);
    let port = authority.port_u16().or(match uri.scheme_str() {
        Some("http") => Some(80),
        Some("https") => Some(443),
        _ => None,
    });
    (who, port).hash(hasher);
    let host = authority.host();
    match host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => host.to_ascii_lowercase().hash(hasher),
        false => host.hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn of(pacers: &Pacers, n: usize) -> Pacer {
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", n.into());
        pacers.pacer(&Uri::from_static("https://api.example.com/"), &headers)
    }

    fn told(pacers: &Pacers) -> usize {
        pacers.0.table.read().pacers.len()
    }

    #[tokio::test(start_paused = true)]
    async fn more_keys_than_can_be_told_apart_do_not_grow_without_end() {
        let pacers = Pacers::new(Settings::new());
        for n in 0..3 * MOST {
            of(&pacers, n);
        }
        assert!((MOST - FORGOTTEN..=MOST).contains(&told(&pacers)), "{}", told(&pacers));
        // Nor if all of them are in use: those beyond share some.
        let pacers = Pacers::new(Settings::new());
        let used: Vec<_> = (0..MOST + 200).map(|n| of(&pacers, n)).collect();
        assert_eq!(told(&pacers), MOST);
        let same = |n: usize, m: usize| Arc::ptr_eq(used[n].shared(), used[m].shared());
        assert!((MOST + 1..used.len()).any(|n| !same(n, MOST)), "all beyond share one");
        // As soon as some are not, newcomers have pacers of their own.
        drop(used);
        tokio::time::advance(LOOKED_AGAIN).await;
        of(&pacers, 2 * MOST);
        assert!(told(&pacers) < MOST);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_server_asked_for_is_not_forgotten() {
        let pacers = Pacers::new(Settings::new());
        let permit = of(&pacers, 0).acquire(Ask::default()).await.unwrap();
        let mut hour = HeaderMap::new();
        hour.insert("retry-after", 3_600u64.into());
        permit.heard(StatusCode::TOO_MANY_REQUESTS, &hour);
        tokio::time::advance(Duration::from_secs(1)).await;
        // All others were used later.
        for n in 1..3 * MOST {
            of(&pacers, n).try_acquire(Ask::default()).unwrap().never_sent();
        }
        assert!(of(&pacers, 0).acquire(Ask::default()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_ones_that_were_used_last_are_not_forgotten() {
        let pacers = Pacers::new(Settings::new());
        for n in 0..MOST {
            let permit = of(&pacers, n).acquire(Ask::default()).await.unwrap();
            tokio::time::advance(Duration::from_millis(1)).await;
            let mut told = HeaderMap::new();
            told.insert("x-ratelimit-remaining", 5u64.into());
            permit.heard(StatusCode::OK, &told);
        }
        of(&pacers, MOST);
        let knows = |n| !of(&pacers, n).status().limits.is_empty();
        assert!(knows(MOST - 1) && knows(FORGOTTEN));
        assert!(!knows(FORGOTTEN - 1) && !knows(0));
    }
}
