//! Which account is told when.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::account::Account;

/// Accounts by when they are due.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    entries: Mutex<BinaryHeap<Entry>>,
    is_sooner: Notify,
}

#[derive(Debug)]
struct Entry {
    at: Instant,
    account: Arc<Account>,
}

impl Agenda {
    /// Has an account told at `at`, unless it is due before that.
    pub(super) fn put(&self, account: &Arc<Account>, at: Instant) {
        {
            let mut book = account.book.lock();
            if book.due.is_some_and(|due| due <= at) {
                return;
            }
            book.due = Some(at);
        }
        let mut entries = self.entries.lock();
        let is_first = entries.peek().is_none_or(|first| at < first.at);
        entries.push(Entry { at, account: Arc::clone(account) });
        drop(entries);
        if is_first {
            self.is_sooner.notify_one();
        }
    }

    /// The account that has been due for longest, and since when. If there is none: when the next one is.
    pub(super) fn take(&self, now: Instant) -> Result<(Instant, Arc<Account>), Option<Instant>> {
        loop {
            let Entry { at, account } = {
                let mut entries = self.entries.lock();
                let first = entries.peek().map(|first| first.at);
                if first.is_none_or(|first| first > now) {
                    return Err(first);
                }
                entries.pop().ok_or(None)?
            };
            let mut book = account.book.lock();
            // Else it was put before this entry, and has been taken.
            if book.due == Some(at) {
                book.due = None;
                drop(book);
                return Ok((at, account));
            }
        }
    }

    /// Waits until something is due sooner than all else.
    pub(super) async fn is_sooner(&self) {
        self.is_sooner.notified().await;
    }
}

// The greatest is taken first: what is due first.
impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        other.at.cmp(&self.at)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.at == other.at
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_engine::{Limit, Limiter, Rate};

    use super::*;
    use crate::Figures;

    #[test]
    fn what_is_due_first_is_told_first_and_once() {
        let limiter = Limiter::new();
        let limit = Limit::token_bucket(Rate::per_second(1)).build().unwrap();
        let figures = Arc::new(Figures::of(&limit).unwrap());
        let rule = limiter.define("user", limit);
        let begin = Instant::now();
        let after = |millis| begin + Duration::from_millis(millis);
        let account = |key: &str| {
            let charge = (&rule, limiter.identity(key));
            Arc::new(Account::new(key, charge, &figures, (begin, Some(0))))
        };
        let (one, two, agenda) = (account("one"), account("two"), Agenda::default());
        assert_eq!(agenda.take(begin).unwrap_err(), None);
        agenda.put(&one, after(30));
        agenda.put(&two, after(20));
        agenda.put(&one, after(10));
        // It is due before that already.
        agenda.put(&one, after(40));
        assert_eq!(agenda.take(begin).unwrap_err(), Some(after(10)));
        let (at, account) = agenda.take(after(60)).unwrap();
        assert_eq!((at, &account.key[..]), (after(10), "one"));
        // It comes to be due again while it is told.
        agenda.put(&one, after(50));
        assert_eq!(agenda.take(after(60)).unwrap().1.key, "two");
        assert_eq!(agenda.take(after(60)).unwrap().0, after(50));
        assert_eq!(agenda.take(after(60)).unwrap_err(), None);
    }
}
