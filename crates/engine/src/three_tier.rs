//! Three tiers ready made: backpressure, then the client, then the organization.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tollgate_core::{Limit, LimitError, Rate, Refusal};

use crate::chain::{Chain, Charge, Verdict};
use crate::{Backpressure, Clock, Limiter, Rule, SystemClock};

/// The figures of a [`ThreeTier`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiers {
    /// How much may be pending.
    pub threshold: u64,
    /// Tokens a client gets a second, and how many it may save up.
    pub client: Tier,
    /// Tokens an organization gets a second, and how many it may save up.
    pub organization: Tier,
}

/// A token bucket's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tier {
    /// Tokens a second.
    pub rate: u64,
    /// Tokens at most.
    pub capacity: u64,
}

impl Default for Tiers {
    /// 100 pending; clients 50 a second and 100 at once; organizations ten times that.
    fn default() -> Tiers {
        Tiers {
            threshold: Backpressure::DEFAULT_THRESHOLD,
            client: Tier { rate: 50, capacity: 100 },
            organization: Tier { rate: 500, capacity: 1_000 },
        }
    }
}

impl Tier {
    fn limit(self) -> Result<Limit, LimitError> {
        Limit::token_bucket(Rate::per_second(self.rate)).burst(self.capacity).build()
    }
}

/// A limiter for whoever wants just this: no request may overload the system, no client its organization,
/// no organization the others.
///
/// ```
/// use tollgate_engine::{ThreeTier, TierRefusal};
///
/// let limiter = ThreeTier::new();
/// for _ in 0..100 {
///     assert!(limiter.check("batch-job", "acme").is_ok());
/// }
/// assert!(matches!(limiter.check("batch-job", "acme"), Err(TierRefusal::Client(_))));
/// assert!(limiter.check("website", "acme").is_ok());
/// ```
#[derive(Debug)]
pub struct ThreeTier<C = SystemClock> {
    limiter: Limiter<C>,
    backpressure: Backpressure,
    rules: ArcSwap<Rules>,
    /// Two at once could leave one's rules in force with the other's figures.
    updating: Mutex<()>,
}

#[derive(Debug)]
struct Rules {
    client: Arc<Rule>,
    organization: Arc<Rule>,
}

/// Which tier refused, and how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TierRefusal {
    /// Too much is pending.
    Backpressure(Duration),
    /// The client has spent its tokens.
    Client(Refusal),
    /// The organization's clients have together spent its tokens.
    Organization(Refusal),
}

impl TierRefusal {
    /// How long until this request passes; `None` if its cost is above the tier's capacity.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            TierRefusal::Backpressure(wait) => Some(*wait),
            TierRefusal::Client(refusal) | TierRefusal::Organization(refusal) => {
                refusal.retry_after()
            }
        }
    }
}

impl ThreeTier {
    /// With the default figures, on the system's clock.
    pub fn new() -> ThreeTier {
        ThreeTier::with_limiter(Limiter::new(), Tiers::default())
            .expect("the default figures make sense")
    }
}

impl Default for ThreeTier {
    fn default() -> ThreeTier {
        ThreeTier::new()
    }
}

impl<C: Clock> ThreeTier<C> {
    /// With figures, a clock and a bound on memory of your own.
    pub fn with_limiter(limiter: Limiter<C>, tiers: Tiers) -> Result<ThreeTier<C>, LimitError> {
        let rules = ArcSwap::from_pointee(define(&limiter, tiers)?);
        let backpressure = Backpressure::new(tiers.threshold);
        Ok(ThreeTier { limiter, backpressure, rules, updating: Mutex::new(()) })
    }

    /// Charges one token to both tiers, or nothing.
    pub fn check(&self, client: &str, organization: &str) -> Result<(), TierRefusal> {
        self.check_cost(client, organization, 1)
    }

    /// Charges `cost` tokens to both tiers, or nothing.
    pub fn check_cost(
        &self,
        client: &str,
        organization: &str,
        cost: u64,
    ) -> Result<(), TierRefusal> {
        self.backpressure.check().map_err(TierRefusal::Backpressure)?;
        let rules = self.rules.load();
        let mut chain = Chain::new();
        // A client belongs to its organization: the same name elsewhere is another client.
        let client = self.limiter.identity(&(organization, client));
        chain.push(Charge::new(&rules.client, client).cost(cost));
        let organization = self.limiter.identity(organization);
        chain.push(Charge::new(&rules.organization, organization).cost(cost));
        match self.limiter.take(&mut chain) {
            Verdict::Refused { by: 0, refusal } => Err(TierRefusal::Client(refusal)),
            Verdict::Refused { refusal, .. } => Err(TierRefusal::Organization(refusal)),
            _ => Ok(()),
        }
    }

    /// How much is pending: set it, or let [`enter`](Backpressure::enter) count.
    pub fn backpressure(&self) -> &Backpressure {
        &self.backpressure
    }

    /// Changes all figures at once, for the next request on. Buckets keep their tokens. Figures
    /// that make no sense change nothing.
    pub fn update(&self, tiers: Tiers) -> Result<(), LimitError> {
        let _alone = self.updating.lock();
        self.rules.store(Arc::new(define(&self.limiter, tiers)?));
        self.backpressure.set_threshold(tiers.threshold);
        Ok(())
    }

    /// The limiter underneath, for its [`stats`](Limiter::stats) and [`sweep`](Limiter::sweep).
    pub fn limiter(&self) -> &Limiter<C> {
        &self.limiter
    }
}

fn define<C: Clock>(limiter: &Limiter<C>, tiers: Tiers) -> Result<Rules, LimitError> {
    // Both are built before either is defined: figures that make no sense change nothing.
    let (client, organization) = (tiers.client.limit()?, tiers.organization.limit()?);
    Ok(Rules {
        client: limiter.define("client", client),
        organization: limiter.define("organization", organization),
    })
}
