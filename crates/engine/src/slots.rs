//! Slots in chunks of one size.
//!
//! A table that grows by reallocating leaves holes of every size behind it: resident memory was a quarter
//! above what was used, whichever allocator. Chunks are never reallocated, so there are no holes.

use smallvec::SmallVec;
use tollgate_core::State;

/// The number of a rule among all that slots may have been written under; 0 is none.
pub(crate) type RuleId = u32;

/// No rule's number: a vacant slot bears it.
pub(crate) const EMPTY: RuleId = 0;

/// Packed to 36 bytes: with its alignment of 16 a `u128` would make it 48.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub(crate) struct Slot {
    pub(crate) key: u128,
    /// For a log, only the moment it is renewed.
    state: u128,
    pub(crate) rule: RuleId,
}

impl Slot {
    pub(crate) const VACANT: Slot = Slot { key: 0, state: 0, rule: EMPTY };

    pub(crate) fn new(key: u128, rule: RuleId) -> Slot {
        Slot { key, state: 0, rule }
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        State::from_bits(self.state)
    }

    #[inline]
    pub(crate) fn set_state(&mut self, state: State) {
        self.state = state.to_bits();
    }

    #[inline]
    pub(crate) fn is_vacant(&self) -> bool {
        self.rule == EMPTY
    }
}

/// A power of two: dividing by it is on the path of every request.
pub(crate) const CHUNK: usize = 256;

pub(crate) type Chunk = Box<[Slot; CHUNK]>;

pub(crate) fn vacant_chunk() -> Chunk {
    Box::new([Slot::VACANT; CHUNK])
}

/// Where a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    chunk: u32,
    offset: u32,
}

impl Place {
    #[inline]
    pub(crate) fn of(index: usize) -> Place {
        Place { chunk: (index / CHUNK) as u32, offset: (index % CHUNK) as u32 }
    }

    #[inline]
    pub(crate) fn offset_by(self, slots: usize) -> Place {
        Place { offset: self.offset + slots as u32, ..self }
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.chunk as usize * CHUNK + self.offset as usize
    }
}

/// A vector of slots that grows by whole chunks.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// One inline: a small table is found without another look-up.
    chunks: SmallVec<[Chunk; 2]>,
}

impl Slots {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&Slot> {
        Some(&self.chunks.get(index / CHUNK)?[index % CHUNK])
    }

    #[inline]
    pub(crate) fn at(&mut self, place: Place) -> &mut Slot {
        &mut self.chunks[place.chunk as usize][place.offset as usize % CHUNK]
    }

    /// The slots from `place` to the end of its chunk; none past the end.
    #[inline]
    pub(crate) fn run(&self, place: Place) -> &[Slot] {
        match self.chunks.get(place.chunk as usize) {
            Some(chunk) => &chunk[place.offset as usize % CHUNK..],
            None => &[],
        }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.chunks.iter_mut().flat_map(|chunk| chunk.iter_mut())
    }

    /// How many chunks there are.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    pub(crate) fn push(&mut self, chunk: Chunk) {
        self.chunks.push(chunk);
    }

    pub(crate) fn into_chunks(self) -> impl Iterator<Item = Chunk> {
        self.chunks.into_iter()
    }

    /// Moves everything in `from..to` back by one, over what is at `to`.
    pub(crate) fn shift_up(&mut self, from: usize, to: usize) {
        if from / CHUNK == to / CHUNK {
            let first = from % CHUNK;
            self.chunks[from / CHUNK].copy_within(first..first + (to - from), first + 1);
        } else {
            for index in (from..to).rev() {
                *self.at(Place::of(index + 1)) = *self.at(Place::of(index));
            }
        }
    }
}
