//! A worker's own connections to upstreams.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::h1::Idle;
use super::h2::{STREAMS, Shared};
use super::opening::Openings;
use crate::upstream::{Target, Upstream};

/// What one worker has of one upstream.
#[derive(Debug)]
pub(crate) struct Local {
    upstream: Weak<Upstream>,
    targets: RefCell<Arc<Vec<Arc<Target>>>>,
    pools: RefCell<Vec<Rc<Pool>>>,
    /// Whose turn it is.
    turn: Cell<usize>,
}

impl Local {
    pub(crate) fn new(upstream: &Arc<Upstream>) -> Rc<Local> {
        Rc::new(Local {
            upstream: Arc::downgrade(upstream),
            targets: RefCell::default(),
            pools: RefCell::default(),
            turn: Cell::new(0),
        })
    }

    pub(crate) fn is_of(&self, upstream: &Arc<Upstream>) -> bool {
        std::ptr::eq(self.upstream.as_ptr(), Arc::as_ptr(upstream))
    }

    /// Whether the upstream is still in use anywhere.
    pub(crate) fn is_used(&self) -> bool {
        self.upstream.strong_count() > 0
    }

    /// The pool of the address whose turn it is, among those that are not left out; if all are, of the one that is
    /// in again first. `None` if there is no address.
    pub(crate) fn pick(&self, upstream: &Upstream, now: Instant) -> Option<Rc<Pool>> {
        self.follow(upstream);
        let pools = self.pools.borrow();
        if let [only] = &pools[..] {
            return Some(Rc::clone(only));
        }
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        let in_turn = (0..pools.len()).map(|n| &pools[turn.wrapping_add(n) % pools.len()]);
        let picked = in_turn.min_by_key(|pool| pool.target.out_for(now))?;
        picked.target.picked(now);
        Some(Rc::clone(picked))
    }

    /// Takes over new addresses; those that stay keep their connections.
    fn follow(&self, upstream: &Upstream) {
        let targets = upstream.resolved().targets();
        if Arc::ptr_eq(&targets, &self.targets.borrow()) {
            return;
        }
        let mut pools = self.pools.borrow_mut();
        let had = std::mem::take(&mut *pools);
        let of = |target: &Arc<Target>| {
            let kept = had.iter().find(|pool| Arc::ptr_eq(&pool.target, target));
            kept.map_or_else(|| Pool::new(target), Rc::clone)
        };
        *pools = targets.iter().map(of).collect();
        *self.targets.borrow_mut() = Arc::clone(&targets);
    }

    /// Drops connections that were closed at the other end, or idle for too long.
    pub(crate) fn sweep(&self, now: Instant) {
        for pool in self.pools.borrow().iter() {
            pool.sweep(now);
        }
    }
}

/// A worker's connections to one address.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) target: Arc<Target>,
    idle: RefCell<Vec<(Instant, Box<Idle>)>>,
    pub(crate) shared: RefCell<Vec<Shared>>,
    /// How many of those were ever opened, which numbers them.
    pub(crate) opened: Cell<u64>,
    /// How many streams the last of them that was heard had room for.
    pub(crate) allowed: Cell<usize>,
    /// Connections that will be among the shared ones.
    pub(crate) openings: Openings,
    /// Over TLS the server chose HTTP/1.1: connections are not shared.
    pub(crate) is_http1: Cell<bool>,
}

/// Idle connections to an address, and how long: servers commonly give up after 60 s or more, and what stands between may
/// forget a connection without a word, of either protocol.
const MOST_IDLE: usize = 1024;
const IDLE_FOR: Duration = Duration::from_secs(55);

impl Pool {
    fn new(target: &Arc<Target>) -> Rc<Pool> {
        Rc::new(Pool {
            target: Arc::clone(target),
            idle: RefCell::default(),
            shared: RefCell::default(),
            opened: Cell::new(0),
            allowed: Cell::new(STREAMS),
            openings: Openings::default(),
            is_http1: Cell::new(false),
        })
    }

    /// The connection used last: it is the least likely to have been closed.
    pub(crate) fn take(&self) -> Option<Box<Idle>> {
        self.idle.borrow_mut().pop().map(|(_, idle)| idle)
    }

    pub(crate) fn put(&self, idle: Box<Idle>, now: Instant) {
        let mut all = self.idle.borrow_mut();
        if all.len() < MOST_IDLE {
            all.push((now, idle));
        }
    }

    fn sweep(&self, now: Instant) {
        self.idle.borrow_mut().retain_mut(|(since, idle)| {
            now.saturating_duration_since(*since) < IDLE_FOR && idle.is_open()
        });
        let mut shared = self.shared.borrow_mut();
        shared.retain(|shared| shared.is_open() && shared.idle_for(now) < IDLE_FOR);
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::LocalSet;
    use tollgate_policy::shapes;

    use super::*;
    use crate::stream::Stream;

    /// The last one was kept for ever: where something on the way had forgotten it, the next calls were sent to nobody.
    #[tokio::test]
    async fn shared_connections_that_nobody_uses_are_not_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shape = shapes::Upstream {
            url: Some(format!("http://{address}").parse().unwrap()),
            urls: None,
            backpressure: shapes::Backpressure::default(),
            connect_timeout_ms: 2000,
            response_timeout_ms: 1,
            rate_limit: None,
        };
        let upstream = Upstream::new(&shape, || unreachable!()).unwrap();
        let began = Instant::now();
        let pool = Local::new(&upstream).pick(&upstream, began).unwrap();
        let swept = |after| {
            pool.sweep(began + after);
            pool.shared.borrow().len()
        };
        let opened = async {
            for number in 1..=3 {
                let stream = Stream::plain(TcpStream::connect(address).await.unwrap());
                let shared = Shared::new(stream, number).await.unwrap();
                pool.shared.borrow_mut().push(shared);
            }
            assert_eq!(swept(Duration::ZERO), 3);
            assert_eq!(swept(IDLE_FOR - Duration::from_secs(1)), 3);
            assert_eq!(swept(IDLE_FOR), 0);
        };
        LocalSet::new().run_until(opened).await;
    }
}
