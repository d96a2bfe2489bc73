//! All keys in memory: looked up without a lock, changed without copying them all.
//!
//! ```text
//! SHA-256 ─ first 14 bits ─▶ one of 16,384 shards, each swapped as a whole
//!           next 64 bits  ─▶ its place in the shard, which is sorted by them
//!           all 256 bits  ─▶ compared in constant time
//! ```
//! With a million keys a shard holds some sixty, so a new key copies a kilobyte. Digests are spread evenly by themselves, and
//! whoever could choose them could break SHA-256, so they need no hashing.
//!
//! A key that is unknown is compared with its neighbour in the shard, so that unknown, expired and
//! wrong keys cost the same steps. A revoked key is taken out, which makes it an unknown one.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use subtle::{Choice, ConstantTimeEq};
use tollgate_core::Time;
use tollgate_policy::Sha256;

use super::entry::Memberships;
use super::{KeyEntry, StoredKey};

const SHARD_BITS: u32 = 14;

/// All keys that are in force, for readers that must not wait. `T` is what a later layer attaches to each, such as its
/// compiled chain, so that a request needs no second lookup.
///
/// Changes are made one at a time; readers see each at once, before the call that makes it returns.
pub struct KeySnapshot<T> {
    shards: Box<[ArcSwap<Shard<T>>]>,
    /// Held by whoever changes something. Readers never look at it.
    memberships: Mutex<Memberships>,
}

struct Shard<T>(Box<[Slot<T>]>);

struct Slot<T> {
    tag: u64,
    entry: Arc<KeyEntry<T>>,
}

impl<T> Shard<T> {
    /// The first slot whose tag is not below `tag`. Tags are spread evenly, so it is near where it would be if they were
    /// spread perfectly: one or two cache lines, where halving would wait for four.
    fn first_at(&self, tag: u64) -> usize {
        let slots = &self.0;
        let mut at = ((u128::from(tag) * slots.len() as u128) >> 64) as usize;
        while at > 0 && slots[at - 1].tag >= tag {
            at -= 1;
        }
        while slots.get(at).is_some_and(|slot| slot.tag < tag) {
            at += 1;
        }
        at
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Slot<T> {
        Slot { tag: self.tag, entry: Arc::clone(&self.entry) }
    }
}

/// Shard and tag of a digest.
fn place(sha256: &[u8; 32]) -> (usize, u64) {
    let [a, b, c, d, e, f, g, h, i, j, ..] = *sha256;
    let shard = u16::from_be_bytes([a, b]) >> (16 - SHARD_BITS);
    (usize::from(shard), u64::from_be_bytes([c, d, e, f, g, h, i, j]))
}

impl<T> KeySnapshot<T> {
    /// No keys.
    pub fn new() -> KeySnapshot<T> {
        KeyLoader::new().finish()
    }

    /// The key with this digest, if there is one and it has not ended.
    pub fn find(&self, sha256: &Sha256, now: Time) -> Option<FoundKey<T>> {
        const NOBODY: (&[u8; 32], Time) = (&[0; 32], Time::EPOCH);
        let (shard, tag) = place(sha256.as_bytes());
        let shard = self.shards[shard].load();
        let mut at = shard.first_at(tag);
        loop {
            let neighbour = shard.0.get(at).or(shard.0.last());
            let (digest, ends_at) = neighbour.map_or(NOBODY, |slot| slot.entry.proof());
            let is_current = Choice::from(u8::from(now < ends_at));
            #[cfg(test)]
            tests::COMPARED.with(|compared| compared.set(compared.get() + 1));
            if bool::from(is_same(digest, sha256.as_bytes()) & is_current) {
                return Some(FoundKey { shard, at });
            }
            // Of 2^39 pairs of keys in a million, one in 2^78 has the same place.
            at += 1;
            if shard.0.get(at).is_none_or(|next| next.tag != tag) {
                return None;
            }
        }
    }

    /// Makes what is stored of a key what requests see: adds it, changes it, or takes it out if it is revoked.
    pub fn apply(&self, key: &StoredKey, attached: T) {
        let mut memberships = self.memberships.lock();
        let ends_at = key.ends_at();
        let entry = KeyEntry::new(key, &mut memberships, attached);
        self.change(key, |slots, tag| {
            if ends_at > Time::EPOCH {
                let at = slots.partition_point(|slot| slot.tag < tag);
                slots.insert(at, Slot { tag, entry: Arc::new(entry) });
            }
        });
    }

    /// Makes what was loaded all there is. Whoever watches a store begins with an empty snapshot, and fills it so.
    pub fn fill(&self, loaded: KeyLoader<T>) {
        let mut memberships = self.memberships.lock();
        let loaded = loaded.finish();
        for (shard, filled) in self.shards.iter().zip(loaded.shards) {
            shard.store(filled.into_inner());
        }
        *memberships = loaded.memberships.into_inner();
    }

    /// Takes a key out.
    pub fn remove(&self, key: &StoredKey) {
        let _one_at_a_time = self.memberships.lock();
        self.change(key, |_, _| ());
    }

    /// Replaces a key's shard by one without the key, in which `then` may put it again.
    fn change(&self, key: &StoredKey, then: impl FnOnce(&mut Vec<Slot<T>>, u64)) {
        let (shard, tag) = place(key.sha256.as_bytes());
        let old = self.shards[shard].load();
        let is_other = |slot: &&Slot<T>| slot.entry.sha256() != key.sha256;
        let mut slots = Vec::with_capacity(old.0.len() + 1);
        slots.extend(old.0.iter().filter(is_other).cloned());
        then(&mut slots, tag);
        self.shards[shard].store(Arc::new(Shard(slots.into())));
    }

    /// Attaches anew to every key, as when the policy has changed.
    pub fn reattach(&self, attach: impl Fn(&KeyEntry<T>) -> T) {
        let _one_at_a_time = self.memberships.lock();
        for shard in &self.shards {
            let old = shard.load();
            let anew = |slot: &Slot<T>| {
                let entry = slot.entry.with(attach(&slot.entry));
                Slot { tag: slot.tag, entry: Arc::new(entry) }
            };
            if !old.0.is_empty() {
                shard.store(Arc::new(Shard(old.0.iter().map(anew).collect())));
            }
        }
    }

    /// Takes out all keys that have ended, and answers how many.
    pub fn sweep(&self, now: Time) -> usize {
        let mut memberships = self.memberships.lock();
        let mut swept = 0;
        for shard in &self.shards {
            let old = shard.load();
            let has_ended = |slot: &&Slot<T>| slot.entry.ends_at() <= now;
            let ended = old.0.iter().filter(has_ended).count();
            if ended > 0 {
                let kept = old.0.iter().filter(|slot| !has_ended(slot)).cloned().collect();
                shard.store(Arc::new(Shard(kept)));
                swept += ended;
            }
        }
        memberships.sweep();
        swept
    }

    /// Shows every key that there is, also such as have ended since the last sweep.
    pub fn for_each(&self, mut see: impl FnMut(&KeyEntry<T>)) {
        for shard in &self.shards {
            shard.load().0.iter().for_each(|slot| see(&slot.entry));
        }
    }

    /// How many keys there are. It looks at every shard.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.load().0.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.load().0.is_empty())
    }
}

impl<T> Default for KeySnapshot<T> {
    fn default() -> KeySnapshot<T> {
        KeySnapshot::new()
    }
}

impl<T> fmt::Debug for KeySnapshot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySnapshot").field("len", &self.len()).finish()
    }
}

/// A key that was found. It holds on to the shard as it was then: keep it for a request, not for longer.
pub struct FoundKey<T> {
    shard: Guard<Arc<Shard<T>>>,
    at: usize,
}

impl<T> FoundKey<T> {
    /// The entry, to be kept.
    pub fn share(&self) -> Arc<KeyEntry<T>> {
        Arc::clone(&self.shard.0[self.at].entry)
    }
}

impl<T> Deref for FoundKey<T> {
    type Target = KeyEntry<T>;

    fn deref(&self) -> &KeyEntry<T> {
        &self.shard.0[self.at].entry
    }
}

impl<T: fmt::Debug> fmt::Debug for FoundKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Fills a snapshot with many keys at once.
pub struct KeyLoader<T> {
    shards: Vec<Vec<Slot<T>>>,
    memberships: Memberships,
}

impl<T> KeyLoader<T> {
    /// No keys yet.
    pub fn new() -> KeyLoader<T> {
        let shards = (0..1 << SHARD_BITS).map(|_| Vec::new()).collect();
        KeyLoader { shards, memberships: Memberships::default() }
    }

    /// Adds a key, unless it is revoked. No two may have the same digest.
    pub fn push(&mut self, key: &StoredKey, attached: T) {
        if key.ends_at() > Time::EPOCH {
            let (shard, tag) = place(key.sha256.as_bytes());
            let entry = KeyEntry::new(key, &mut self.memberships, attached);
            self.shards[shard].push(Slot { tag, entry: Arc::new(entry) });
        }
    }

    /// The snapshot.
    pub fn finish(self) -> KeySnapshot<T> {
        let nobody = Arc::new(Shard(Box::default()));
        let shards = self.shards.into_iter().map(|mut slots| {
            if slots.is_empty() {
                return ArcSwap::new(Arc::clone(&nobody));
            }
            slots.sort_unstable_by_key(|slot| slot.tag);
            ArcSwap::new(Arc::new(Shard(slots.into())))
        });
        KeySnapshot { shards: shards.collect(), memberships: Mutex::new(self.memberships) }
    }
}

impl<T> Default for KeyLoader<T> {
    fn default() -> KeyLoader<T> {
        KeyLoader::new()
    }
}

impl<T> fmt::Debug for KeyLoader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len: usize = self.shards.iter().map(Vec::len).sum();
        f.debug_struct("KeyLoader").field("len", &len).finish()
    }
}

/// Compares digests in the same time, whichever they are. By words: `subtle` looks at slices byte by byte, which takes eight times as long.
fn is_same(one: &[u8; 32], other: &[u8; 32]) -> Choice {
    let words = one.as_chunks().0.iter().zip(other.as_chunks().0);
    words.fold(Choice::from(1), |same, (one, other)| {
        same & u64::from_ne_bytes(*one).ct_eq(&u64::from_ne_bytes(*other))
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;
    use crate::{KeyDraft, KeyTerms};

    const NOW: Time = Time::from_secs(1_800_000_000);

    thread_local! {
        /// How often a lookup on this thread has compared a digest.
        pub(super) static COMPARED: Cell<u32> = const { Cell::new(0) };
    }

    fn key() -> StoredKey {
        let tenant = "acme".parse().unwrap();
        KeyDraft { tenant, user: None, terms: KeyTerms::default() }.mint(NOW).unwrap().1
    }

    /// Whoever could tell them apart by the time it takes would know which keys there are or were.
    #[test]
    fn whatever_is_wrong_with_a_key_it_is_compared_once() {
        let (known, mut expired, mut revoked) = (key(), key(), key());
        expired.terms.expires_at = Some(NOW);
        let snapshot = KeySnapshot::new();
        snapshot.apply(&known, ());
        snapshot.apply(&expired, ());
        snapshot.apply(&revoked, ());
        revoked.revoked_at = Some(NOW);
        snapshot.apply(&revoked, ());
        // Unknown ones beside a key that there is, before and after it, and where there is none.
        let beside = |last: u8| {
            let mut digest = *known.sha256.as_bytes();
            digest[31] ^= 1;
            digest[2] = last;
            Sha256::from_bytes(digest)
        };
        let alone = key().sha256;
        let later = NOW + Duration::from_secs(1);
        for (what, digest, is_found) in [
            ("known", known.sha256, true),
            ("expired", expired.sha256, false),
            ("revoked", revoked.sha256, false),
            ("unknown, before", beside(0), false),
            ("unknown, after", beside(255), false),
            ("unknown, alone", alone, false),
        ] {
            COMPARED.set(0);
            assert_eq!(snapshot.find(&digest, later).is_some(), is_found, "{what}");
            assert_eq!(COMPARED.get(), 1, "{what}");
        }
    }
}
