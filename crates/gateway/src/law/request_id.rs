//! A name for each request.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};

/// What tells one request from every other: 32 hexadecimal digits.
// Aligned, so that what is asked for as text is seen to be one a word at a time.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(align(16))]
pub struct RequestId([u8; 32]);

impl RequestId {
    /// Its digits.
    pub fn as_str(&self) -> &str {
        // It was made of digits.
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names the requests of one worker: 128 bits that no other worker's have.
///
/// They need not be secret, so each is one step of a generator that was seeded by the system.
#[derive(Debug)]
pub(crate) struct RequestIds {
    /// The digits that all of them begin with.
    seed: [u8; 16],
    next: Cell<u64>,
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

impl RequestIds {
    pub(crate) fn new() -> RequestIds {
        let draw = || RandomState::new().build_hasher().finish();
        RequestIds { seed: digits(draw()), next: Cell::new(draw()) }
    }

    pub(crate) fn next(&self) -> RequestId {
        // Weyl's sequence: all 2⁶⁴ values before one comes again.
        let next = self.next.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.next.set(next);
        let mut text = [0; 32];
        text[..16].copy_from_slice(&self.seed);
        text[16..].copy_from_slice(&digits(mix(next)));
        RequestId(text)
    }
}

fn digits(number: u64) -> [u8; 16] {
    let mut text = [0; 16];
    for (pair, byte) in text.chunks_exact_mut(2).zip(number.to_be_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

/// The finaliser of `splitmix64` (Steele, Lea, Flood 2014), which is a permutation.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_another_and_all_are_digits() {
        let (ids, others) = (RequestIds::new(), RequestIds::new());
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            for id in [ids.next(), others.next()] {
                assert!(id.as_str().bytes().all(|digit| DIGITS.contains(&digit)), "{id}");
                assert!(id.as_str().len() == 32 && seen.insert(id), "{id}");
            }
        }
    }
}
