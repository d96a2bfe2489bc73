//! Calls that share round trips, and the circuit breaker.
//!
//! One task owns the connection. It takes everything that waits, sends it as one pipeline, and goes on taking while a
//! few pipelines are on their way: so the fewer round trips there are a second, the more calls share each. No call
//! has a timer of its own: the oldest call of a pipeline has its deadline, and when that passes, everybody who
//! waits is told.
//!
//! The first failure opens the breaker. From then on calls fail at once, until the task has connected anew and a script
//! was answered as fast as callers need it: a server that is there but slow stays shut out. It tries at growing, random
//! intervals, so that many nodes do not come back all at once, and begins with short ones only after a steady time.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{Cmd, Pipeline, Value};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};

use crate::Unavailable;
use crate::latencies::Latencies;
use crate::link::Link;
use crate::pipeline::{answers_scripts, call_all, told};
use crate::scripts::Script;
use crate::settings::Settings;

/// The most calls in one pipeline.
const BATCH: usize = 128;

/// Pipelines on their way at once: one that the server works on, and others it need not wait for.
const ON_THE_WAY: usize = 4;

/// The most calls that wait. At 100,000 a second that is 160 ms of work, three times what a call may take by default: more would wait for
/// nothing.
const WAITING: usize = 16_384;

/// The first pause before connecting anew, and the longest; each is drawn between half of it and all.
const PAUSE: Duration = Duration::from_millis(40);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Counters that are told or returned at once in the background: so many are sent without keeping requests waiting.
pub(crate) const IN_BACKGROUND: usize = 128;

/// A connection that lasted so long was of use: the next pause is the first one again.
const STEADY: Duration = Duration::from_secs(5);

type Reply = Result<Value, Unavailable>;

/// A call that waits for its answer.
struct Call {
    cmd: Cmd,
    /// What it runs, where it is to be loaded if the server does not have it.
    script: Option<&'static Script>,
    since: Instant,
    reply: oneshot::Sender<Reply>,
    /// Gone if nobody waits for it any more.
    caller: Weak<()>,
}

/// A call that was handed in. Dropped before it was sent, it is not sent.
pub(crate) struct Asked {
    answer: oneshot::Receiver<Reply>,
    _caller: Arc<()>,
}

impl Asked {
    /// Waits for the answer.
    pub(crate) async fn answer(&mut self) -> Reply {
        let lost = || Unavailable::Lost("another call on it failed".to_owned());
        (&mut self.answer).await.unwrap_or_else(|_| Err(lost()))
    }

    /// What is still answered if it was sent already.
    pub(crate) fn leave(self) -> oneshot::Receiver<Reply> {
        self.answer
    }
}

/// Where calls are handed in. Clones share the connection.
#[derive(Clone)]
pub(crate) struct Calls {
    queue: mpsc::Sender<Call>,
    health: Arc<Health>,
}

/// What is known of the connection.
#[derive(Debug, Default)]
pub(crate) struct Health {
    is_up: AtomicBool,
    came_up: Notify,
    /// How often the breaker has opened.
    opened: AtomicU64,
    took: Latencies,
}

impl Health {
    /// Opens the breaker, before anybody is told of the failure: whoever is told finds it open.
    fn open(&self) {
        if self.is_up.swap(false, Relaxed) {
            self.opened.fetch_add(1, Relaxed);
        }
    }
}

impl Calls {
    /// Starts the task that carries calls, on the current runtime.
    pub(crate) fn start(settings: Settings) -> Calls {
        let (queue, waiting) = mpsc::channel(WAITING);
        let health = Arc::<Health>::default();
        tokio::spawn(carry(settings, waiting, Arc::clone(&health)));
        Calls { queue, health }
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn ask(&self, cmd: Cmd, script: Option<&'static Script>) -> Reply {
        self.hand_in(cmd, script)?.answer().await
    }

    /// Hands a call in.
    pub(crate) fn hand_in(
        &self,
        cmd: Cmd,
        script: Option<&'static Script>,
    ) -> Result<Asked, Unavailable> {
        if !self.is_up() {
            return Err(Unavailable::Open);
        }
        let (reply, answer) = oneshot::channel();
        let caller = Arc::new(());
        let since = Instant::now();
        let call = Call { cmd, script, since, reply, caller: Arc::downgrade(&caller) };
        self.queue.try_send(call).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Unavailable::Overloaded,
            mpsc::error::TrySendError::Closed(_) => Unavailable::Closed,
        })?;
        Ok(Asked { answer, _caller: caller })
    }

    /// Whether the breaker is closed.
    pub(crate) fn is_up(&self) -> bool {
        self.health.is_up.load(Relaxed)
    }

    /// Waits until it is closed.
    pub(crate) async fn up(&self) {
        loop {
            let came_up = self.health.came_up.notified();
            if self.is_up() {
                return;
            }
            came_up.await;
        }
    }

    /// Waits until it is closed the next time.
    pub(crate) async fn comes_up(&self) {
        self.health.came_up.notified().await;
    }

    /// How long calls took.
    pub(crate) fn latencies(&self) -> &Latencies {
        &self.health.took
    }

    /// How often it has opened.
    pub(crate) fn opened(&self) -> u64 {
        self.health.opened.load(Relaxed)
    }
}

/// Carries calls until nobody can hand in any more.
async fn carry(settings: Settings, mut waiting: mpsc::Receiver<Call>, health: Arc<Health>) {
    let mut pause = PAUSE;
    loop {
        match turning_away(&mut waiting, Link::connect_in_time(&settings)).await {
            Ok(link) => {
                let since = Instant::now();
                health.is_up.store(true, Relaxed);
                health.came_up.notify_waiters();
                let ended = serve(&settings, (&link, &health), &mut waiting).await;
                if ended.is_ok() {
                    return health.is_up.store(false, Relaxed);
                }
                health.open();
                if since.elapsed() >= STEADY {
                    pause = PAUSE;
                }
            }
            Err(_) if waiting.is_closed() => return,
            Err(_) => {}
        }
        turning_away(&mut waiting, sleep(drawn(pause))).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
        while let Ok(call) = waiting.try_recv() {
            let _ = call.reply.send(Err(Unavailable::Open));
        }
    }
}

/// Waits for something while the breaker is open. Whoever handed in a call before it opened, or looked before that and handed it in
/// after, does not wait for that too: nothing of it was sent.
async fn turning_away<T>(
    waiting: &mut mpsc::Receiver<Call>,
    something: impl Future<Output = T>,
) -> T {
    let mut something = pin!(something);
    loop {
        tokio::select! {
            done = &mut something => return done,
            Some(call) = waiting.recv() => drop(call.reply.send(Err(Unavailable::Open))),
        }
    }
}

/// Sends what waits until a failure. `Ok` when nobody can hand in any more.
async fn serve(
    settings: &Settings,
    (link, health): (&Link, &Health),
    waiting: &mut mpsc::Receiver<Call>,
) -> Result<(), Unavailable> {
    let mut on_the_way = FuturesUnordered::new();
    let mut is_open = true;
    while is_open || !on_the_way.is_empty() {
        let mut batch = Vec::new();
        tokio::select! {
            Some(done) = on_the_way.next(), if !on_the_way.is_empty() => done?,
            taken = waiting.recv_many(&mut batch, BATCH), if is_open && on_the_way.len() < ON_THE_WAY => {
                is_open = taken > 0;
                // Whoever has given up is not to be charged.
                batch.retain(|call| call.caller.strong_count() > 0);
                if let Some(oldest) = batch.first() {
                    let deadline = oldest.since + settings.timeout;
                    on_the_way.push(send((link, health), batch, deadline));
                }
            }
        }
    }
    Ok(())
}

/// Sends a pipeline and hands out its answers. `Err` if the server as a whole is of no use.
async fn send(
    (link, health): (&Link, &Health),
    batch: Vec<Call>,
    deadline: Instant,
) -> Result<(), Unavailable> {
    let since: Vec<Instant> = batch.iter().map(|call| call.since).collect();
    let mut pipeline = Pipeline::with_capacity(batch.len());
    let mut scripts = Vec::with_capacity(batch.len());
    let mut waiting = Vec::with_capacity(batch.len());
    for Call { cmd, script, reply, .. } in batch {
        pipeline.add_command(cmd);
        scripts.push(script);
        waiting.push(reply);
    }
    let answered = call_all(link, (&pipeline, &scripts), deadline).await;
    let now = Instant::now();
    since.iter().for_each(|since| health.took.note(now.saturating_duration_since(*since)));
    let answers = match answered {
        Ok(answers) => answers,
        Err(why) => {
            health.open();
            for reply in waiting {
                let _ = reply.send(Err(why.clone()));
            }
            return Err(why);
        }
    };
    let mut failed = Ok(());
    for (reply, answer) in waiting.into_iter().zip(answers) {
        let _ = reply.send(answer.map_err(|(why, is_down)| {
            if is_down {
                health.open();
                failed = Err(why.clone());
            }
            why
        }));
    }
    failed
}

/// A pause between half of `longest` and all of it.
fn drawn(longest: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(longest);
    longest / 2 + longest.mul_f64((random >> 11) as f64 / (1u64 << 53) as f64 / 2.0)
}

impl Link {
    /// Connects, which may take its time, and sees that scripts are answered in the time that callers have.
    async fn connect_in_time(settings: &Settings) -> Result<Link, Unavailable> {
        let link = match timeout(Duration::from_secs(2), Link::connect(settings)).await {
            Err(_) => return Err(Unavailable::TimedOut),
            Ok(Err(error)) => return Err(told(error).0),
            Ok(Ok(link)) => link,
        };
        answers_scripts(&link, Instant::now() + settings.timeout).await.map(|()| link)
    }
}

#[cfg(test)]
mod tests;
