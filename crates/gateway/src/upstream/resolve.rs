//! From names to addresses, again and again: names move.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::net::lookup_host;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Origin, Target, Upstream};

/// Why names were not resolved, if they were not.
type Outcome = Option<Arc<std::io::Error>>;

/// The addresses of an upstream, as last resolved.
#[derive(Debug)]
pub(crate) struct Resolved {
    targets: ArcSwap<Vec<Arc<Target>>>,
    /// There is no name among the hosts, so nothing to ask for.
    is_fixed: bool,
    /// Somebody is asking at this moment.
    is_asking: AtomicBool,
    /// What came of it each time: whoever has no address yet waits for the next.
    outcomes: watch::Sender<Outcome>,
    /// When to ask again, in milliseconds since `born`.
    ask_at: AtomicU64,
    born: Instant,
}

/// The system's resolver does not say how long an answer is good for.
const ASK_EVERY: Duration = Duration::from_secs(30);

/// After a failure to connect or resolve.
const ASK_SOON: Duration = Duration::from_secs(1);

impl Resolved {
    pub(crate) fn new(origins: &[Arc<Origin>]) -> Resolved {
        let fixed: Vec<_> = origins.iter().filter_map(fixed).collect();
        let is_fixed = fixed.len() == origins.len();
        Resolved {
            targets: ArcSwap::from_pointee(if is_fixed { fixed } else { Vec::new() }),
            is_fixed,
            is_asking: AtomicBool::new(false),
            outcomes: watch::Sender::default(),
            ask_at: AtomicU64::new(0),
            born: Instant::now(),
        }
    }

    /// The addresses known now. None before names were first asked for.
    pub(crate) fn targets(&self) -> arc_swap::Guard<Arc<Vec<Arc<Target>>>> {
        self.targets.load()
    }

    /// Whether it is time to ask for names.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        !self.is_fixed && self.since_born(now) >= self.ask_at.load(Relaxed)
    }

    /// Something failed that another address might cure.
    pub(crate) fn doubt(&self, now: Instant) {
        if !self.is_fixed {
            self.ask_at.fetch_min(self.since_born(now + ASK_SOON), Relaxed);
        }
    }

    /// What comes of asking from now on.
    pub(crate) fn outcomes(&self) -> watch::Receiver<Outcome> {
        self.outcomes.subscribe()
    }

    /// Asks for all names. Addresses that stay keep their health. A name that cannot be resolved keeps the addresses
    /// it had.
    async fn ask_all(&self, origins: &[Arc<Origin>]) -> std::io::Result<()> {
        let before = self.targets.load_full();
        let mut after: Vec<Arc<Target>> = Vec::new();
        let mut failed = None;
        for origin in origins {
            let of_origin = |target: &&Arc<Target>| Arc::ptr_eq(&target.origin, origin);
            match addresses(origin).await {
                Ok(addresses) => after.extend(addresses.into_iter().map(|address| {
                    let kept = before.iter().filter(of_origin).find(|had| had.address == address);
                    kept.cloned().unwrap_or_else(|| Arc::new(Target::new(address, origin)))
                })),
                Err(error) => {
                    tracing::warn!(host = &*origin.host, %error, "cannot resolve an upstream");
                    after.extend(before.iter().filter(of_origin).cloned());
                    failed = Some(error);
                }
            }
        }
        let is_same = after.len() == before.len()
            && after.iter().all(|target| before.iter().any(|had| Arc::ptr_eq(had, target)));
        if !is_same {
            self.targets.store(Arc::new(after));
        }
        failed.map_or(Ok(()), Err)
    }

    fn since_born(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.born);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Somebody asks for an upstream's names. A lookup blocks a thread for as long as the system's resolver likes, so
/// there is one at a time, which nobody breaks off; whoever waits for it does so for as long as it likes itself.
#[derive(Debug)]
pub(crate) struct Asking {
    upstream: Arc<Upstream>,
    outcome: Outcome,
}

impl Asking {
    /// `None` if somebody asks already.
    pub(crate) fn begin(upstream: &Arc<Upstream>) -> Option<Asking> {
        let is_asking = upstream.resolved.is_asking.swap(true, Relaxed);
        (!is_asking).then(|| Asking { upstream: Arc::clone(upstream), outcome: None })
    }

    pub(crate) async fn ask(mut self) {
        let resolved = self.upstream.resolved();
        let asked = resolved.ask_all(self.upstream.origins()).await;
        let next = if asked.is_ok() { ASK_EVERY } else { ASK_SOON };
        resolved.ask_at.store(resolved.since_born(Instant::now() + next), Relaxed);
        self.outcome = asked.err().map(Arc::new);
    }
}

impl Drop for Asking {
    /// Also where the worker that asked has ended: another may.
    fn drop(&mut self) {
        let resolved = &self.upstream.resolved;
        resolved.is_asking.store(false, Relaxed);
        resolved.outcomes.send_replace(self.outcome.take());
    }
}

fn fixed(origin: &Arc<Origin>) -> Option<Arc<Target>> {
    let address: IpAddr = origin.host.parse().ok()?;
    Some(Arc::new(Target::new(SocketAddr::new(address, origin.port), origin)))
}

async fn addresses(origin: &Origin) -> std::io::Result<Vec<SocketAddr>> {
    if let Ok(address) = origin.host.parse() {
        return Ok(vec![SocketAddr::new(address, origin.port)]);
    }
    let mut addresses: Vec<_> = lookup_host((&*origin.host, origin.port)).await?.collect();
    addresses.sort_unstable();
    addresses.dedup();
    match addresses.is_empty() {
        true => Err(std::io::Error::other("the name has no address")),
        false => Ok(addresses),
    }
}
