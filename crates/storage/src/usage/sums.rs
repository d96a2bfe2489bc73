//! Sums of usage by group, of which only as many are kept as are told at once: an answer may have more rows than there is memory.

use std::hash::Hash;

use hashbrown::HashMap;

use super::Totals;

/// Sums by group. Groups are ordered as the rows of the answer are.
pub(crate) struct FirstSums<G> {
    /// Groups up to this one have been told.
    after: Option<G>,
    most: usize,
    sums: HashMap<G, Totals>,
    /// Groups behind this one are left out, and always were: enough are before it.
    bound: Option<G>,
}

impl<G: Clone + Ord + Hash> FirstSums<G> {
    /// The first `most` groups after one.
    pub(crate) fn new(most: usize, after: Option<G>) -> FirstSums<G> {
        FirstSums { after, most: most.max(1), sums: HashMap::new(), bound: None }
    }

    pub(crate) fn add(&mut self, group: G, totals: Totals) {
        let is_told = self.after.as_ref().is_some_and(|after| group <= *after);
        if is_told || self.bound.as_ref().is_some_and(|bound| group > *bound) {
            return;
        }
        self.sums.entry(group).or_default().add(totals);
        if self.sums.len() / 2 > self.most {
            self.leave_out();
        }
    }

    /// Keeps what is to be told, and one more that tells that there are more.
    fn leave_out(&mut self) {
        let mut groups: Vec<G> = self.sums.keys().cloned().collect();
        let (_, bound, _) = groups.select_nth_unstable(self.most);
        let bound = bound.clone();
        self.sums.retain(|group, _| *group <= bound);
        self.bound = Some(bound);
    }

    /// The groups in their order, and whether there are more.
    pub(crate) fn first(self) -> (Vec<(G, Totals)>, bool) {
        let mut all: Vec<(G, Totals)> = self.sums.into_iter().collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let has_more = all.len() > self.most;
        all.truncate(self.most);
        (all, has_more)
    }
}

/// Names by number, and a rank for each by which small numbers order as the names do.
#[derive(Default)]
pub(crate) struct Ranks {
    names: Vec<Box<str>>,
    of: HashMap<i64, u32>,
}

impl Ranks {
    /// Numbers with the same name have the same rank.
    pub(crate) fn of(mut all: Vec<(i64, Box<str>)>) -> Ranks {
        all.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
        let mut ranks = Ranks::default();
        for (number, name) in all {
            if ranks.names.last() != Some(&name) {
                ranks.names.push(name);
            }
            ranks.of.insert(number, ranks.at(ranks.names.len() - 1));
        }
        ranks
    }

    /// Ranks are odd, so that a name which nobody has any more finds a place between two.
    fn at(&self, place: usize) -> u32 {
        u32::try_from(place).unwrap_or(u32::MAX / 2).saturating_mul(2).saturating_add(1)
    }

    /// The rank of what has this number; nothing if it was not there when they were read.
    pub(crate) fn rank(&self, number: i64) -> Option<u32> {
        self.of.get(&number).copied()
    }

    /// Where a name belongs.
    pub(crate) fn place(&self, name: &str) -> u32 {
        match self.names.binary_search_by(|known| (**known).cmp(name)) {
            Ok(place) => self.at(place),
            Err(before) => self.at(before).saturating_sub(1),
        }
    }

    /// The name with this rank.
    pub(crate) fn name(&self, rank: u32) -> &str {
        self.names.get(rank as usize / 2).map_or("", |name| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_whole_however_few_are_kept() {
        let one = Totals { requests: 1, refusals: 0, tokens: 2 };
        let mut told = Vec::new();
        let mut after = None;
        loop {
            let mut sums = FirstSums::new(3, after);
            // Each group is met again after others have been left out.
            for _ in 0..4 {
                (0..50u32).rev().for_each(|group| sums.add(group * 7 % 50, one));
            }
            let (page, has_more) = sums.first();
            assert!(page.len() <= 3);
            assert!(page.iter().all(|(_, sum)| sum.requests == 4 && sum.tokens == 8));
            after = page.last().map(|(group, _)| *group);
            told.extend(page.into_iter().map(|(group, _)| group));
            if !has_more {
                break;
            }
        }
        assert_eq!(told, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn ranks_order_as_names_do_also_those_that_are_gone() {
        let all = [(7, "b"), (3, "d"), (9, "b"), (1, "")];
        let ranks = Ranks::of(all.map(|(number, name)| (number, name.into())).to_vec());
        assert_eq!(ranks.rank(7), ranks.rank(9));
        assert!(ranks.rank(1) < ranks.rank(7) && ranks.rank(7) < ranks.rank(3));
        assert_eq!(ranks.rank(2), None);
        let b = ranks.rank(7).unwrap();
        assert_eq!((ranks.name(b), ranks.place("b")), ("b", b));
        assert!(ranks.place("a") < b && b < ranks.place("c"));
        assert!(Some(ranks.place("c")) < ranks.rank(3) && ranks.rank(3) < Some(ranks.place("e")));
    }
}
