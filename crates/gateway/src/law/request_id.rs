//! A name for each request.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use bytes::Bytes;
use http::HeaderValue;

/// Names the requests of one worker: 128 bits that no other worker's have, in hexadecimal digits.
///
/// They need not be secret, so each is one step of a generator that was seeded by the system.
#[derive(Debug)]
pub(crate) struct RequestIds {
    seed: u64,
    next: Cell<u64>,
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

impl RequestIds {
    pub(crate) fn new() -> RequestIds {
        let draw = || RandomState::new().build_hasher().finish();
        RequestIds { seed: draw(), next: Cell::new(draw()) }
    }

    pub(crate) fn next(&self) -> HeaderValue {
        // Weyl's sequence: all 2⁶⁴ values before one comes again.
        let next = self.next.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.next.set(next);
        let mut text = [0u8; 32];
        for (half, number) in [self.seed, mix(next)].into_iter().enumerate() {
            for (at, byte) in number.to_be_bytes().into_iter().enumerate() {
                let at = half * 16 + at * 2;
                text[at] = DIGITS[usize::from(byte >> 4)];
                text[at + 1] = DIGITS[usize::from(byte & 15)];
            }
        }
        let text = Bytes::copy_from_slice(&text);
        HeaderValue::from_maybe_shared(text).unwrap_or(HeaderValue::from_static(""))
    }
}

/// The finaliser of `splitmix64` (Steele, Lea, Flood 2014), which is a permutation.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
