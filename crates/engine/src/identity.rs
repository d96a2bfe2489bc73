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
    /// A word for each of the longest bytes' words, and two for the second half's shift.
    words: [u64; SHORT / 8 + 2],
    sip: SipHasher13,
}

/// Bytes up to this long are hashed by NH, longer ones by `SipHash`.
const SHORT: usize = 128;

impl Seed {
    /// A secret from the operating system's randomness.
    pub(crate) fn random() -> Seed {
        #[cfg(not(tollgate_loom))]
        let draw = || RandomState::new().build_hasher().finish();
        // A model is run again and again, and must do the same each time.
        #[cfg(tollgate_loom)]
        let draw = || 0x9e37_79b9_7f4a_7c15;
        Seed {
            // Odd, so that multiplying loses nothing.
            halves: [draw() | 1, draw() | 1],
            words: std::array::from_fn(|_| draw()),
            sip: SipHasher13::new_with_keys(draw(), draw()),
        }
    }

    #[inline]
    pub(crate) fn identity<K: Hash + ?Sized>(&self, key: &K) -> Identity {
        let mut hasher = IdentityHasher { seed: self, halves: self.halves };
        key.hash(&mut hasher);
        let [high, low] = hasher.halves;
        // After one multiplication neighbouring numbers are still in step: those that meet in one shard would
        // crowd in it as well. Shard and place are taken from the high half.
        let product = u128::from(high ^ low.rotate_left(32)) * u128::from(self.words[0] | 1);
        let high = (product >> 64) as u64 ^ product as u64;
        Identity((u128::from(high) << 64) | u128::from(low))
    }

    /// NH of UMAC (Black, Halevi, Krawczyk, Krovetz, Rogaway 1999), twice with shifted keys: whichever two
    /// different texts of one length somebody chooses, they meet with a chance of 2⁻¹²⁸.
    #[inline]
    fn nh(&self, bytes: &[u8]) -> [u128; 2] {
        let mut sums = [0u128; 2];
        let mut add = |block: usize, x: u64, y: u64| {
            for (half, sum) in sums.iter_mut().enumerate() {
                let key = &self.words[2 * (block + half)..];
                let product =
                    u128::from(x.wrapping_add(key[0])) * u128::from(y.wrapping_add(key[1]));
                *sum = sum.wrapping_add(product);
            }
        };
        // Pieces may overlap: with the length known, they still tell every byte.
        match bytes.len() {
            0 => {}
            len @ 1..4 => {
                let ends = u64::from(bytes[0]) | (u64::from(bytes[len - 1]) << 8);
                add(0, ends | (u64::from(bytes[len / 2]) << 16), 0);
            }
            len @ 4..8 => add(0, four(bytes, 0), four(bytes, len - 4)),
            len @ 8..16 => add(0, eight(bytes, 0), eight(bytes, len - 8)),
            len => {
                let last = (len - 1) / 16;
                for block in 0..last {
                    add(block, eight(bytes, 16 * block), eight(bytes, 16 * block + 8));
                }
                add(last, eight(bytes, len - 16), eight(bytes, len - 8));
            }
        }
        sums
    }
}

#[inline]
fn eight(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
}

#[inline]
fn four(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 4].try_into().map_or(0, |four| u64::from(u32::from_le_bytes(four)))
}

/// Folds numbers into both halves by multiplication, of which the high and the low word are kept.
struct IdentityHasher<'s> {
    seed: &'s Seed,
    halves: [u64; 2],
}

impl IdentityHasher<'_> {
    /// Folds a number of 128 bits into each half.
    #[inline]
    fn absorb(&mut self, numbers: [u128; 2]) {
        let secrets = self.seed.halves.map(|secret| secret.rotate_left(32));
        for ((half, number), secret) in self.halves.iter_mut().zip(numbers).zip(secrets) {
            let (high, low) = ((number >> 64) as u64, number as u64);
            let product = u128::from(*half ^ low) * u128::from(secret ^ high);
            *half = (product >> 64) as u64 ^ product as u64 ^ low.rotate_left(29);
        }
    }
}

impl Hasher for IdentityHasher<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let hashes = if bytes.len() <= SHORT {
            self.seed.nh(bytes)
        } else {
            let hash = self.seed.sip.hash(bytes).as_u128();
            [hash, hash.rotate_left(64)]
        };
        self.absorb(hashes.map(|hash| hash.wrapping_add(bytes.len() as u128)));
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        match number {
            // What ends a text: its length has told that already, so it is enough to mark the place.
            0xff => self.halves = self.halves.map(|half| half.rotate_left(23)),
            _ => self.write_u64(u64::from(number)),
        }
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.absorb([u128::from(number); 2]);
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        self.absorb([number; 2]);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
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

    /// Within every shard, too, neighbours spread evenly: the bits that choose a place are not in step with
    /// those that chose the shard, whatever the distance between neighbours.
    #[test]
    fn neighbours_that_meet_in_a_shard_do_not_crowd_in_it() {
        for _ in 0..20 {
            let seed = Seed::random();
            for stride in [1u64, 2, 3, 256, 1 << 32] {
                let mut cells = vec![[0u32; 64]; 64];
                for n in 0..64 * 64 * 32u64 {
                    let hash = seed.identity(&(n * stride)).0;
                    cells[(hash >> 122) as usize][(hash >> 90) as usize % 64] += 1;
                }
                // 32 are expected, with a deviation of 6.
                let odd = cells.as_flattened().iter().filter(|n| !(3..80).contains(*n)).count();
                assert_eq!(odd, 0, "stride {stride}");
            }
        }
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

    /// Every length around every border, every byte of it changed: no two have a hash in common.
    #[test]
    fn every_byte_of_every_length_counts() {
        let seed = Seed::random();
        let mut hashes = HashSet::new();
        let mut texts = 0;
        for len in 0..150 {
            let plain = vec![b'a'; len];
            hashes.insert(seed.identity(&plain[..]).0);
            texts += 1;
            for at in 0..len {
                for bit in 0..8 {
                    let mut changed = plain.clone();
                    changed[at] ^= 1 << bit;
                    hashes.insert(seed.identity(&changed[..]).0);
                    texts += 1;
                }
            }
        }
        assert_eq!(hashes.len(), texts);
    }

    #[test]
    fn another_limiter_has_another_key() {
        assert_ne!(Seed::random().identity("alice"), Seed::random().identity("alice"));
    }
}
