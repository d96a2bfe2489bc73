//! Tells watchers what has changed, whoever changed it.
//!
//! A message on a channel says that there is something; which, the log says. Messages may be lost, so the log is looked at twice
//! a second in any case. A node that was away for longer than the log reaches back reads all keys again; so does one whose last
//! change is no longer in its place, because a failover lost it and another one was made there.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::sync::{Mutex, Notify};
use tollgate_redis::Plain;

use super::names::Names;
use super::scripts::CHANGES;
use super::values::{damaged, list, number, text};
use super::{reader, row};
use crate::{StoreError, StoredKey};

/// How often the log is looked at although nobody said anything.
const LOOK: Duration = Duration::from_millis(500);
/// Entries read at once.
const PART: i64 = 256;
const WITHIN: Duration = Duration::from_secs(5);

/// Who is told.
pub(super) struct Watchers {
    pub(super) keys: Box<dyn Fn(&StoredKey) + Send>,
    pub(super) objects: Box<dyn Fn() + Send>,
}

/// Where in which log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) epoch: String,
    pub(super) at: i64,
    /// Who made the change there, by which call.
    pub(super) by: String,
}

impl Place {
    pub(super) fn read(epoch: &Value, at: &Value, by: &Value) -> Option<Place> {
        let (epoch, by) = (text(epoch)?.to_owned(), text(by)?.to_owned());
        Some(Place { epoch, at: number(at)?, by })
    }
}

pub(super) struct Feed {
    plain: Arc<Plain>,
    names: Names,
    /// What this node is called beside its changes.
    writer: String,
    state: Mutex<State>,
    /// Something was said.
    pub(super) news: Notify,
}

struct State {
    watchers: Watchers,
    /// All before it has been told.
    place: Place,
    /// Where the log was when all keys were last read.
    loaded: Place,
    /// This node's last call that was told from the log.
    own: String,
    /// Tenants, plans or configuration have changed, and nobody was told yet.
    has_objects: bool,
    /// The store whose objects watchers have.
    objects_of: String,
}

/// What a node has made in one call, or in a part of it.
pub(super) struct Own<'a> {
    /// Its first and last place in the log.
    pub(super) places: (i64, i64),
    /// Who made the change before.
    pub(super) before: &'a str,
    /// Which call made it.
    pub(super) by: &'a str,
    pub(super) keys: &'a [StoredKey],
}

impl Feed {
    pub(super) fn new(
        (plain, names): (Arc<Plain>, Names),
        writer: String,
        (watchers, place): (Watchers, Place),
    ) -> Feed {
        let state = State {
            watchers,
            loaded: place.clone(),
            objects_of: place.epoch.clone(),
            place,
            own: String::new(),
            has_objects: false,
        };
        Feed { plain, names, writer, state: Mutex::new(state), news: Notify::new() }
    }

    /// Follows the log for ever.
    pub(super) async fn follow(self: Arc<Self>) {
        loop {
            let _ = tokio::time::timeout(LOOK, self.news.notified()).await;
            // What could not be read now is read next time.
            let _ = self.advance().await;
        }
    }

    /// Listens to the channel for ever.
    pub(super) async fn listen(self: Arc<Self>) {
        loop {
            if let Ok(mut messages) = self.plain.subscribe(&self.names.channel()).await {
                // Something may have been said before we listened.
                self.news.notify_one();
                while messages.next().await.is_some() {
                    self.news.notify_one();
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Tells what this node itself has changed, unless the log got there first: then it was told, as it is now. Whatever is before
    /// it in the log is told later, as it is then.
    pub(super) async fn committed(&self, Own { places, before, by, keys }: Own<'_>) {
        let (first, last) = places;
        let mut state = self.state.lock().await;
        let is_passed = state.place.at >= last;
        if is_passed && state.own == by {
            return;
        }
        keys.iter().for_each(&state.watchers.keys);
        if is_passed {
            // The log was longer before than it is: a failover has lost its end. Or everything was read at once, and
            // what another made of these keys after us was told. Either way all of it is read again.
            state.place.epoch.clear();
            self.news.notify_one();
        } else if state.place.at + 1 == first && state.place.by == before {
            state.place.at = last;
            by.clone_into(&mut state.place.by);
        }
    }

    /// Takes note that all keys are about to be read.
    pub(super) async fn loading(&self) -> Result<(), StoreError> {
        let part = self.part(i64::MAX).await?;
        self.state.lock().await.loaded = part.place;
        Ok(())
    }

    /// Tells again what has changed since all keys were read.
    pub(super) async fn catch_up(&self) -> Result<(), StoreError> {
        {
            let mut state = self.state.lock().await;
            if state.loaded.epoch == state.place.epoch && state.loaded.at < state.place.at {
                state.place = state.loaded.clone();
            }
        }
        self.advance().await
    }

    /// Tells everything that has not been told.
    pub(super) async fn advance(&self) -> Result<(), StoreError> {
        let mut state = self.state.lock().await;
        let done = self.advance_from(&mut state).await;
        if state.has_objects {
            // Redis has restarted empty. What nodes have is all there is, until a node has begun a new store and somebody has
            // made something there.
            let Place { epoch, .. } = &state.place;
            let is_same = *epoch == state.objects_of;
            if is_same || (!epoch.is_empty() && self.has_had_objects().await?) {
                (state.watchers.objects)();
                state.objects_of = state.place.epoch.clone();
            }
            state.has_objects = false;
        }
        done
    }

    /// Whether anybody has made a tenant, a plan or a configuration in the store, though it be gone by now.
    async fn has_had_objects(&self) -> Result<bool, StoreError> {
        let mut hget = redis::cmd("HGET");
        hget.arg(self.names.meta()).arg("versions");
        Ok(text(&self.plain.ask(hget, WITHIN).await?).is_some())
    }

    async fn advance_from(&self, state: &mut State) -> Result<(), StoreError> {
        loop {
            let part = self.part(state.place.at).await?;
            let is_same = part.place.epoch == state.place.epoch
                && part.place.at >= state.place.at
                && part.by == state.place.by;
            if is_same && part.place.at == state.place.at {
                return Ok(());
            }
            let is_gapless =
                part.changes.first().is_some_and(|change| change.at == state.place.at + 1);
            if !is_same || !is_gapless {
                self.tell_all(&mut state.watchers).await?;
                state.place = part.place;
                state.has_objects = true;
                continue;
            }
            for Change { at, by, what } in part.changes {
                match what {
                    Changed::Key(key) => (state.watchers.keys)(&key),
                    Changed::Object => state.has_objects = true,
                    // Somebody has been at it by hand: what is known of the key stays.
                    Changed::Unreadable => (),
                }
                if by.split(' ').next() == Some(&self.writer) {
                    state.own.clone_from(&by);
                }
                (state.place.at, state.place.by) = (at, by);
            }
        }
    }

    /// Tells every key there is, also those that have ended.
    async fn tell_all(&self, watchers: &mut Watchers) -> Result<(), StoreError> {
        let list = (&*self.plain, &self.names);
        let mut rest = reader::Parts::new(list, Names::order(None), (0, reader::PART));
        loop {
            let rows = rest.next().await?;
            if rows.is_empty() {
                return Ok(());
            }
            // One that does not read stays as it is known.
            let texts = rows.iter().filter_map(|(_, row)| text(row));
            texts.filter_map(|row| row::read_key(row).ok()).for_each(|key| (watchers.keys)(&key));
        }
    }

    async fn part(&self, after: i64) -> Result<Part, StoreError> {
        let mut cmd = CHANGES.with_keys(&[&self.names.meta()]);
        cmd.arg(after).arg(PART);
        let value = self.plain.run(&CHANGES, cmd, WITHIN).await?;
        read(&value).ok_or_else(|| damaged("the log of changes"))
    }
}

struct Part {
    /// The log's end.
    place: Place,
    /// Who made the change at the place that was asked about.
    by: String,
    changes: Vec<Change>,
}

struct Change {
    at: i64,
    by: String,
    what: Changed,
}

enum Changed {
    Key(Box<StoredKey>),
    Object,
    Unreadable,
}

fn read(value: &Value) -> Option<Part> {
    let ([epoch, at, last_by, by], rest) = list(value)?.split_first_chunk::<4>()?;
    let (place, by) = (Place::read(epoch, at, last_by)?, text(by)?.to_owned());
    let mut changes = Vec::with_capacity(rest.len() / 4);
    for entry in rest.chunks_exact(4) {
        let (at, by, what) = (number(&entry[0])?, text(&entry[1])?.to_owned(), text(&entry[2])?);
        let what = match what.strip_prefix('k') {
            Some(_) => text(&entry[3])
                .and_then(|text| row::read_key(text).ok())
                .map_or(Changed::Unreadable, |key| Changed::Key(Box::new(key))),
            None => Changed::Object,
        };
        changes.push(Change { at, by, what });
    }
    Some(Part { place, by, changes })
}
