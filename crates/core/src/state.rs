//! What is remembered of one identity under one limit.

/// A counter's state: 16 bytes that mean something only to the algorithm that wrote them.
///
/// Every algorithm but the log fits, so a store can hold millions of them in flat memory and copy
/// them freely. All zeroes is a counter nobody has charged yet, for every algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State(u128);

impl State {
    /// A counter nobody has charged yet.
    pub const NEW: State = State(0);

    /// The state as a number, for a store that keeps it outside this process' memory.
    #[inline]
    pub const fn to_bits(self) -> u128 {
        self.0
    }

    /// The state a store kept as [`to_bits`](State::to_bits).
    #[inline]
    pub const fn from_bits(bits: u128) -> State {
        State(bits)
    }
}
