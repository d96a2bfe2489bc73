//! All quotas that are being spent.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hashbrown::{DefaultHashBuilder, HashMap};
use parking_lot::Mutex;

use super::{QuotaAccount, Refund};
use crate::request::Reply;
use crate::{Store, StoreError, Unavailable};

const SHARDS: usize = 64;
/// A shard has room for so many at least, or is the only one: else chance would fill some while others are empty.
const FEWEST: usize = 256;

/// All quotas that are being spent, by name. Names tell whose it is and over what: a plan is no part of it, so that who changes
/// the plan keeps what was used.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate_core::Time;
/// use tollgate_storage::{Draw, Embedded, QuotaBook, QuotaPeriod};
///
/// let folder = tempfile::tempdir()?;
/// let store = Embedded::at(folder.path()).open()?;
/// let book = QuotaBook::new(store.clone(), 100_000);
///
/// let period = QuotaPeriod { begins: Time::EPOCH, ends: Time::from_secs(86_400) };
/// let draw = Draw { amount: 1, limit: 10_000, period };
/// let account = book.account("tenant:acme/user:ci/day")?;
/// account.spend(draw).await?;          // the first waits for a block
/// account.try_spend(draw)?;            // the next hundred do not
///
/// book.close().await?;                 // exact: what is reserved and not spent is given back
/// assert_eq!(store.quota_taken("tenant:acme/user:ci/day", period.begins).await?, 2);
/// store.close().await?;
/// # Ok(())
/// # }
/// ```
pub struct QuotaBook {
    store: Store,
    shards: Box<[Mutex<Accounts>]>,
    hasher: DefaultHashBuilder,
    most_in_shard: AtomicUsize,
}

type Accounts = HashMap<Box<str>, Arc<QuotaAccount>>;

impl QuotaBook {
    /// A book that keeps at most about so many accounts in memory.
    pub fn new(store: Store, max_accounts: usize) -> QuotaBook {
        let many = (max_accounts / FEWEST).clamp(1, SHARDS);
        let shards = (0..many).map(|_| Mutex::default()).collect();
        let (hasher, most_in_shard) = (DefaultHashBuilder::default(), AtomicUsize::new(0));
        let book = QuotaBook { store, shards, hasher, most_in_shard };
        book.set_max_accounts(max_accounts);
        book
    }

    /// It keeps at most about so many from now on.
    pub fn set_max_accounts(&self, max_accounts: usize) {
        self.most_in_shard.store(max_accounts.div_ceil(self.shards.len()).max(1), Relaxed);
    }

    /// The quota with this name.
    ///
    /// # Errors
    ///
    /// If as many as may be are in use at this moment.
    pub fn account(&self, name: &str) -> Result<Arc<QuotaAccount>, Unavailable> {
        let mut shard = self.shards[self.hasher.hash_one(name) as usize % self.shards.len()].lock();
        if let Some(account) = shard.get(name) {
            return Ok(Arc::clone(account));
        }
        let most = self.most_in_shard.load(Relaxed);
        if shard.len() >= most {
            self.settle(&mut shard, most.div_ceil(8));
        }
        if shard.len() >= most {
            return Err(Unavailable::Failed("too many quotas are in use at once".to_owned()));
        }
        let account = Arc::new(QuotaAccount::new(name, self.store.clone()));
        shard.insert(name.into(), Arc::clone(&account));
        Ok(account)
    }

    /// Gives back what is reserved by accounts that nobody holds, and forgets them. To be called now and then, so that
    /// quotas which are not being spent strand nothing in a crash.
    pub fn settle_idle(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let all = shard.len();
            self.settle(&mut shard, all);
        }
    }

    /// Forgets up to `wanted` accounts that nobody else holds. Whoever asks for one again asks the store after it has
    /// been told, because messages arrive in order. A refund that fails is stranded, as in a crash.
    fn settle(&self, accounts: &mut Accounts, wanted: usize) {
        let mut refunds = Vec::new();
        let mut left = wanted;
        accounts.retain(|_, account| {
            let is_idle = left > 0 && Arc::strong_count(account) == 1;
            let Some(refund) = is_idle.then(|| account.take_unspent()).flatten() else {
                return true;
            };
            left -= 1;
            if refund.amount > 0 {
                refunds.push(refund);
            }
            false
        });
        if !refunds.is_empty() {
            self.store.refund(refunds, Reply::to(drop));
        }
    }

    /// Spends nothing more, and gives back exactly what is reserved and not spent.
    ///
    /// # Errors
    ///
    /// If the store does not work: then up to a block of each quota is stranded, unless this is called again and works.
    pub async fn close(&self) -> Result<(), StoreError> {
        let accounts: Vec<Arc<QuotaAccount>> = self
            .shards
            .iter()
            .flat_map(|shard| shard.lock().values().cloned().collect::<Vec<_>>())
            .collect();
        accounts.iter().for_each(|account| account.close());
        // Nobody asks any more, so what is on its way is answered in a few rounds.
        loop {
            self.store.barrier().await?;
            if !accounts.iter().any(|account| account.is_asking()) {
                break;
            }
        }
        let refunds: Vec<(&QuotaAccount, Refund)> = accounts
            .iter()
            .filter_map(|account| Some((&**account, account.take_unspent()?)))
            .filter(|(_, refund)| refund.amount > 0)
            .collect();
        let (reply, answer) = Reply::channel();
        self.store.refund(refunds.iter().map(|(_, refund)| refund.clone()).collect(), reply);
        let done = answer.await.unwrap_or(Err(Unavailable::Closed.into()));
        if done.is_err() {
            refunds.iter().for_each(|(account, refund)| account.put_unspent(refund));
        }
        done
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// How many quotas are in memory.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for QuotaBook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotaBook").field("accounts", &self.len()).finish()
    }
}
