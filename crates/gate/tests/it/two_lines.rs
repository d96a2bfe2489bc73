//! A chain with two limits that requests wait for, each with a line of its own.

use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::{JoinHandle, LocalSet};
use tokio::time::Instant;
use tollgate_engine::{Decision, Refusal, Rule, Standing};
use tollgate_gate::elsewhere::{
    Answered, Asked, Counter, Elsewhere, Keeper, Manner, Mark, Waiting, Whose,
};
use tollgate_policy::compile::{Counted, PlacedLimit};

use crate::strategies::Line;

/// A user's ten a second before a tenant's eleven, for which somebody waits who needs most of them at once.
const DEAR: &str = "
upstreams: { api: { url: \"http://a\" } }
routes: [ { path: /dear, upstream: api, rate_limit: { cost: 10 } } ]
defaults:
  client: { sustained: { rate: 10 }, burst: { capacity: 10 }, scope: user, strategy: queue, queue: { max_wait_ms: 5000 } }
  tenant: { sustained: { rate: 11 }, burst: { capacity: 12 }, strategy: queue, queue: { max_wait_ms: 2000 } }
tenants: [ { id: a } ]
";

/// Of user `u` ten pass and three wait for their own limit, `v`'s dear one waits for the tenant's, and of `u` another comes every 100 ms.
fn dear(line: &Rc<Line>, local: &LocalSet, more: u32) -> JoinHandle<()> {
    for n in 1..=13 {
        local.spawn_local(Rc::clone(line).request_as("a", "u", format!("u{n}")));
    }
    let dear = local.spawn_local(Rc::clone(line).request_on("/dear", ("a", "v"), "dear".into()));
    let later = Rc::clone(line);
    local.spawn_local(async move {
        for n in 14..14 + more {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let request = Rc::clone(&later).request_as("a", "u", format!("u{n}"));
            tokio::task::spawn_local(request);
        }
    });
    dear
}

/// Those who waited for the first limit took every token of the second before whoever waited for that.
#[tokio::test(start_paused = true)]
async fn who_waits_for_one_limit_does_not_overtake_those_who_wait_for_another() {
    let line = Line::new(DEAR);
    let local = LocalSet::new();
    dear(&line, &local, 20);
    local.await;
    let log = line.log();
    // The three came before it. Of the tenant's, 2 were left and 3 are theirs: 11 more in the first second.
    assert_eq!(
        log[10..14],
        ["100 u11 passed", "200 u12 passed", "300 u13 passed", "1000 dear passed"]
    );
    let later: Vec<_> = log[14..].iter().filter_map(|entry| entry.split_once(' ')).collect();
    let expected: Vec<_> = (14..34).map(|n| format!("u{n} passed")).collect();
    assert_eq!(later.iter().map(|(_, entry)| *entry).collect::<Vec<_>>(), expected);
    // Nobody loses anything by it: the tenant's tokens are used as they come.
    assert_eq!((later[0].0, later[10].0), ("1091", "2000"));
}

/// It goes in order of arrival where it comes to, too: who came there meanwhile came later.
#[tokio::test(start_paused = true)]
async fn who_comes_to_another_line_goes_before_those_who_arrived_later() {
    let line = Line::new(DEAR);
    let local = LocalSet::new();
    dear(&line, &local, 3);
    let other = Rc::clone(&line);
    local.spawn_local(async move {
        tokio::time::sleep(Duration::from_millis(350)).await;
        other.request_as("a", "w", "w".to_owned()).await;
    });
    local.await;
    // At 350 ms the three wait for their own limit, and the other finds a line for the tenant's only.
    let log = line.log();
    let names = log[13..].iter().map(|entry| entry.split(' ').nth(1).unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["dear", "u14", "u15", "u16", "w"]);
}

/// Those whom the tenant's limit kept out had only to wait for that, and took what the dear one waited for at its own.
#[tokio::test(start_paused = true)]
async fn nor_do_those_overtake_who_wait_for_a_later_limit() {
    let line = Line::new(
        "
upstreams: { api: { url: \"http://a\" } }
routes: [ { path: /dear, upstream: api, rate_limit: { cost: 10 } } ]
defaults:
  client: { sustained: { rate: 1 }, burst: { capacity: 10 }, scope: user, strategy: queue, queue: { max_wait_ms: 4000 } }
  tenant: { sustained: { rate: 20 }, burst: { capacity: 10 }, strategy: queue, queue: { max_wait_ms: 4000 } }
tenants: [ { id: a } ]
",
    );
    let local = LocalSet::new();
    for user in ["u", "w", "w", "w", "w", "w", "w", "w", "w", "w", "y"] {
        local.spawn_local(Rc::clone(&line).request_as("a", user, user.to_owned()));
    }
    // `y` waits for the tenant's tokens, and they do behind it.
    local.spawn_local(Rc::clone(&line).request_on("/dear", ("a", "u"), "dear".into()));
    for n in 1..=2 {
        local.spawn_local(Rc::clone(&line).request_as("a", "u", format!("u{n}")));
    }
    local.await;
    let expected = ["50 y passed", "1000 dear passed", "2000 u1 passed", "3000 u2 passed"];
    assert_eq!(line.log()[10..], expected);
}

#[tokio::test(start_paused = true)]
async fn who_gives_way_goes_on_when_whoever_was_before_it_hangs_up() {
    let line = Line::new(DEAR);
    let local = LocalSet::new();
    let dear = dear(&line, &local, 6);
    local
        .run_until(async move {
            tokio::time::sleep(Duration::from_millis(550)).await;
            dear.abort();
        })
        .await;
    local.await;
    // By 550 ms the user's own limit has two tokens, then one every 100 ms.
    assert_eq!(
        line.log()[13..],
        [
            "550 u14 passed",
            "550 u15 passed",
            "600 u16 passed",
            "700 u17 passed",
            "800 u18 passed",
            "900 u19 passed"
        ]
    );
}

/// Keeps users' counters: of `u` one request passes a second, of all others each. Nobody here can tell without asking.
#[derive(Debug, Default)]
struct Afar {
    next: Mutex<Option<Instant>>,
    asked: AtomicUsize,
}

#[derive(Debug)]
struct Kept(Arc<Afar>);

impl Elsewhere for Kept {
    fn keeper(&self, limit: &PlacedLimit, _: &Arc<Rule>) -> Option<Arc<dyn Keeper>> {
        let kept = || Arc::new(Kept(Arc::clone(&self.0))) as Arc<dyn Keeper>;
        (limit.counted() == Counted::User).then(kept)
    }
}

impl Keeper for Kept {
    fn manner(&self) -> Manner {
        Manner::Alone
    }

    fn counter(&self, whose: &Whose<'_>) -> Result<Counter, Answered> {
        Ok(Counter::new(Arc::new((whose.name)().contains("/u:"))))
    }

    fn charge<'a>(&'a self, asked: Asked<'a>) -> Waiting<'a, Answered> {
        let times = self.0.asked.fetch_add(1, Relaxed);
        assert!(times < 1000, "somebody is handed to and fro");
        let (now, is_u) = (Instant::now(), asked.counter.get::<bool>() == Some(&true));
        let mut next = self.0.next.lock().unwrap();
        let wait = next.filter(|_| is_u).map_or(Duration::ZERO, |next| next - now);
        if is_u && wait.is_zero() {
            *next = Some(now + Duration::from_secs(1));
        }
        let refusal = (!wait.is_zero()).then_some(Refusal::Wait(wait.as_nanos() as u64));
        let standing = Standing { limit: 10, remaining: 1, reset_after: wait };
        let decision = Decision { refusal, standing };
        Box::pin(std::future::ready(Answered::Decided(decision, Mark::default())))
    }

    fn give_back(&self, _: &Asked<'_>, _: Mark) {
        *self.0.next.lock().unwrap() = None;
    }

    fn look<'a>(&'a self, _: Asked<'a>) -> Waiting<'a, Option<Decision>> {
        Box::pin(std::future::ready(None))
    }

    fn reset<'a>(&'a self, _: Asked<'a>) -> Waiting<'a, bool> {
        Box::pin(std::future::ready(true))
    }
}

/// A look says that they would pass, and whoever is asked says no. Both lines could hand them to and fro while the one of another
/// tenant, who came before them, never had its turn.
#[tokio::test(start_paused = true)]
async fn nobody_is_handed_to_and_fro_for_a_limit_of_which_a_look_tells_nothing() {
    let afar = Arc::<Afar>::default();
    let text = "
defaults:
  client: { sustained: { rate: 1 }, scope: user, strategy: queue, queue: { max_wait_ms: 5000 } }
  tenant: { sustained: { rate: 10 }, burst: { capacity: 1 }, scope: global, strategy: queue, queue: { max_wait_ms: 5000 } }
tenants: [ { id: a }, { id: b } ]
";
    let line = Line::keeping(text, Arc::new(Kept(Arc::clone(&afar))));
    let local = LocalSet::new();
    for (tenant, user, name) in [
        ("a", "u", "u1"),
        ("b", "v", "v1"),
        ("b", "v", "v2"),
        ("b", "v", "v3"),
        ("a", "u", "u2"),
        ("a", "u", "u3"),
    ] {
        local.spawn_local(Rc::clone(&line).request_as(tenant, user, name.to_owned()));
    }
    local.await;
    let expected = [
        "0 u1 passed",
        "100 v1 passed",
        "200 v2 passed",
        "300 v3 passed",
        "1000 u2 passed",
        "2000 u3 passed",
    ];
    assert_eq!(line.log(), expected);
}
