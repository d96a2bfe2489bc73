//! Who is counted: a keyed 128-bit hash instead of a string.
//!
//! Counters are found by hash alone, so two identities that collide would share a counter. With 128
//! bits that does not happen by chance, and with a key that is drawn anew in every process nobody can
//! make it happen.

#[cfg(not(tollgate_loom))]
use std::collections::hash_map::RandomState;
#[cfg(not(tollgate_loom))]
use std::hash::BuildHasher;
use std::hash::{Hash, Hasher};

use siphasher::sip128::SipHasher13;

/// Who is counted, to one [`Limiter`](crate::Limiter) only: another one has another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity(pub(crate) u128);

/// The secret all hashes of one limiter are keyed with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed {
    halves: [u64; 2],
    sip: SipHasher13,
}

impl Seed {
    /// A secret from the operating system's randomness.
    pub(crate) fn random() -> Seed {
        #[cfg(not(tollgate_loom))]
        let draw = || RandomState::new().build_hasher().finish();
        // A model is run again and again, and must do the same each time.
        #[cfg(tollgate_loom)]
        let draw = || 0x9e37_79b9_7f4a_7c15;
        // Odd, so that multiplying loses nothing.
        Seed { halves: [draw() | 1, draw() | 1], sip: SipHasher13::new_with_keys(draw(), draw()) }
    }

    #[inline]
    pub(crate) fn identity<K: Hash + ?Sized>(&self, key: &K) -> Identity {
        let mut hasher = IdentityHasher { seed: self, halves: self.halves };
        key.hash(&mut hasher);
        Identity(u128::from(hasher.halves[0]) << 64 | u128::from(hasher.halves[1]))
    }
}

/// Numbers are folded in by multiplication, whose high and low half are both kept; bytes by
/// SipHash-1-3, because callers choose them.
struct IdentityHasher<'s> {
    seed: &'s Seed,
    halves: [u64; 2],
}

impl IdentityHasher<'_> {
    #[inline]
    fn absorb(&mut self, number: u64) {
        for (half, secret) in self.halves.iter_mut().zip(self.seed.halves) {
            let product = u128::from(*half ^ number) * u128::from(secret.rotate_left(32));
            *half = (product >> 64) as u64 ^ product as u64 ^ number.rotate_left(29);
        }
    }
}

impl Hasher for IdentityHasher<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let hash = self.seed.sip.hash(bytes);
        self.absorb(hash.h1);
        self.absorb(hash.h2);
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.absorb(u64::from(number));
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.absorb(u64::from(number));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.absorb(u64::from(number));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.absorb(number);
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        self.absorb((number >> 64) as u64);
        self.absorb(number as u64);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.absorb(number as u64);
    }

    fn finish(&self) -> u64 {
        self.halves[0] ^ self.halves[1]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn a_million_neighbours_have_hashes_and_halves_of_their_own() {
        let seed = Seed::random();
        let hashes: Vec<u128> = (0..1_000_000u64).map(|n| seed.identity(&n).0).collect();
        let high: HashSet<u64> = hashes.iter().map(|h| (h >> 64) as u64).collect();
        let low: HashSet<u64> = hashes.iter().map(|h| *h as u64).collect();
        // By chance one in 37 million such sets has a pair in one half.
        assert!(high.len() >= 999_999 && low.len() >= 999_999);
        // The top bits choose a shard: no shard of 1,024 is far from its share of 976.
        let mut shards = [0u32; 1024];
        for hash in hashes {
            shards[(hash >> 118) as usize] += 1;
        }
        assert!(shards.iter().all(|&n| (700..1300).contains(&n)), "{shards:?}");
    }

    #[test]
    fn kinds_of_identities_do_not_meet() {
        let seed = Seed::random();
        let all = [
            seed.identity("alice"),
            seed.identity("alicf"),
            seed.identity(""),
            seed.identity(&("alice", 1u64)),
            seed.identity(&(1u64, "alice")),
            seed.identity(&("al", "ice")),
            seed.identity(&IpAddr::V4(Ipv4Addr::LOCALHOST)),
            seed.identity(&IpAddr::V6(Ipv6Addr::LOCALHOST)),
            seed.identity(&0u64),
            seed.identity(&1u64),
        ];
        assert_eq!(all.iter().map(|i| i.0).collect::<HashSet<_>>().len(), all.len());
    }

    #[test]
    fn another_limiter_has_another_key() {
        assert_ne!(Seed::random().identity("alice"), Seed::random().identity("alice"));
    }
}
