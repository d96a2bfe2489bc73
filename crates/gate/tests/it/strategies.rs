//! `queue`, `degrade` and `observe`, alone and mixed.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::Instant;
use tollgate_engine::{Clock, Refusal, Time, Verdict};
use tollgate_gate::elsewhere::Elsewhere;
use tollgate_gate::{Gate, InForce, Passage};
use tollgate_policy::compile::Work;

use crate::{NOW, caller, cause, policy};

/// The runtime's own time, which stands still while anything can run.
#[derive(Clone, Copy)]
struct PausedClock(Instant);

impl Clock for PausedClock {
    fn now(&self) -> Time {
        NOW + self.0.elapsed()
    }
}

/// A gate under paused time, and who passed it when.
pub(crate) struct Line {
    gate: Gate<PausedClock>,
    in_force: RefCell<Arc<InForce>>,
    log: RefCell<Vec<String>>,
    begin: Instant,
}

impl Line {
    pub(crate) fn new(text: &str) -> Rc<Line> {
        Line::with(text, |gate| gate)
    }

    /// The same, of a gate that lets counters be kept elsewhere.
    pub(crate) fn keeping(text: &str, elsewhere: Arc<dyn Elsewhere>) -> Rc<Line> {
        Line::with(text, |gate| gate.keeping(elsewhere))
    }

    fn with(text: &str, finish: impl FnOnce(Gate<PausedClock>) -> Gate<PausedClock>) -> Rc<Line> {
        let begin = Instant::now();
        let gate = finish(Gate::with_clock(PausedClock(begin), 10_000));
        let in_force = RefCell::new(gate.enforce(policy(text)));
        Rc::new(Line { gate, in_force, log: RefCell::default(), begin })
    }

    fn in_force(&self) -> Arc<InForce> {
        Arc::clone(&self.in_force.borrow())
    }

    /// Another policy, for those who come from now on.
    pub(crate) fn enforce(&self, text: &str) {
        self.in_force.replace(self.gate.enforce(policy(text)));
    }

    pub(crate) async fn request(self: Rc<Line>, tenant: &'static str, name: String) {
        self.request_as(tenant, "ci", name).await;
    }

    pub(crate) async fn request_as(
        self: Rc<Line>,
        tenant: &'static str,
        user: &'static str,
        name: String,
    ) {
        let in_force = self.in_force();
        let caller = caller(&self.gate, &in_force, tenant, user);
        let passage = self.gate.pass(&in_force, &caller, Work::default()).await;
        self.tell(&name, &passage);
    }

    /// A request of a route, whose cost it has.
    pub(crate) async fn request_on(
        self: Rc<Line>,
        path: &'static str,
        (tenant, user): (&'static str, &'static str),
        name: String,
    ) {
        let in_force = self.in_force();
        let route = in_force.policy().route("", "GET", path).expect("it is declared");
        let caller = caller(&self.gate, &in_force, tenant, user);
        let passage = self.gate.pass(&in_force, &caller, Work::on(route)).await;
        self.tell(&name, &passage);
    }

    fn tell(&self, name: &str, passage: &Passage<'_>) {
        let at = self.begin.elapsed().as_millis();
        let outcome = match (passage.verdict(), cause(passage)) {
            (Verdict::Degraded { .. }, _) => "degraded".to_owned(),
            (_, Ok(())) => "passed".to_owned(),
            (_, Err(source)) => {
                let wait = passage.refusal().and_then(Refusal::retry_after);
                format!("refused by {source} for {}", wait.unwrap_or_default().as_millis())
            }
        };
        self.log.borrow_mut().push(format!("{at} {name} {outcome}"));
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.borrow().clone()
    }
}

async fn run(line: &Rc<Line>, requests: &[(&'static str, &str)]) -> Vec<String> {
    let local = LocalSet::new();
    for (tenant, name) in requests {
        local.spawn_local(Rc::clone(line).request(tenant, (*name).to_owned()));
    }
    local.await;
    line.log()
}

/// Ten a second for everybody, one at a time.
pub(crate) fn shared(queue: &str, rest: &str) -> String {
    format!(
        "
upstreams: {{ api: {{ url: \"http://a\" }} }}
defaults:
  client: {{ sustained: {{ rate: 10 }}, burst: {{ capacity: 1 }}, scope: global, strategy: queue, queue: {queue} }}
  tenant: {{ sustained: {{ rate: 100000 }} }}
tenants: [ {{ id: a }}, {{ id: b }}{rest} ]
"
    )
}

#[tokio::test(start_paused = true)]
async fn they_pass_in_order_of_arrival_and_tenants_take_turns() {
    let line = Line::new(&shared("{}", ""));
    let order =
        run(&line, &[("a", "a1"), ("a", "a2"), ("a", "a3"), ("a", "a4"), ("b", "b1")]).await;
    assert_eq!(
        order,
        ["0 a1 passed", "100 a2 passed", "200 b1 passed", "300 a3 passed", "400 a4 passed"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_thousand_of_one_tenant_do_not_keep_another_waiting() {
    let line = Line::new(&shared("{ max_wait_ms: 86400000, max_depth: 2000 }", ""));
    let local = LocalSet::new();
    for n in 0..1000 {
        local.spawn_local(Rc::clone(&line).request("a", format!("a{n}")));
    }
    local.spawn_local(Rc::clone(&line).request("b", "b".to_owned()));
    local.await;
    let place = line.log().iter().position(|entry| entry.ends_with("b passed")).unwrap();
    assert!(place <= 2, "b was served as number {place}");
}

#[tokio::test(start_paused = true)]
async fn the_line_is_bounded_in_depth_and_time() {
    let line = Line::new(&shared("{ max_depth: 2 }", ""));
    let order = run(&line, &[("a", "1"), ("a", "2"), ("a", "3"), ("a", "4"), ("b", "5")]).await;
    // Two wait; the fourth is told to come back when they have been served. Another tenant has its own lane.
    assert_eq!(order[1], "0 4 refused by default:client for 300");
    assert_eq!(order.len(), 5);
    assert!(order.iter().filter(|entry| entry.ends_with("passed")).count() == 4, "{order:?}");

    let line = Line::new(&shared("{ max_wait_ms: 250 }", ""));
    let order = run(&line, &[("a", "1"), ("a", "2"), ("a", "3"), ("a", "4")]).await;
    // A wait known to be too long refuses at once.
    assert_eq!(order[1], "0 4 refused by default:client for 300");
}

#[tokio::test(start_paused = true)]
async fn who_hangs_up_leaves_the_line() {
    let line = Line::new(&shared("{}", ""));
    let local = LocalSet::new();
    local.spawn_local(Rc::clone(&line).request("a", "1".into()));
    local.spawn_local(Rc::clone(&line).request("a", "2".into()));
    let gone = local.spawn_local(Rc::clone(&line).request("a", "3".into()));
    local.spawn_local(Rc::clone(&line).request("a", "4".into()));
    local
        .run_until(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            gone.abort();
        })
        .await;
    local.await;
    assert_eq!(line.log(), ["0 1 passed", "100 2 passed", "200 4 passed"]);
}

/// A request that waits holds no charge, so a limit behind it is only charged when it passes.
#[tokio::test(start_paused = true)]
async fn waiting_charges_nothing_and_reject_goes_before_queue() {
    let text = shared("{}", ", { id: c, quota: { limit: 2, window: day } }");
    let line = Line::new(&text);
    let order = run(&line, &[("c", "1"), ("c", "2"), ("c", "3")]).await;
    let day = 24 * 3600 * 1000;
    assert_eq!(order[0], "0 1 passed");
    // The third has its turn when the second has spent the day's last request.
    assert_eq!(order[1], "100 2 passed");
    assert_eq!(order[2], format!("100 3 refused by tenant:c for {}", day - 100));
}

/// A limit that rejects is asked before anybody stands in line, also while others stand there; and so is one that would keep it waiting for
/// longer than it lets anybody wait.
#[tokio::test(start_paused = true)]
async fn whom_its_own_limit_refuses_takes_no_place_in_a_line() {
    for strategy in ["reject", "queue"] {
        whom_it_refuses_takes_no_place(strategy).await;
    }
}

async fn whom_it_refuses_takes_no_place(strategy: &str) {
    let line = Line::new(&format!(
        "
upstreams: {{ api: {{ url: \"http://a\" }} }}
defaults:
  client: {{ sustained: {{ rate: 1, window: day }}, scope: user, strategy: {strategy} }}
  tenant: {{ sustained: {{ rate: 10 }}, burst: {{ capacity: 1 }}, strategy: queue, queue: {{ max_depth: 2 }} }}
tenants: [ {{ id: a }} ]
"
    ));
    let local = LocalSet::new();
    for (user, name) in [("hog", "h1"), ("u", "u"), ("hog", "h2"), ("hog", "h3"), ("v", "v")] {
        local.spawn_local(Rc::clone(&line).request_as("a", user, name.to_owned()));
    }
    local.await;
    let day = 24 * 3600 * 1000;
    let refused = |name: &str| format!("0 {name} refused by default:client for {day}");
    let passed = |at: u32, name: &str| format!("{at} {name} passed");
    assert_eq!(
        line.log(),
        [passed(0, "h1"), refused("h2"), refused("h3"), passed(100, "u"), passed(200, "v")]
    );
    // Looking charged nobody.
    tokio::time::advance(Duration::from_millis(100)).await;
    Rc::clone(&line).request_as("a", "w", "w".to_owned()).await;
    assert_eq!(line.log().last().unwrap(), "300 w passed");
}

/// Of several limits that keep it out the one with the longest wait counts, whether others stand in line or not.
#[tokio::test(start_paused = true)]
async fn a_newcomer_waits_as_long_in_a_line_as_it_would_alone() {
    for others in [0, 1] {
        let line = Line::new(
            "
upstreams: { api: { url: \"http://a\" } }
defaults:
  client: { sustained: { rate: 1 }, scope: user, strategy: queue, queue: { max_wait_ms: 500 } }
  tenant: { sustained: { rate: 30, window: minute }, burst: { capacity: 1 }, strategy: queue, queue: { max_wait_ms: 10000 } }
tenants: [ { id: a } ]
",
        );
        Rc::clone(&line).request_as("a", "u", "first".to_owned()).await;
        tokio::time::advance(Duration::from_millis(100)).await;
        let local = LocalSet::new();
        for _ in 0..others {
            local.spawn_local(Rc::clone(&line).request_as("a", "v", "other".to_owned()));
        }
        local.spawn_local(Rc::clone(&line).request_as("a", "u", "second".to_owned()));
        local.await;
        let at = 2000 * (1 + others);
        assert_eq!(line.log().last().unwrap(), &format!("{at} second passed"));
    }
}

/// Whoever is not let into a line is told when all who stand there have been served.
#[tokio::test(start_paused = true)]
async fn who_would_wait_too_long_is_told_of_those_before_it() {
    let line = Line::new(
        "
upstreams: { api: { url: \"http://a\" } }
defaults:
  client: null
  tenant: { sustained: { rate: 1 }, burst: { capacity: 5 }, strategy: queue, queue: { max_wait_ms: 3000 } }
routes: [ { path: /dear, upstream: api, rate_limit: { cost: 5 } } ]
tenants: [ { id: a } ]
",
    );
    let local = LocalSet::new();
    for n in 0..7 {
        local.spawn_local(Rc::clone(&line).request("a", format!("{n}")));
    }
    local.spawn_local(Rc::clone(&line).request_on("/dear", ("a", "ci"), "dear".to_owned()));
    local.await;
    // Two wait, and then five tokens have to come.
    assert_eq!(line.log()[5], "0 dear refused by default:tenant for 7000");
}

/// Timers wake at whole milliseconds, in each of which five are let out.
#[tokio::test(start_paused = true)]
async fn a_quick_leaky_bucket_keeps_its_pace() {
    let line = Line::new(
        "
upstreams: { api: { url: \"http://a\" } }
defaults:
  client: { algorithm: leaky_bucket, sustained: { rate: 5000 }, burst: { capacity: 1000 }, scope: global, strategy: queue, queue: { max_depth: 2000 } }
  tenant: { sustained: { rate: 100000 } }
tenants: [ { id: a } ]
",
    );
    let local = LocalSet::new();
    for n in 0..1000 {
        local.spawn_local(Rc::clone(&line).request("a", format!("a{n}")));
    }
    local.await;
    let last = line.log().last().cloned().unwrap_or_default();
    assert!(last == "200 a999 passed" || last == "201 a999 passed", "{last}");
}

/// A leaky bucket with a queue lets requests out evenly, although its bucket is large.
#[tokio::test(start_paused = true)]
async fn a_leaky_bucket_releases_evenly() {
    let line = Line::new(
        "
defaults:
  client: { algorithm: leaky_bucket, sustained: { rate: 10 }, burst: { capacity: 50 }, scope: global, strategy: queue }
  tenant: null
tenants: [ { id: a } ]
",
    );
    let order = run(&line, &[("a", "1"), ("a", "2"), ("a", "3")]).await;
    assert_eq!(order, ["0 1 passed", "100 2 passed", "200 3 passed"]);
}

/// Who is kept out by its own limit does not hold up those who wait for a shared one.
#[tokio::test(start_paused = true)]
async fn a_request_moves_to_the_line_of_what_keeps_it_out() {
    let line = Line::new(
        "
upstreams: { api: { url: \"http://a\" } }
defaults: { client: { sustained: { rate: 10 }, burst: { capacity: 1 }, scope: global, strategy: queue, queue: { max_wait_ms: 5000 } }, tenant: null }
tenants:
  - { id: slow, rate_limit: { sustained: { rate: 1 }, strategy: queue, queue: { max_wait_ms: 5000 } } }
  - { id: a }
",
    );
    let order =
        run(&line, &[("slow", "s1"), ("slow", "s2"), ("a", "a1"), ("a", "a2"), ("a", "a3")]).await;
    assert_eq!(
        order,
        ["0 s1 passed", "100 a1 passed", "200 a2 passed", "300 a3 passed", "1000 s2 passed"]
    );
}

/// What it waited in one line it cannot wait in the next.
#[tokio::test(start_paused = true)]
async fn who_moves_to_another_line_knows_at_once_that_its_time_is_too_short_for_it() {
    let line = Line::new(
        "
upstreams: { api: { url: \"http://a\" } }
defaults: { client: { sustained: { rate: 10 }, burst: { capacity: 1 }, scope: global, strategy: queue, queue: { max_wait_ms: 5000 } }, tenant: null }
tenants:
  - { id: slow, rate_limit: { sustained: { rate: 1 }, burst: { capacity: 2 }, strategy: queue, queue: { max_wait_ms: 1950 } } }
",
    );
    let order = run(&line, &[("slow", "1"), ("slow", "2"), ("slow", "3"), ("slow", "4")]).await;
    // After 100 ms in the first line the fourth has 1850 left.
    let refused = "100 4 refused by tenant:slow for 1900";
    assert_eq!(order, ["0 1 passed", "100 2 passed", refused, "1000 3 passed"]);
}

const MIXED: &str = "
upstreams: { api: { url: \"http://a\" }, spare: { url: \"http://b\" } }
plans:
  p:
    rate_limit: { sustained: { rate: 2 }, scope: user, strategy: degrade, degrade: { upstream: spare } }
    quota: { limit: 5, window: day }
tenants:
  - { id: a, plan: p, rate_limit: { sustained: { rate: 1 }, strategy: observe } }
";

#[tokio::test(start_paused = true)]
async fn degrade_skips_what_would_refuse_and_charges_the_rest_and_observe_only_tells() {
    let line = Line::new(MIXED);
    let in_force = &*line.in_force();
    let caller = caller(&line.gate, in_force, "a", "ci");
    let mut verdicts = Vec::new();
    let mut observed = 0;
    for _ in 0..6 {
        let passage = line.gate.pass(in_force, &caller, Work::default()).await;
        observed += passage.observed().count();
        verdicts.push(match passage.degraded() {
            Some((name, upstream)) => format!("{name} to {upstream:?}"),
            None => format!("{:?}", cause(&passage)),
        });
    }
    let degraded = "user-second to Some(1)";
    let refused = "Err(\"plan:p\")";
    assert_eq!(verdicts, ["Ok(())", "Ok(())", degraded, degraded, degraded, refused]);
    // The first passed; four would not have, and the sixth was refused by the quota besides.
    assert_eq!(observed, 5);
}
