//! Nodes that share a store in Redis: what one changes, all have, and nobody overwrites what another has just made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_redis::{Mode, Settings};
use tollgate_storage::{
    Caller, Change, Day, Expect, InRedis, KeyLoader, KeySnapshot, KeyTerms, ObjectKind, PageOf,
    QuotaBook, Store, StoreError, StoredKey, UsageQuery, UsageRecorder, Use,
};

use crate::groups::{Cluster, Watched};
use crate::homes::in_redis;
use crate::quotas::draw;
use crate::servers::{Brand, Server, on_both, run, until};
use crate::{NOW, issue, key};

/// A node: its store, the keys that requests see, and how often it was told of objects.
struct Node {
    store: Store,
    keys: Arc<KeySnapshot<()>>,
    objects: Arc<AtomicU64>,
}

impl Node {
    fn open(place: InRedis) -> Node {
        let (keys, objects) = (Arc::new(KeySnapshot::new()), Arc::new(AtomicU64::new(0)));
        let (watching, counting) = (Arc::clone(&keys), Arc::clone(&objects));
        let store = place
            .watch_keys(move |key| watching.apply(key, ()))
            .watch_objects(move || {
                counting.fetch_add(1, Relaxed);
            })
            .open()
            .unwrap();
        Node { store, keys, objects }
    }

    fn has(&self, key: &StoredKey) -> bool {
        self.keys.find(&key.sha256, NOW).is_some()
    }
}

fn revoke(key: &StoredKey) -> Vec<Change> {
    vec![Change::RevokeKey { id: key.id.clone(), at: NOW }]
}

fn put(id: &str, expect: Expect) -> Change {
    let (id, body) = (id.to_owned(), "{}".to_owned());
    Change::Put { kind: ObjectKind::Plan, id, body, expect, at: NOW }
}

/// Real time less what the machine itself lost: a thread asks the server every few milliseconds, and whatever it had to wait for
/// that is nobody's fault here. It touches neither the nodes nor their connections, so a node that is late on its own stays late.
struct Stopwatch {
    lost: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Stopwatch {
    fn start(server: &Server) -> Stopwatch {
        const STEP: Duration = Duration::from_millis(5);
        let watch = Stopwatch { lost: Arc::default(), is_over: Arc::default() };
        let (lost, is_over) = (Arc::clone(&watch.lost), Arc::clone(&watch.is_over));
        let mut connection = server.connection();
        std::thread::spawn(move || {
            while !is_over.load(Relaxed) {
                let begin = Instant::now();
                std::thread::sleep(STEP);
                let _ = redis::cmd("PING").query::<String>(&mut connection);
                let late = begin.elapsed().saturating_sub(2 * STEP);
                lost.fetch_add(late.as_micros() as u64, Relaxed);
            }
        });
        watch
    }

    /// Waits until it holds, which must be within that time.
    async fn within(&self, most: Duration, what: &str, holds: impl FnMut() -> bool) {
        let (begin, before) = (Instant::now(), self.lost.load(Relaxed));
        until(what, holds).await;
        let lost = Duration::from_micros(self.lost.load(Relaxed) - before);
        let took = begin.elapsed().saturating_sub(lost);
        assert!(took < most, "{what} after {took:?}, and {lost:?} that the machine lost");
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}

/// In which every node has what one has changed.
const EVERYWHERE: Duration = Duration::from_secs(1);

fn what_one_node_changes_all_have_within_a_second(brand: Brand) {
    let server = Server::start(brand);
    let watch = Stopwatch::start(&server);
    run(async {
        let nodes = [(); 3].map(|()| Node::open(in_redis(&server)));
        for n in 0..21 {
            let (_, stored) = key("acme", n);
            let by = &nodes[n as usize % 3];
            by.store.commit(issue(&stored)).await.unwrap();
            assert!(by.has(&stored), "on this node before the answer");
            let all_have_it = || nodes.iter().all(|node| node.has(&stored));
            watch.within(EVERYWHERE, "all have it", all_have_it).await;
            nodes[(n as usize + 1) % 3].store.commit(revoke(&stored)).await.unwrap();
            assert!(!nodes[(n as usize + 1) % 3].has(&stored));
            let nobody_has_it = || !nodes.iter().any(|node| node.has(&stored));
            watch.within(EVERYWHERE, "nobody has it", nobody_has_it).await;
        }
    });
}

/// A user who may do everything but hear what is published.
fn node_without_messages(server: &Server) -> Node {
    let rules = ["ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all", "resetchannels"];
    server.ask::<String>(&rules);
    let url = format!("redis://deaf:secret@127.0.0.1:{}", server.port());
    let settings = Settings::new(&url).unwrap().timeout(Duration::from_secs(10));
    Node::open(InRedis::at(settings, "tollgate"))
}

fn missed_messages_are_made_up_for(brand: Brand) {
    let server = Server::start(brand);
    let watch = Stopwatch::start(&server);
    run(async {
        let (one, deaf) = (Node::open(in_redis(&server)), node_without_messages(&server));
        for n in 0..5 {
            let (_, stored) = key("acme", n);
            one.store.commit(issue(&stored)).await.unwrap();
            watch.within(EVERYWHERE, "the deaf one has it", || deaf.has(&stored)).await;
            // What it changes itself it cannot publish, and is found all the same.
            deaf.store.commit(revoke(&stored)).await.unwrap();
            watch.within(EVERYWHERE, "it is gone", || !one.has(&stored)).await;
        }
    });
}

fn a_node_that_was_away_for_longer_than_the_log_reads_everything(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let (one, away) = (Node::open(in_redis(&server)), node_without_messages(&server));
        let keys: Vec<StoredKey> = (0..30).map(|n| key("acme", n).1).collect();
        for stored in &keys[..20] {
            one.store.commit(issue(stored)).await.unwrap();
        }
        until("both have them", || keys[..20].iter().all(|key| away.has(key))).await;
        server.ask::<String>(&["ACL", "SETUSER", "deaf", "off"]);
        server.ask::<i64>(&["CLIENT", "KILL", "USER", "deaf"]);
        for stored in &keys[20..] {
            one.store.commit(issue(stored)).await.unwrap();
        }
        for stored in &keys[..5] {
            one.store.commit(revoke(stored)).await.unwrap();
        }
        one.store.commit(vec![put("pro", Expect::Absent)]).await.unwrap();
        server.ask::<i64>(&["XTRIM", "tollgate:{tollgate:store}:changes", "MAXLEN", "1"]);
        assert!(!away.has(&keys[20]) && away.has(&keys[0]));
        let told = away.objects.load(Relaxed);
        server.ask::<String>(&["ACL", "SETUSER", "deaf", "on"]);
        until("it is as the other", || keys.iter().all(|key| away.has(key) == one.has(key))).await;
        assert!(!away.has(&keys[0]) && away.has(&keys[29]));
        until("it is told of objects", || away.objects.load(Relaxed) > told).await;
        // And it goes on from there.
        let (_, next) = key("acme", 99);
        one.store.commit(issue(&next)).await.unwrap();
        until("it follows", || away.has(&next)).await;
    });
}

fn what_changes_while_keys_are_loaded_is_not_lost(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let one = Node::open(in_redis(&server));
        let keys: Vec<StoredKey> = (0..3000).map(|n| key("acme", n).1).collect();
        for part in keys[..2500].chunks(500) {
            let changes = part.iter().map(|key| Change::IssueKey(Box::new(key.clone())));
            one.store.commit(changes.collect()).await.unwrap();
        }
        let starting = Node::open(in_redis(&server));
        let mut loader = KeyLoader::new();
        starting.store.for_each_key(NOW, |key| loader.push(&key, ())).await.unwrap();
        // Read, and not in force yet.
        for stored in keys[..5].iter().chain(&keys[2490..2500]) {
            one.store.commit(revoke(stored)).await.unwrap();
        }
        for stored in &keys[2500..2510] {
            one.store.commit(issue(stored)).await.unwrap();
        }
        until("it was told", || starting.has(&keys[2509])).await;
        starting.keys.fill(loader);
        assert!(starting.has(&keys[0]) && !starting.has(&keys[2509]));
        starting.store.catch_up().await.unwrap();
        for stored in &keys {
            assert_eq!(starting.has(stored), one.has(stored));
        }
        assert_eq!(starting.keys.len(), 2495);
    });
}

fn changes_of_one_key_from_all_sides_end_alike_everywhere(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let nodes = [(); 2].map(|()| Node::open(in_redis(&server)));
        for round in 0..20 {
            let (_, stored) = key("acme", round);
            nodes[0].store.commit(issue(&stored)).await.unwrap();
            let terms = |plan: &str| {
                let terms = KeyTerms { plan: Some(plan.parse().unwrap()), ..KeyTerms::default() };
                vec![Change::UpdateKey { id: stored.id.clone(), terms: Box::new(terms) }]
            };
            let revoke_in_between = async {
                nodes[1].store.commit(terms("free")).await.unwrap();
                nodes[1].store.commit(revoke(&stored)).await.unwrap();
                nodes[1].store.commit(terms("pro")).await.unwrap();
            };
            let change = async {
                for plan in ["one", "two", "three", "four"] {
                    nodes[0].store.commit(terms(plan)).await.unwrap();
                }
            };
            tokio::join!(revoke_in_between, change);
            until("nobody has it", || !nodes.iter().any(|node| node.has(&stored))).await;
            assert!(nodes[0].store.key(stored.id.clone()).await.unwrap().revoked_at.is_some());
        }
        // Nothing comes back later.
        for node in &nodes {
            node.store.catch_up().await.unwrap();
            assert!(node.keys.is_empty());
        }
    });
}

fn what_was_checked_against_an_old_state_is_refused(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let (one, two) = (Node::open(in_redis(&server)), Node::open(in_redis(&server)));
        let seen = one.store.revision().await.unwrap();
        assert_eq!(two.store.revision().await.unwrap(), seen);
        let list = |id, seen| vec![Change::Unchanged(seen), put(id, Expect::Absent)];
        one.store.commit(list("pro", seen)).await.unwrap();
        assert_eq!(two.store.commit(list("free", seen)).await, Err(StoreError::Outdated));
        until("the other is told", || two.objects.load(Relaxed) > 0).await;
        let seen = two.store.revision().await.unwrap();
        two.store.commit(list("free", seen)).await.unwrap();
        // A removal is a change too, and what it removed cannot be named any more.
        let remove = Change::Remove {
            kind: ObjectKind::Plan,
            id: "pro".to_owned(),
            expect: Expect::Present,
            at: NOW,
        };
        let seen = one.store.revision().await.unwrap();
        let needs = || Change::Needs { kind: ObjectKind::Plan, id: "pro".to_owned() };
        two.store.commit(vec![needs()]).await.unwrap();
        two.store.commit(vec![remove]).await.unwrap();
        assert_eq!(one.store.commit(list("more", seen)).await, Err(StoreError::Outdated));
        let mut changes = issue(&key("acme", 1).1);
        changes.push(needs());
        let gone = StoreError::NotFound { what: "plan pro".to_owned() };
        assert_eq!(one.store.commit(changes).await, Err(gone));
        assert!(one.store.keys(None, PageOf::default()).await.unwrap().rows.is_empty());
        let ids = |objects: Vec<tollgate_storage::Object>| {
            objects.into_iter().map(|object| object.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(one.store.objects(ObjectKind::Plan).await.unwrap()), ["free"]);
    });
}

fn nodes_together_spend_a_quota_and_not_one_more(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let stores = [(); 3].map(|()| in_redis(&server).open().unwrap());
        let spend = |store: Store| {
            tokio::spawn(async move {
                let book = QuotaBook::new(store, 100);
                let account = book.account("acme").unwrap();
                let mut spent = 0u64;
                while account.spend(draw(1, 5000)).await.is_ok() {
                    spent += 1;
                }
                book.close().await.unwrap();
                spent
            })
        };
        let spending = stores.clone().map(spend);
        let mut spent = 0;
        for one in spending {
            spent += one.await.unwrap();
        }
        let taken = stores[0].quota_taken("acme", crate::quotas::period(1).begins).await;
        assert_eq!(taken, Ok(spent));
        assert!(spent <= 5000 && spent > 4900, "{spent}");
        let name = "tollgate:quota:acme:100";
        assert_eq!(server.ask::<String>(&["HGET", name, "taken"]), spent.to_string());
        assert!(server.ask::<i64>(&["PTTL", name]) > 0, "it ends some day");
    });
}

/// What a node does to its store in a day.
async fn a_day_of(node: &Node, other: &Node) {
    let (_, stored) = key("acme", 1);
    node.store.commit(issue(&stored)).await.unwrap();
    until("the other has it", || other.has(&stored)).await;
    let mut recorder = UsageRecorder::new();
    let caller = Caller { tenant: "acme", key: stored.id.as_str(), route: "GET /", plan: "" };
    (0..10).for_each(|_| recorder.count(caller, Use { refused: false, tokens: 3 }, NOW));
    recorder.flush(&node.store).await.unwrap();
    let rows = other.store.usage(UsageQuery::days(Day::of(NOW), Day::of(NOW))).await.unwrap().rows;
    assert_eq!((rows[0].requests, rows[0].tokens), (10, 30));
    let book = QuotaBook::new(node.store.clone(), 1000);
    for user in 0..20 {
        let account = book.account(&format!("user-{user}")).unwrap();
        account.spend(draw(7, 1000)).await.unwrap();
    }
    book.close().await.unwrap();
    let begins = crate::quotas::period(1).begins;
    for user in 0..20 {
        assert_eq!(other.store.quota_taken(&format!("user-{user}"), begins).await, Ok(7));
    }
    node.store.commit(vec![put("pro", Expect::Absent)]).await.unwrap();
    until("the other is told", || other.objects.load(Relaxed) > 0).await;
    node.store.commit(revoke(&stored)).await.unwrap();
    until("it is gone", || !other.has(&stored)).await;
}

fn a_cluster_keeps_it_too(brand: Brand) {
    let cluster = Cluster::start(brand);
    run(async {
        let open = || {
            let settings = Settings::new(&cluster.url()).unwrap().mode(Mode::Cluster);
            Node::open(InRedis::at(settings.timeout(Duration::from_secs(10)), "tollgate"))
        };
        let (one, two) = (open(), open());
        a_day_of(&one, &two).await;
        let with_quotas = cluster
            .servers()
            .iter()
            .filter(|server| !server.ask::<Vec<String>>(&["KEYS", "tollgate:quota:*"]).is_empty());
        assert_eq!(with_quotas.count(), 3, "quotas are spread");
    });
}

fn a_failover_is_followed(brand: Brand) {
    let mut watched = Watched::start(brand, "mymaster");
    run(async {
        let open = || {
            let settings = Settings::new(&watched.url()).unwrap().mode(Mode::Sentinel);
            Node::open(InRedis::at(settings.timeout(Duration::from_secs(10)), "tollgate"))
        };
        let (one, two) = (open(), open());
        a_day_of(&one, &two).await;
        let (_, before) = key("acme", 2);
        one.store.commit(issue(&before)).await.unwrap();
        until("the replica has it", || {
            let name = "tollgate:{tollgate:store}:keys";
            watched.replica.ask::<bool>(&["HEXISTS", name, before.id.as_str()])
        })
        .await;
        watched.primary.kill();
        let (_, after) = key("acme", 3);
        let mut is_issued = false;
        for _ in 0..3000 {
            match one.store.commit(issue(&after)).await {
                // In doubt, it was made once all the same.
                Ok(_) | Err(StoreError::Exists { .. }) => {
                    is_issued = true;
                    break;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        assert!(is_issued);
        until("both have both", || {
            [&one, &two].iter().all(|node| node.has(&before) && node.has(&after))
        })
        .await;
    });
}

/// A failover to a replica that had received everything up to some moment.
struct Failover<'a>(&'a Server);

impl Failover<'_> {
    fn names(&self) -> Vec<String> {
        self.0.ask(&["KEYS", "tollgate:{tollgate:store}:*"])
    }

    /// What the replica has received.
    fn replicate(&self) {
        for name in self.names() {
            self.0.ask::<i64>(&["COPY", &name, &format!("replica:{name}")]);
        }
    }

    /// From now on it is what there is.
    fn happen(&self) {
        for name in self.names() {
            self.0.ask::<i64>(&["UNLINK", &name]);
        }
        for name in self.0.ask::<Vec<String>>(&["KEYS", "replica:*"]) {
            self.0.ask::<i64>(&["COPY", &name, name.trim_start_matches("replica:")]);
        }
    }
}

/// A failover loses the last change, and another one takes its place in the log before a node has looked: a revocation would stay
/// unknown to it until it is restarted. Nor did the node that revoked have it at once, which took the log's word that it was told.
fn a_change_in_the_place_of_a_lost_one_is_told(brand: Brand) {
    let server = Server::start(brand);
    let failover = Failover(&server);
    run(async {
        let (one, cut_off) = (Node::open(in_redis(&server)), node_without_messages(&server));
        let [(_, kept), (_, lost)] = [key("acme", 1), key("acme", 2)];
        one.store.commit(issue(&kept)).await.unwrap();
        until("both have it", || cut_off.has(&kept)).await;
        failover.replicate();
        one.store.commit(issue(&lost)).await.unwrap();
        until("both have the other", || cut_off.has(&lost)).await;
        server.ask::<String>(&["ACL", "SETUSER", "deaf", "off"]);
        server.ask::<i64>(&["CLIENT", "KILL", "USER", "deaf"]);
        failover.happen();
        one.store.commit(revoke(&kept)).await.unwrap();
        assert!(!one.has(&kept), "on this node before the answer");
        assert!(cut_off.has(&kept), "it has not heard of it");
        server.ask::<String>(&["ACL", "SETUSER", "deaf", "on"]);
        until("the key is revoked there too", || !cut_off.has(&kept)).await;
    });
}

/// The same, and the node makes the next change itself before it has looked: it went on from there.
fn a_change_before_ones_own_in_the_place_of_a_lost_one_is_told(brand: Brand) {
    let server = Server::start(brand);
    let failover = Failover(&server);
    run(async {
        let (one, other) = (node_without_messages(&server), Node::open(in_redis(&server)));
        let [(_, kept), (_, lost), (_, own)] = [1, 2, 3].map(|n| key("acme", n));
        one.store.commit(issue(&kept)).await.unwrap();
        failover.replicate();
        one.store.commit(issue(&lost)).await.unwrap();
        assert!(one.has(&lost));
        failover.happen();
        other.store.commit(revoke(&kept)).await.unwrap();
        one.store.commit(issue(&own)).await.unwrap();
        assert!(one.has(&own), "on this node before the answer");
        until("the key is revoked there too", || !one.has(&kept)).await;
    });
}

/// Redis restarts without its data: nodes go on with the keys, tenants and plans they have, and keys that are issued afterwards are
/// everywhere. What is there counts again when somebody has made something in the new store.
fn an_empty_restart_takes_nothing_from_nodes(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let (one, other) = (Node::open(in_redis(&server)), Node::open(in_redis(&server)));
        let [(_, kept), (_, later)] = [1, 2].map(|n| key("acme", n));
        one.store.commit(vec![put("pro", Expect::Absent)]).await.unwrap();
        one.store.commit(issue(&kept)).await.unwrap();
        other.store.catch_up().await.unwrap();
        let told = other.objects.load(Relaxed);
        assert!(told > 0 && other.has(&kept));
        server.ask::<String>(&["FLUSHALL"]);
        other.store.catch_up().await.unwrap();
        assert_eq!(other.objects.load(Relaxed), told, "there is nothing to read them from");
        assert!(other.has(&kept));
        one.store.commit(issue(&later)).await.unwrap();
        until("the other has it", || other.has(&later)).await;
        other.store.catch_up().await.unwrap();
        assert_eq!(other.objects.load(Relaxed), told, "nor is there now");
        assert!(other.has(&kept));
        let newcomer = Node::open(in_redis(&server));
        newcomer.store.commit(issue(&key("acme", 3).1)).await.unwrap();
        other.store.catch_up().await.unwrap();
        assert_eq!(other.objects.load(Relaxed), told, "nor when a node has begun a new store");
        newcomer.store.commit(vec![put("pro", Expect::Absent)]).await.unwrap();
        until("the new store is read", || other.objects.load(Relaxed) > told).await;
        let told = other.objects.load(Relaxed);
        let (kind, id, expect) = (ObjectKind::Plan, "pro".to_owned(), Expect::Present);
        let remove = Change::Remove { kind, id, expect, at: NOW };
        newcomer.store.commit(vec![remove]).await.unwrap();
        until("the last one is gone there too", || other.objects.load(Relaxed) > told).await;
    });
}

/// Figures for docs/distribution.md: `cargo nextest run -p tollgate-storage --run-ignored only a_million --no-capture`.
#[test]
#[ignore = "takes a minute; it prints figures"]
fn a_million_keys_are_loaded_in_seconds() {
    let server = Server::start(Brand::Redis);
    let memory = || {
        let info: String = server.ask(&["INFO", "memory"]);
        let line = info.lines().find(|line| line.starts_with("used_memory:")).unwrap();
        line["used_memory:".len()..].trim().parse::<u64>().unwrap()
    };
    run(async {
        let (one, before) = (in_redis(&server).open().unwrap(), memory());
        let begin = Instant::now();
        for part in 0..1000u64 {
            let issued = (0..1000).map(|n| key(&format!("tenant-{}", n % 100), part * 1000 + n).1);
            let changes = issued.map(|key| Change::IssueKey(Box::new(key)));
            one.commit(changes.collect()).await.unwrap();
        }
        println!("issued in {:?}, {} bytes each", begin.elapsed(), (memory() - before) / 1_000_000);
        server.ask::<String>(&["CONFIG", "RESETSTAT"]);
        let begin = Instant::now();
        let node = Node::open(in_redis(&server));
        let mut loader = KeyLoader::new();
        node.store.for_each_key(NOW, |key| loader.push(&key, ())).await.unwrap();
        node.keys.fill(loader);
        node.store.catch_up().await.unwrap();
        println!("loaded in {:?}", begin.elapsed());
        assert_eq!(node.keys.len(), 1_000_000);
        let stats: String = server.ask(&["INFO", "commandstats"]);
        let calls = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
        println!("{}", calls.unwrap_or_default());
    });
}

on_both! {
    within_a_second => what_one_node_changes_all_have_within_a_second;
    missed_messages => missed_messages_are_made_up_for;
    away => a_node_that_was_away_for_longer_than_the_log_reads_everything;
    loading => what_changes_while_keys_are_loaded_is_not_lost;
    all_sides => changes_of_one_key_from_all_sides_end_alike_everywhere;
    outdated => what_was_checked_against_an_old_state_is_refused;
    quota => nodes_together_spend_a_quota_and_not_one_more;
    cluster => a_cluster_keeps_it_too;
    failover => a_failover_is_followed;
    lost_change => a_change_in_the_place_of_a_lost_one_is_told;
    empty => an_empty_restart_takes_nothing_from_nodes;
    lost_before => a_change_before_ones_own_in_the_place_of_a_lost_one_is_told;
}
