//! Strict counters in a cluster, and behind a sentinel.

use std::time::Duration;

use tollgate_engine::{Limit, Rate, Refusal, Strategy, Verdict};
use tollgate_redis::{Charge, Figures, Mode, Settings, Strict};

use crate::groups::{Cluster, Watched};
use crate::servers::{Brand, on_both, run, until};

pub fn bucket(capacity: u64) -> Figures {
    Figures::of(&Limit::token_bucket(Rate::per_day(1)).burst(capacity).build().unwrap()).unwrap()
}

/// Where nobody is: the first server that may be asked need not be there.
const GONE: &str = "redis://127.0.0.1:1";

async fn start(url: &str, mode: Mode) -> Strict {
    let settings = Settings::new(GONE).unwrap().also(url).unwrap();
    let strict = Strict::start(settings.mode(mode).timeout(Duration::from_secs(10)));
    strict.up().await;
    strict
}

fn a_chain_across_slots_is_all_or_nothing(brand: Brand) {
    let cluster = Cluster::start(brand);
    run(async {
        let strict = start(&cluster.url(), Mode::Cluster).await;
        let (much, little) = (bucket(1000), bucket(5));
        let names: Vec<String> = (0..12).map(|nth| format!("key-{nth}")).collect();
        let remaining = async |key: &str, figures: &Figures| {
            strict.peek(key, figures, 0).await.unwrap().standing.remaining
        };
        // Whichever slot the scarce counter is in, before or after the others.
        for scarce in 0..names.len() {
            for name in &names {
                strict.reset(name).await.unwrap();
            }
            let chain: Vec<Charge<'_>> = names
                .iter()
                .enumerate()
                .map(|(nth, key)| Charge::new(key, if nth == scarce { &little } else { &much }))
                .collect();
            for left in (0..5).rev() {
                let answer = strict.take(&chain).await.unwrap();
                assert_eq!(answer.verdict(), Verdict::Admitted);
                assert_eq!(answer.decisions().nth(scarce).unwrap().standing.remaining, left);
            }
            let answer = strict.take(&chain).await.unwrap();
            let Verdict::Refused { by, refusal: Refusal::Wait(_) } = answer.verdict() else {
                panic!("{:?}", answer.verdict());
            };
            assert_eq!(by, scarce);
            assert!((0..12).all(|nth| !answer.is_charged(nth)));
            for (nth, name) in names.iter().enumerate() {
                let expected = if nth == scarce { 0 } else { 995 };
                let figures = if nth == scarce { &little } else { &much };
                assert_eq!(remaining(name, figures).await, expected, "{name}");
            }
            let mut chain = chain;
            chain[scarce] = chain[scarce].strategy(Strategy::Degrade);
            let answer = strict.take(&chain).await.unwrap();
            assert_eq!(answer.verdict(), Verdict::Degraded { by: scarce });
            strict.give_back(&chain, &answer).await.unwrap();
            assert_eq!(remaining(&names[(scarce + 1) % 12], &much).await, 995);
        }
        let used = cluster.servers().iter().filter(|server| server.ask::<usize>(&["DBSIZE"]) > 0);
        assert_eq!(used.count(), 3, "the keys are on all three");
    });
}

fn many_callers_across_slots_never_exceed_a_limit(brand: Brand) {
    let cluster = Cluster::start(brand);
    run(async {
        let strict = start(&cluster.url(), Mode::Cluster).await;
        let (much, little) = (bucket(10_000), bucket(100));
        let callers: Vec<_> = (0..16)
            .map(|caller| {
                let (strict, much, little) = (strict.clone(), much.clone(), little.clone());
                tokio::spawn(async move {
                    let own = format!("own-{caller}");
                    let mut admitted = 0;
                    for _ in 0..20 {
                        let chain = [Charge::new(&own, &much), Charge::new("shared", &little)];
                        let answer = strict.take(&chain).await.unwrap();
                        admitted += u64::from(answer.verdict().is_admitted());
                    }
                    let left = strict.peek(&own, &much, 0).await.unwrap().standing.remaining;
                    assert_eq!(left, 10_000 - admitted, "what was refused was given back");
                    admitted
                })
            })
            .collect();
        let mut admitted = 0;
        for caller in callers {
            admitted += caller.await.unwrap();
        }
        assert_eq!(admitted, 100);
    });
}

/// One that hangs up while the second of its slots is asked has been charged in the first, and may be in the second.
fn whoever_hangs_up_between_slots_is_not_charged(brand: Brand) {
    let cluster = Cluster::start(brand);
    run(async {
        let strict = start(&cluster.url(), Mode::Cluster).await;
        let limit = bucket(100);
        let names: Vec<String> = (0..100).map(|nth| format!("key-{nth}")).collect();
        let on = |server: usize| {
            let port = cluster.servers()[server].port();
            names.iter().find(|name| cluster.home_of(name).port() == port).unwrap().clone()
        };
        let (first, last) = (on(0), on(2));
        let slow = &cluster.servers()[2];
        slow.ask::<String>(&["CLIENT", "PAUSE", "60000", "WRITE"]);
        let caller = {
            let (strict, limit) = (strict.clone(), limit.clone());
            let (first, last) = (first.clone(), last.clone());
            tokio::spawn(async move {
                let chain = [Charge::new(&first, &limit), Charge::new(&last, &limit)];
                strict.take(&chain.map(|charge| charge.cost(40))).await
            })
        };
        until("the first slot has charged it", || cluster.tokens(&first) == Some(60)).await;
        until("the last slot is asked", || {
            let clients: String = slow.ask(&["INFO", "clients"]);
            clients.lines().any(|line| line.trim() == "blocked_clients:1")
        })
        .await;
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        // The first is given back while the last cannot answer yet. Less than a token may be missing, which time has paid off.
        until("the first is given back", || cluster.tokens(&first) >= Some(99)).await;
        slow.ask::<String>(&["CLIENT", "UNPAUSE"]);
        until("the last is given back", || cluster.tokens(&last) >= Some(99)).await;
    });
}

/// At whichever moment: before anything is sent, between slots, while a refused chain is given back.
fn hanging_up_at_any_moment_leaves_nothing_charged(brand: Brand) {
    let cluster = Cluster::start(brand);
    run(async {
        let strict = start(&cluster.url(), Mode::Cluster).await;
        let (much, little) = (bucket(10_000), bucket(1));
        let names: Vec<String> = (0..6).map(|nth| format!("key-{nth}")).collect();
        // Used up, and in the last slot of the chain: all before it are charged and given back.
        let mut by_slot = names.clone();
        by_slot.sort_by_key(|name| cluster.servers()[0].ask::<u16>(&["CLUSTER", "KEYSLOT", name]));
        let scarce = by_slot.pop().unwrap();
        let used_up = strict.take(&[Charge::new(&scarce, &little)]).await.unwrap();
        assert!(used_up.verdict().is_admitted());
        let (mut gone, mut admitted) = (0, 0);
        for nth in 0..300u32 {
            let (strict, names, scarce) = (strict.clone(), names.clone(), scarce.clone());
            let (much, little) = (much.clone(), little.clone());
            let caller = tokio::spawn(async move {
                let is_refused = nth.is_multiple_of(2);
                let names = names.iter().filter(|name| is_refused || **name != scarce);
                let figures = |name: &String| if *name == scarce { &little } else { &much };
                let chain: Vec<_> =
                    names.map(|name| Charge::new(name, figures(name)).cost(1)).collect();
                strict.take(&chain).await.unwrap().verdict().is_admitted()
            });
            tokio::time::sleep(Duration::from_micros(u64::from(nth % 60) * 50)).await;
            caller.abort();
            match caller.await {
                Ok(is_admitted) => admitted += u64::from(is_admitted),
                Err(why) => gone += u32::from(why.is_cancelled()),
            }
        }
        assert!(gone > 20, "{gone} hung up");
        let expected = 10_000 - admitted;
        for name in &by_slot {
            // Less than a token may be missing, which time has paid off.
            until("what was charged for nobody is given back", || {
                let left = cluster.tokens(name).unwrap_or(10_000);
                assert!(left <= expected, "{left} left after {admitted} admitted");
                left + 1 >= expected
            })
            .await;
        }
    });
}

fn a_failover_is_followed(brand: Brand) {
    let mut watched = Watched::start(brand, "billing");
    run(async {
        let url = watched.url();
        let settings = Settings::new(GONE).unwrap().also(&url).unwrap();
        let settings = settings.mode(Mode::Sentinel).master("billing");
        let strict = Strict::start(settings.timeout(Duration::from_secs(1)));
        strict.up().await;
        let limit = bucket(10);
        let charge = [Charge::new("one", &limit)];
        for _ in 0..4 {
            strict.take(&charge).await.unwrap();
        }
        watched.replica_has("one").await;
        watched.primary.kill();
        let mut left = None;
        for _ in 0..3000 {
            if let Ok(answer) = strict.take(&charge).await {
                left = Some(answer.decisions().next().unwrap().standing.remaining);
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(left, Some(5), "the replica had all four");
    });
}

impl Watched {
    async fn replica_has(&self, key: &str) {
        until("replication", || {
            let tokens: Option<String> = self.replica.ask(&["HGET", key, "tokens"]);
            tokens.as_deref() == Some("6")
        })
        .await;
    }
}

on_both! {
    all_or_nothing => a_chain_across_slots_is_all_or_nothing;
    hung_up => whoever_hangs_up_between_slots_is_not_charged;
    hung_up_anywhere => hanging_up_at_any_moment_leaves_nothing_charged;
    never_exceeded => many_callers_across_slots_never_exceed_a_limit;
    failover => a_failover_is_followed;
}
