//! How much is reserved at once.

/// The most that may be reserved and not spent: a hundredth of the limit, a tenth of what remains near the end, at least 1.
pub const fn block(limit: u64, used: u64) -> u64 {
    let (of_limit, of_rest) = (limit / 100, limit.saturating_sub(used) / 10);
    let block = if of_limit < of_rest { of_limit } else { of_rest };
    if block == 0 { 1 } else { block }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_a_hundredth_smaller_near_the_end_and_at_least_one() {
        let rows = [
            (10_000, 0, 100),
            (10_000, 9_000, 100),
            (10_000, 9_100, 90),
            (10_000, 9_990, 1),
            (10_000, 10_000, 1),
            (10_000, 20_000, 1),
            (99, 0, 1),
            (1, 0, 1),
            (u64::MAX, 0, u64::MAX / 100),
        ];
        for (limit, used, expected) in rows {
            assert_eq!(block(limit, used), expected, "{limit} {used}");
        }
    }
}
