//! A connection for other things than counters: what a store keeps in Redis, and what an operator asks.
//!
//! It is made when it is first needed and made anew after it broke, not more often than a pause allows. Connecting has its own time,
//! and goes on when whoever needed it has none left: else it would begin anew for each, and never end where it takes longer than
//! any of them waits. Who cannot wait for it to come back has one that fails at once until it is. Nothing is sent twice but a script
//! that the server did not know, which has not run.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSub, PubSubStream};
use redis::{Client, Cmd, ErrorKind, Pipeline, RedisResult, Value};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::link::{Link, primary};
use crate::pipeline::{answers_scripts, call_all, told};
use crate::scripts::Script;
use crate::settings::{Mode, Settings};
use crate::{Unavailable, command};

/// How long connecting may take, and how long after a failure it is not tried again.
const CONNECT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A script of somebody else's.
#[derive(Debug)]
pub struct Lua(Script);

impl Lua {
    /// A script of these parts, in this order.
    pub fn new(parts: &[&str]) -> Lua {
        Lua(Script::of(parts))
    }

    /// The call of this script with these keys; arguments may be added.
    pub fn with_keys(&self, keys: &[&str]) -> Cmd {
        command::evalsha(&self.0, keys.iter().copied())
    }
}

/// A connection for other things than counters.
pub struct Plain {
    settings: Settings,
    /// Held by whoever connects.
    state: Arc<Mutex<State>>,
    /// Whether it failed and was not answered since, where callers are not to find that out one after another.
    is_out: Option<Arc<AtomicBool>>,
}

#[derive(Default)]
struct State {
    link: Option<Link>,
    /// Tells one connection from the next.
    number: u64,
    failed_at: Option<Instant>,
}

impl State {
    fn fail(&mut self) {
        self.link = None;
        self.failed_at = Some(Instant::now());
    }

    async fn connect(&mut self, settings: &Settings) -> Result<(Link, u64), Unavailable> {
        match timeout(CONNECT, Link::open(settings)).await {
            Ok(Ok(link)) => {
                self.number += 1;
                self.failed_at = None;
                Ok((self.link.insert(link).clone(), self.number))
            }
            failed => {
                self.failed_at = Some(Instant::now());
                match failed {
                    Ok(Err(error)) => Err(Unavailable::Unreachable(error.to_string())),
                    _ => Err(too_late()),
                }
            }
        }
    }
}

/// Nothing was sent yet, so nothing may have run.
fn too_late() -> Unavailable {
    Unavailable::Unreachable("no connection in time".to_owned())
}

/// Tries until the server answers in the time that callers have, or nobody needs it any more.
async fn come_back(state: Weak<Mutex<State>>, is_out: Arc<AtomicBool>, settings: Settings) {
    let mut pause = PAUSE;
    loop {
        sleep(pause).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
        let Some(state) = state.upgrade() else { return };
        let mut state = state.lock_owned().await;
        let link = match state.link.clone() {
            Some(link) => link,
            None => match state.connect(&settings).await {
                Ok((link, _)) => link,
                Err(_) => continue,
            },
        };
        match answers_scripts(&link, Instant::now() + settings.longest_wait()).await {
            Ok(()) => return is_out.store(false, Relaxed),
            Err(_) => state.fail(),
        }
    }
}

impl Plain {
    /// One that is yet to be made.
    pub fn new(settings: Settings) -> Plain {
        Plain { settings, state: Arc::default(), is_out: None }
    }

    /// The same for callers of whom many wait at once, but for no longer than the settings' longest wait: after a failure all others
    /// fail at once, until the server has answered somebody in the background in that time.
    pub fn failing_fast(settings: Settings) -> Plain {
        Plain { is_out: Some(Arc::default()), ..Plain::new(settings) }
    }

    /// Where it leads.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    async fn link(&self, deadline: Instant) -> Result<(Link, u64), Unavailable> {
        let Some(is_out) = &self.is_out else { return self.connected(deadline).await };
        if is_out.load(Relaxed) {
            return Err(Unavailable::Open);
        }
        let linked = self.connected(deadline).await;
        if linked.is_err() {
            self.note_out();
        }
        linked
    }

    /// From now on all fail at once, until the server has answered in the background.
    fn note_out(&self) {
        let Some(is_out) = &self.is_out else { return };
        if !is_out.swap(true, Relaxed) {
            let (state, settings) = (Arc::downgrade(&self.state), self.settings.clone());
            tokio::spawn(come_back(state, Arc::clone(is_out), settings));
        }
    }

    async fn connected(&self, deadline: Instant) -> Result<(Link, u64), Unavailable> {
        let waiting = timeout_at(deadline, Arc::clone(&self.state).lock_owned()).await;
        let mut state = waiting.map_err(|_| too_late())?;
        if let Some(link) = &state.link {
            return Ok((link.clone(), state.number));
        }
        if state.failed_at.is_some_and(|at| at.elapsed() < PAUSE) {
            return Err(Unavailable::Open);
        }
        let settings = self.settings.clone();
        let connecting = tokio::spawn(async move { state.connect(&settings).await });
        match timeout_at(deadline, connecting).await {
            Ok(Ok(connected)) => connected,
            _ => Err(too_late()),
        }
    }

    /// Whoever connects meanwhile has forgotten it already.
    fn forget(&self, number: u64) {
        if let Ok(mut state) = self.state.try_lock()
            && state.number == number
        {
            state.fail();
            drop(state);
            self.note_out();
        }
    }

    /// Asks one thing.
    ///
    /// # Errors
    ///
    /// If it is not answered within that time.
    pub async fn ask(&self, cmd: Cmd, within: Duration) -> Result<Value, Unavailable> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(cmd);
        let mut answers = self.ask_all(&pipeline, within).await?;
        answers.pop().unwrap_or(Err(Unavailable::Nonsense))
    }

    /// Asks many things at once. Each has its own answer; if the connection fails, none has.
    ///
    /// # Errors
    ///
    /// If they are not answered within that time.
    pub async fn ask_all(
        &self,
        pipeline: &Pipeline,
        within: Duration,
    ) -> Result<Vec<Result<Value, Unavailable>>, Unavailable> {
        let scripts = std::iter::repeat_n(None, pipeline.len());
        self.send(pipeline, scripts, Instant::now() + within).await
    }

    /// Runs scripts, all sent at once. Each has its own answer; if the connection fails, none has.
    ///
    /// # Errors
    ///
    /// If they are not answered within that time.
    pub async fn run_all(
        &self,
        calls: Vec<(&'static Lua, Cmd)>,
        within: Duration,
    ) -> Result<Vec<Result<Value, Unavailable>>, Unavailable> {
        let mut pipeline = Pipeline::with_capacity(calls.len());
        let mut scripts = Vec::with_capacity(calls.len());
        for (script, cmd) in calls {
            pipeline.add_command(cmd);
            scripts.push(Some(script));
        }
        self.send(&pipeline, scripts.into_iter(), Instant::now() + within).await
    }

    /// Runs one script.
    ///
    /// # Errors
    ///
    /// If it is not answered within that time.
    pub async fn run(
        &self,
        script: &'static Lua,
        cmd: Cmd,
        within: Duration,
    ) -> Result<Value, Unavailable> {
        let mut answers = self.run_all(vec![(script, cmd)], within).await?;
        answers.pop().unwrap_or(Err(Unavailable::Nonsense))
    }

    async fn send(
        &self,
        pipeline: &Pipeline,
        scripts: impl Iterator<Item = Option<&'static Lua>>,
        deadline: Instant,
    ) -> Result<Vec<Result<Value, Unavailable>>, Unavailable> {
        let (link, number) = self.link(deadline).await?;
        let scripts: Vec<_> = scripts.map(|script| script.map(|lua| &lua.0)).collect();
        let answers = match call_all(&link, (pipeline, &scripts), deadline).await {
            Ok(answers) => answers,
            Err(why) => {
                self.forget(number);
                return Err(why);
            }
        };
        if answers.iter().any(|answer| answer.as_ref().is_err_and(|(_, is_down)| *is_down)) {
            self.forget(number);
        }
        Ok(answers.into_iter().map(|answer| answer.map_err(|(why, _)| why)).collect())
    }

    /// Listens to a channel. In a cluster any node hears what is published on any other.
    ///
    /// # Errors
    ///
    /// If there is no connection, or the channel may not be listened to.
    pub async fn subscribe(&self, channel: &str) -> Result<Subscription, Unavailable> {
        let subscribing = async {
            let mut messages = match self.settings.mode {
                Mode::Single | Mode::Cluster => self.listening().await?,
                Mode::Sentinel => primary(&self.settings).await?.get_async_pubsub().await?,
            };
            messages.subscribe(channel).await?;
            Ok(Subscription(messages.into_on_message()))
        };
        match timeout(CONNECT, subscribing).await {
            Ok(subscribed) => subscribed.map_err(|error| told(error).0),
            Err(_) => Err(Unavailable::TimedOut),
        }
    }

    /// A connection for messages, to the first server that takes one.
    async fn listening(&self) -> RedisResult<PubSub> {
        let mut last = None;
        for seed in self.settings.seeds() {
            match Client::open(seed)?.get_async_pubsub().await {
                Ok(connected) => return Ok(connected),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| (ErrorKind::Io, "there is no server to ask").into()))
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain").field("mode", &self.settings.mode).finish_non_exhaustive()
    }
}

/// Messages of a channel.
pub struct Subscription(PubSubStream);

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

impl Subscription {
    /// Waits for the next message; `None` when the connection has ended.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        self.0.next().await.map(|message| message.get_payload_bytes().to_vec())
    }
}
