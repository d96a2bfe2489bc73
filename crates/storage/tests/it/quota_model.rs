//! Quotas against a model that is told of every crash.

use std::cell::Cell;

use proptest::prelude::*;
use tokio::task::JoinSet;
use tollgate_storage::{Draw, NotSpent, QuotaBook, Spent, Store, block};

use crate::homes::{Kind, on_every_store, store};
use crate::quotas::{period, settled};
use crate::runtime;

#[derive(Clone, Debug)]
enum Op {
    Spend(u64),
    SpendAtOnce(u64, usize),
    GiveBack(usize),
    HangUp(u64),
    NewLimit(u64),
    NextPeriod,
    /// The process is gone, with whatever was on its way or reserved.
    Crash,
    CleanStop,
    /// Everything that is on its way arrives.
    Settle,
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (1..30u64).prop_map(Op::Spend),
        4 => (1..5u64, 1..20usize).prop_map(|(amount, times)| Op::SpendAtOnce(amount, times)),
        3 => any::<prop::sample::Index>().prop_map(|at| Op::GiveBack(at.index(64))),
        2 => (1..30u64).prop_map(Op::HangUp),
        1 => (1..3000u64).prop_map(Op::NewLimit),
        1 => Just(Op::NextPeriod),
        3 => Just(Op::Crash),
        2 => Just(Op::CleanStop),
        3 => Just(Op::Settle),
    ]
}

/// What a slow and exact bookkeeper knows of one quota.
struct Model {
    period: u64,
    limit: u64,
    /// The highest limit that a block was reserved under in this period.
    highest: u64,
    used: u64,
    stranded: u64,
    spent: Vec<Spent>,
}

impl Model {
    fn draw(&self, amount: u64) -> Draw {
        Draw { amount, limit: self.limit, period: period(self.period) }
    }

    fn note(&mut self, amount: u64, outcome: Result<Spent, NotSpent>) {
        match outcome {
            Ok(spent) => {
                self.used += amount;
                self.spent.push(spent);
                assert!(self.used + self.stranded <= self.limit, "more than the limit was spent");
            }
            Err(NotSpent::Exhausted { used }) => {
                // What can never pass is refused before the store was asked what is used.
                let is_known = used > 0 || amount <= self.limit;
                assert!(used == self.used + self.stranded || !is_known, "{used}");
                assert!(used + amount > self.limit, "{used} of {} refused {amount}", self.limit);
            }
            Err(why) => panic!("{why}"),
        }
    }

    async fn taken(&self, store: &Store, name: &str) -> u64 {
        settled(store).await;
        store.quota_taken(name, period(self.period).begins).await.unwrap()
    }
}

async fn run(store: &Store, name: &str, ops: Vec<Op>) {
    let mut book = QuotaBook::new(store.clone(), 100);
    let mut model =
        Model { period: 1, limit: 1000, highest: 1000, used: 0, stranded: 0, spent: Vec::new() };
    for op in ops {
        let account = book.account(name).unwrap();
        match op {
            Op::Spend(amount) => model.note(amount, account.spend(model.draw(amount)).await),
            Op::SpendAtOnce(amount, times) => {
                let mut all = JoinSet::new();
                for _ in 0..times {
                    let (account, draw) = (account.clone(), model.draw(amount));
                    all.spawn(async move { account.spend(draw).await });
                }
                // Those that passed first: a refusal was right at some moment, so it is at the end.
                let mut outcomes = all.join_all().await;
                outcomes.sort_by_key(Result::is_err);
                for outcome in outcomes {
                    model.note(amount, outcome);
                }
            }
            Op::GiveBack(at) if !model.spent.is_empty() => {
                let at = at % model.spent.len();
                let spent = model.spent.swap_remove(at);
                model.used -= spent.amount();
                spent.give_back();
            }
            Op::GiveBack(_) => (),
            Op::HangUp(amount) => {
                let waiting = account.spend(model.draw(amount));
                let done =
                    tokio::select! { biased; done = waiting => Some(done), () = async {} => None };
                if let Some(outcome) = done {
                    model.note(amount, outcome);
                }
            }
            Op::NewLimit(limit) => {
                model.limit = limit;
                model.highest = model.highest.max(limit);
            }
            Op::NextPeriod => {
                (model.period, model.highest) = (model.period + 1, model.limit);
                (model.used, model.stranded) = (0, 0);
                model.spent.clear();
            }
            Op::Crash => {
                model.spent.clear();
                let taken = model.taken(store, name).await;
                let lost = taken - model.used - model.stranded;
                assert!(lost <= block(model.highest, 0), "a crash stranded {lost}");
                model.stranded += lost;
                book = QuotaBook::new(store.clone(), 100);
            }
            Op::CleanStop => {
                model.spent.clear();
                book.close().await.unwrap();
                let taken = model.taken(store, name).await;
                assert_eq!(taken, model.used + model.stranded, "a clean stop is exact");
                book = QuotaBook::new(store.clone(), 100);
            }
            Op::Settle => {
                let taken = model.taken(store, name).await;
                assert!(taken >= model.used + model.stranded, "what was spent is written down");
                assert!(taken <= model.highest, "never more than the limit is taken");
            }
        }
    }
}

fn no_crash_admits_more_than_the_limit_and_a_clean_stop_is_exact(kind: Kind) {
    let (_home, store) = store(kind);
    let runtime = runtime();
    let case = Cell::new(0);
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) };
    proptest!(config, |(ops in prop::collection::vec(ops(), 1..40))| {
        case.set(case.get() + 1);
        runtime.block_on(run(&store, &format!("quota-{}", case.get()), ops));
    });
}

on_every_store! {
    no_crash_admits_more_than_the_limit_and_a_clean_stop_is_exact,
}
