//! What a node knows of one shared counter: what it has consumed, and what all have.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::owed::InView;

/// A node's account with one counter in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Which account it is. Redis keeps a node's sum, and must not take that of an account which the node has forgotten for
    /// this one's.
    account: u64,
    /// When the counter began, as Redis last said; 0 if it did not.
    born: i64,
    /// What we have consumed of it since then.
    sum: u64,
    /// How much of that Redis has acknowledged.
    acknowledged: u64,
    /// The highest sum that was stated. Redis may have counted it, also if no answer came.
    stated: u64,
    /// What of the stated and not acknowledged is not to be counted any more, if it was not counted already.
    forgiven: u64,
    /// What all have consumed since then, as Redis last said.
    total: u64,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) account: u64,
    pub(crate) born: i64,
    pub(crate) sum: u64,
    pub(crate) unsent: u64,
    pub(crate) forgiven: u64,
    pub(crate) total: u64,
    /// In which windows it counts.
    pub(crate) in_view: InView,
    pub(crate) purpose: Telling,
}

/// What a statement is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// To be counted.
    Consumed,
    /// The same of a counter before: one of another algorithm is left as it is.
    Former,
    /// The counter is to be made new instead.
    Reset,
}

impl Statement {
    /// Makes the counter new.
    pub(crate) const RESET: Statement = Statement {
        account: 0,
        born: 0,
        sum: 0,
        unsent: 0,
        forgiven: 0,
        total: 0,
        in_view: InView::ALWAYS,
        purpose: Telling::Reset,
    };

    /// The same, to be counted in these windows only.
    pub(crate) fn counting_in(self, in_view: InView) -> Statement {
        Statement { in_view, ..self }
    }

    /// The same, of a counter before.
    pub(crate) fn of_former(self) -> Statement {
        Statement { purpose: Telling::Former, ..self }
    }
}

/// What Redis answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) born: i64,
    pub(crate) total: u64,
    /// What others have consumed that we have not been told, if we know this counter.
    pub(crate) news: u64,
    /// What is left of the counter, perhaps a debt.
    pub(crate) rest: i64,
    /// Whether the counter began because it was made new by hand.
    pub(crate) is_reset: bool,
}

/// What is to be done to this node's own counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Others have consumed so much, and this is left of the counter: it is charged no further than to there. The others' charges
    /// of a long time come in one sum, of which time has paid off more than a full counter can hold.
    Others(u64, i64),
    /// Nothing was known of the others: no more than this is left.
    Left(i64),
    /// The counter was made new: exactly this is left.
    Anew(i64),
}

impl News {
    /// What others have consumed, where that is known.
    pub(crate) fn others(self) -> u64 {
        match self {
            News::Others(consumed, _) => consumed,
            News::Left(_) | News::Anew(_) => 0,
        }
    }

    /// The same for a counter of this node that knows nothing of the one in Redis.
    pub(crate) fn to_a_new_counter(self) -> News {
        match self {
            News::Others(_, rest) => News::Left(rest),
            News::Left(_) | News::Anew(_) => self,
        }
    }

    /// How much to charge to a counter of which so much remains, or which is so much in debt.
    pub(crate) fn charge(self, remaining: i64) -> u64 {
        let down_to = |rest| u64::try_from(remaining.saturating_sub(rest)).unwrap_or(0);
        match self {
            News::Others(consumed, rest) => consumed.min(down_to(rest)),
            News::Left(rest) | News::Anew(rest) => down_to(rest),
        }
    }
}

/// How many accounts this process has begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);

impl Ledger {
    /// A new account, unlike all that this process has begun before.
    pub(crate) fn begin() -> Ledger {
        let account = BEGUN.fetch_add(1, Relaxed) + 1;
        Ledger { account, born: 0, sum: 0, acknowledged: 0, stated: 0, forgiven: 0, total: 0 }
    }

    pub(crate) fn consume(&mut self, cost: u64) {
        self.sum = self.sum.saturating_add(cost);
    }

    /// Takes back what was consumed and not yet told; what was told stays, and time repays it.
    ///
    /// Where a statement is under way or its answer was lost, only Redis knows which of the two it is. So a sum that was
    /// stated is never lowered: what was to be taken from it is stated beside it.
    pub(crate) fn unconsume(&mut self, cost: u64) {
        let unstated = cost.min(self.sum - self.stated);
        self.sum -= unstated;
        self.forgiven += (cost - unstated).min(self.unsent());
    }

    /// What is still to be told.
    pub(crate) fn unsent(&self) -> u64 {
        self.sum - self.acknowledged - self.forgiven
    }

    pub(crate) fn statement(&mut self) -> Statement {
        self.stated = self.sum;
        let Ledger { account, born, sum, forgiven, total, .. } = *self;
        let unsent = sum - self.acknowledged;
        let in_view = InView::ALWAYS;
        Statement {
            account,
            born,
            sum,
            unsent,
            forgiven,
            total,
            in_view,
            purpose: Telling::Consumed,
        }
    }

    /// Enters the answer to the last statement, and tells what that means here.
    pub(crate) fn settle(&mut self, sent: Statement, settled: Settled) -> News {
        let since = self.sum.saturating_sub(sent.sum);
        let is_known = settled.born == self.born;
        if is_known {
            self.acknowledged = sent.sum;
        } else {
            // The counter is another one: it knows only what we have just told it.
            (self.acknowledged, self.sum) = (sent.unsent, sent.unsent + since);
        }
        (self.stated, self.forgiven) = (self.acknowledged, 0);
        (self.born, self.total) = (settled.born, settled.total);
        let rest = settled.rest.saturating_sub_unsigned(since);
        match (is_known, settled.is_reset) {
            (true, _) => News::Others(settled.news, rest),
            (false, false) => News::Left(rest),
            (false, true) => News::Anew(rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_consumed_while_redis_is_told_is_told_next_time() {
        let mut ledger = Ledger::begin();
        let account = ledger.account;
        assert_ne!(Ledger::begin().account, account);
        ledger.consume(5);
        let sent = ledger.statement();
        assert_eq!(
            sent,
            Statement {
                account,
                born: 0,
                sum: 5,
                unsent: 5,
                forgiven: 0,
                total: 0,
                in_view: InView::ALWAYS,
                purpose: Telling::Consumed
            }
        );
        ledger.consume(2);
        let news =
            ledger.settle(sent, Settled { born: 9, total: 8, news: 0, rest: 92, is_reset: false });
        assert_eq!(news, News::Left(90));
        assert_eq!((news.charge(93), news.charge(80)), (3, 0));
        assert_eq!(
            ledger.statement(),
            Statement {
                account,
                born: 9,
                sum: 7,
                unsent: 2,
                forgiven: 0,
                total: 8,
                in_view: InView::ALWAYS,
                purpose: Telling::Consumed
            }
        );
        // A lost answer changes nothing: the sum says it again.
        ledger.consume(1);
        assert_eq!(
            ledger.statement(),
            Statement {
                account,
                born: 9,
                sum: 8,
                unsent: 3,
                forgiven: 0,
                total: 8,
                in_view: InView::ALWAYS,
                purpose: Telling::Consumed
            }
        );
        let sent = ledger.statement();
        let news =
            ledger.settle(sent, Settled { born: 20, total: 3, news: 0, rest: -4, is_reset: false });
        assert_eq!(news.charge(0), 4);
        assert_eq!(
            ledger.statement(),
            Statement {
                account,
                born: 20,
                sum: 3,
                unsent: 0,
                forgiven: 0,
                total: 3,
                in_view: InView::ALWAYS,
                purpose: Telling::Consumed
            }
        );
        let (sent, settled) =
            (ledger.statement(), Settled { born: 20, total: 9, news: 6, rest: 1, is_reset: false });
        let news = ledger.settle(sent, settled);
        assert_eq!(news, News::Others(6, 1));
        assert_eq!((news.charge(9), news.charge(5), news.charge(1), news.charge(-7)), (6, 4, 0, 0));
    }
    #[test]
    fn a_sum_that_was_stated_is_never_lowered() {
        let mut ledger = Ledger::begin();
        ledger.consume(5);
        let sent = ledger.statement();
        ledger.consume(1);
        ledger.unconsume(4);
        assert_eq!((ledger.sum, ledger.forgiven, ledger.unsent()), (5, 3, 2));
        // The answer came: what was told stays.
        let mut answered = ledger;
        let news = answered
            .settle(sent, Settled { born: 9, total: 5, news: 0, rest: 95, is_reset: false });
        assert_eq!((news, answered.unsent()), (News::Left(95), 0));
        answered.unconsume(7);
        assert_eq!((answered.sum, answered.unsent()), (5, 0));
        // It did not: whether the sum was counted is for Redis to say.
        ledger.consume(10);
        ledger.unconsume(100);
        assert_eq!((ledger.sum, ledger.forgiven, ledger.unsent()), (5, 5, 0));
    }
}
