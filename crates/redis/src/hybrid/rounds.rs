//! Tells Redis of accounts, and them of Redis, when each is due.
//!
//! An account in use is due τ after it was last told, and the loop sleeps until the first one is: so nothing stays untold for longer
//! than τ. One that rests is due when somebody asks for it, and forgotten when nobody has for long. Calls go the way that requests go, so only so many are under way at once; however many are due, a
//! request waits for no more than these. What an account waits for its turn counts as part of the round trip.

use std::hash::BuildHasher;
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_engine::{Clock, Rule, Time};

use super::account::{Account, Book, RESTING};
use super::agenda::Agenda;
use super::{Accounts, Shared};
use crate::Strict;
use crate::calls::IN_BACKGROUND;

/// How often the loop looks whether there is still anybody to tell for.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// In so many intervals nodes that hear of one another have long done so.
const A_LONG_SILENCE: u32 = 2 * RESTING;

/// After so many intervals without an answer for it, an account that rests is forgotten.
const FORGOTTEN: u32 = 240;

/// Tells accounts when they are due, for as long as somebody holds them.
pub(super) async fn run<C: Clock + 'static>(
    weak: Weak<Shared<C>>,
    agenda: Arc<Agenda>,
    strict: Strict,
) {
    let mut under_way = FuturesUnordered::new();
    let (mut swept, mut sweeps) = (Instant::now(), 0usize);
    loop {
        let Some(shared) = weak.upgrade() else { return };
        let (now, is_up) = (Instant::now(), strict.is_up());
        // One shard at a time, so that no request waits for long.
        let pause = shared.interval * FORGOTTEN / shared.shards.len() as u32;
        if now >= swept + pause {
            shared.forget(sweeps % shared.shards.len(), now);
            (swept, sweeps) = (now, sweeps.wrapping_add(1));
        }
        let mut wake = (now + LONGEST_SLEEP).min(swept + pause);
        // While nobody can be told, what is due stays so: then it is told in the order in which it became due.
        while is_up && under_way.len() < IN_BACKGROUND {
            match agenda.take(now) {
                Ok((_, account)) if shared.rests(&account) => {}
                Ok((due, account)) => {
                    let shared = Arc::clone(&shared);
                    under_way.push(async move { shared.tell(&account, due).await });
                }
                Err(next) => {
                    wake = next.map_or(wake, |next| next.min(wake));
                    break;
                }
            }
        }
        drop(shared);
        tokio::select! {
            Some(()) = under_way.next(), if !under_way.is_empty() => {}
            () = agenda.is_sooner(), if is_up => {}
            () = strict.up(), if !is_up => {}
            () = sleep_until(wake) => {}
        }
    }
}

impl<C: Clock + 'static> Shared<C> {
    /// Asks for an account of which too little is known to decide by. Those who want to know it at the same time share the answer.
    /// Whoever waits for another's answer and finds that too old asks again, and until the deadline at most for both.
    pub(super) async fn refresh(
        self: &Arc<Self>,
        account: &Arc<Account>,
        now: Time,
        deadline: Instant,
    ) {
        let (reply, answer) = oneshot::channel();
        let (shared, account) = (Arc::clone(self), Arc::clone(account));
        // In a task of its own: whoever hangs up must not take the answer along, which is everybody's.
        self.strict.runtime().spawn(async move {
            let opened = shared.strict.times_opened();
            let mut known = pin!(shared.ask_in_turn(&account, now));
            if timeout_at(deadline, &mut known).await.is_err() {
                // Until it is answered the share decides, as if it were not.
                account.note_heard(opened, false);
                // Whoever asks after this finds it failed, and does nothing.
                shared.put(&account, Instant::now(), Some(shared.interval / 8));
                let _ = reply.send(());
                return known.await;
            }
            let _ = reply.send(());
        });
        let _ = answer.await;
    }

    async fn ask_in_turn(&self, account: &Arc<Account>, now: Time) {
        let since = Instant::now();
        let _turn = account.turn.lock().await;
        if account.is_stale(now, self.strict.times_opened()) && self.can_ask(account) {
            let pause = self.sync(account, since).await.unwrap_or(Some(self.interval));
            self.put(account, since, pause);
        }
    }
}

impl<C: Clock> Shared<C> {
    /// Whether nobody wants to know of an account, and there is nothing to tell.
    fn rests(&self, account: &Account) -> bool {
        let is_idle = account.idle.load(Relaxed) >= RESTING && !account.is_wanted.load(Relaxed);
        // One that could not be told is tried until it is: till then the fallback decides.
        is_idle && !account.has_failed(self.strict.times_opened()) && account.is_all_told()
    }

    /// Forgets those of a shard that have rested for long and that nobody holds.
    fn forget(&self, shard: usize, now: Instant) {
        let long = self.interval * FORGOTTEN;
        let mut accounts = self.shards[shard].lock();
        self.drop_resting(&mut accounts, |account| now >= account.book.lock().settled + long);
    }

    /// Whether a shard has room for one more. If not, those that rest make room, however short they do: but they are looked for only
    /// once in an interval, for that takes as long as there are accounts, and whoever comes meanwhile waits for it.
    pub(super) fn has_room(&self, accounts: &mut Accounts, now: Instant) -> bool {
        let most = self.most_in_shard.load(Relaxed);
        let is_full = |accounts: &Accounts| accounts.by_key.len() >= most;
        if is_full(accounts) && accounts.searched.is_none_or(|last| now >= last + self.interval) {
            accounts.searched = Some(now);
            self.drop_resting(accounts, |_| true);
        }
        !is_full(accounts)
    }

    /// Forgets those of these that rest and that nobody holds.
    fn drop_resting(&self, accounts: &mut Accounts, is_one: impl Fn(&Account) -> bool) {
        accounts.by_key.retain(|_, account| {
            Arc::strong_count(account) > 1 || !is_one(account) || !self.rests(account)
        });
    }

    /// Tells Redis what was consumed of an account that is due since then, and says when it is due again.
    pub(super) async fn tell(&self, account: &Arc<Account>, due: Instant) {
        let _turn = account.turn.lock().await;
        let asked = Instant::now();
        // If it could not be told its sum will say it again; meanwhile this node decides by what it knows.
        let pause = self.sync(account, due).await.unwrap_or(Some(self.interval));
        self.put(account, asked, pause);
    }

    /// Tells what is untold of an account, if anything is.
    pub(super) async fn tell_untold(&self, account: &Account) {
        let _turn = account.turn.lock().await;
        if !account.is_all_told() {
            self.sync(account, Instant::now()).await;
        }
    }

    fn put(&self, account: &Arc<Account>, asked: Instant, pause: Option<Duration>) {
        if let Some(pause) = pause {
            self.agenda.put(account, asked + self.spread(pause));
        }
    }

    /// How soon to ask again, if there was an answer, and unless it rests.
    async fn sync(&self, account: &Account, due: Instant) -> Option<Option<Duration>> {
        account.is_wanted.store(false, Relaxed);
        let was_resting = account.idle.load(Relaxed) >= RESTING;
        let (opened, asked) = (self.strict.times_opened(), self.limiter.clock().now());
        let (told, rule, figures) = {
            let mut book = account.book.lock();
            account.write_down(&mut book);
            if !account.is_heard(opened) {
                self.forgive(account, &mut book);
            }
            (book.ledger.statement(), Arc::clone(&book.rule), Arc::clone(&book.figures))
        };
        let settled = self.strict.sync(&account.key, &figures, (&self.node, told)).await;
        let Ok(settled) = settled else {
            account.note_heard(opened, false);
            return None;
        };
        let now = Instant::now();
        let (news, since) = {
            let mut book = account.book.lock();
            if told.unsent == 0 && account.unwritten.load(Relaxed) == 0 {
                account.idle.fetch_add(1, Relaxed);
            }
            // What was consumed meanwhile is not in the answer.
            account.write_down(&mut book);
            let since = std::mem::replace(&mut book.settled, now);
            let news = book.ledger.settle(told, settled);
            let is_anew = account.has(&figures) && std::mem::take(&mut book.is_begun_anew);
            (if is_anew { news.to_a_new_counter() } else { news }, since)
        };
        self.measure(news.others(), (now - due, now - since), now);
        // After an outage or a rest, however short, time may have brought others tokens for which there was no room here.
        let is_long = now - since >= A_LONG_SILENCE * self.interval;
        match was_resting || is_long || !account.is_heard(opened) {
            true => news.catch_up(&self.limiter, &rule, account.identity),
            false => news.apply(&self.limiter, &rule, account.identity),
        }
        // Under other figures it may be another counter, of which this says nothing.
        if account.has(&figures) {
            account.refreshed(asked, self.interval);
        }
        // Not before that: until then the share decides.
        account.note_heard(opened, true);
        Some(self.pause(&rule, account))
    }

    /// Of what was admitted while nobody could be told, time has paid off what this node's own counter no longer owes. The
    /// others are told the rest: Redis' counter was refilled all the while, but only until it was full.
    fn forgive(&self, account: &Account, book: &mut Book) {
        let standing = self.limiter.peek(&book.rule, account.identity);
        let owed = standing.limit.saturating_sub(standing.remaining);
        let paid = book.ledger.unsent().saturating_sub(owed);
        book.ledger.unconsume(paid);
    }

    /// Notes how much of a counter stays unknown here at most, by what others have consumed since it was last settled.
    fn measure(&self, others: u64, (round_trip, since): (Duration, Duration), now: Instant) {
        let micros = u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX);
        self.round_trip.note(micros, now);
        let rate = others as f64 / since.max(Duration::from_millis(1)).as_secs_f64();
        let unknown = (2 * self.interval + round_trip).as_secs_f64();
        self.overshoot.note((rate * unknown).ceil() as u64, now);
    }

    /// How soon to ask again: sooner near the limit, and not at all where nothing happens.
    fn pause(&self, rule: &Rule, account: &Account) -> Option<Duration> {
        let standing = self.limiter.peek(rule, account.identity);
        let is_near = standing.remaining < standing.limit / 4;
        match account.idle.load(Relaxed) {
            0 if is_near => Some(self.interval / 4),
            0..RESTING => Some(self.interval),
            _ => None,
        }
    }

    /// A little less, each time another: what became due together does not stay together.
    fn spread(&self, pause: Duration) -> Duration {
        let random = self.hasher.hash_one(Instant::now());
        pause - pause.mul_f64((random >> 11) as f64 / (1u64 << 53) as f64 / 8.0)
    }
}

#[cfg(test)]
mod tests {
    use tollgate_engine::{Limit, Limiter, Rate};

    use super::*;
    use crate::{Figures, Hybrid, Settings};

    #[tokio::test]
    async fn an_account_is_due_within_an_interval_and_at_once_when_it_wakes() {
        let hour = Duration::from_secs(3600);
        let limit = Limit::token_bucket(Rate::per_day(1)).burst(100).build().unwrap();
        let figures = Arc::new(Figures::of(&limit).unwrap());
        let limiter = Arc::new(Limiter::new());
        let (rule, id) = (limiter.define("user", limit), limiter.identity("alice"));
        // Nobody listens there, so nothing is taken from the agenda but here.
        let strict = Strict::start(Settings::new("redis://127.0.0.1:1").unwrap());
        let hybrid = Hybrid::start(strict, Arc::clone(&limiter), (hour, 100));
        let shared = &hybrid.0;
        let account = hybrid.account("alice", (&rule, id), &figures).unwrap();
        let due_by = |when| shared.agenda.take(when).map(|(at, _)| at);
        assert!(due_by(Instant::now()).is_err(), "its first charge is about to come");
        assert!(due_by(Instant::now() + hour / 8).is_ok(), "or does not");
        let asked = Instant::now();
        shared.tell(&account, asked).await;
        let due = due_by(Instant::now() + hour).expect("within the interval");
        assert!(due >= asked + hour * 7 / 8);

        account.idle.store(RESTING, Relaxed);
        shared.agenda.put(&account, Instant::now() + 4 * hour);
        hybrid.consumed_of(&account, (&rule, &figures), 1);
        assert!(due_by(Instant::now()).is_ok(), "it was at rest");
        hybrid.consumed_of(&account, (&rule, &figures), 1);
        assert!(due_by(Instant::now()).is_err(), "it is in use already");

        assert_eq!(shared.pause(&rule, &account), Some(hour));
        limiter.check(&rule, id, 76).unwrap();
        assert_eq!(shared.pause(&rule, &account), Some(hour / 4), "near the limit");
        account.idle.store(1, Relaxed);
        assert_eq!(shared.pause(&rule, &account), Some(hour));
        account.idle.store(RESTING, Relaxed);
        assert_eq!(shared.pause(&rule, &account), None, "it rests");
    }

    #[tokio::test]
    async fn who_waits_for_anothers_answer_waits_until_the_deadline_at_most() {
        let limit = Limit::token_bucket(Rate::per_day(1)).burst(100).build().unwrap();
        let figures = Arc::new(Figures::of(&limit).unwrap());
        let limiter = Arc::new(Limiter::new());
        let (rule, id) = (limiter.define("user", limit), limiter.identity("alice"));
        let strict = Strict::start(Settings::new("redis://127.0.0.1:1").unwrap());
        let hybrid = Hybrid::start(strict, Arc::clone(&limiter), (Duration::from_secs(60), 100));
        let account = hybrid.account("alice", (&rule, id), &figures).unwrap();
        let _another = account.turn.lock().await;
        let refreshed = hybrid.refresh(&account, limiter.clock().now(), Instant::now());
        tokio::time::timeout(Duration::from_secs(30), refreshed).await.expect("it has an end");
        // Whether nobody listens there may be found out at any moment.
        assert!((0..9).any(|opened| account.has_failed(opened)), "the share decides");
    }
}
