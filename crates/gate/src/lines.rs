//! What the caller is told about the limits of its chain.

use smallvec::SmallVec;
use tollgate_engine::{Time, Verdict};
use tollgate_policy::shapes::Strategy;
use tollgate_wire::{Line, Report};

use crate::passage::Passage;

/// The limits of a chain as the caller may see them. One that only observes is not among them.
#[derive(Debug)]
pub struct Lines<'a> {
    lines: SmallVec<[Line<'a>; 8]>,
    refused_by: Option<usize>,
    now: Time,
}

impl<'a> Lines<'a> {
    /// Of a decided request.
    #[inline]
    pub fn of(passage: &Passage<'a>) -> Lines<'a> {
        let mut all = Lines::none(passage);
        all.add(passage);
        all
    }

    /// What is made of the lines of a decided request. They are large: to return them is to copy them.
    #[inline]
    pub fn then<T>(passage: &Passage<'a>, then: impl FnOnce(&Lines<'a>) -> T) -> T {
        let mut all = Lines::none(passage);
        all.add(passage);
        then(&all)
    }

    #[inline]
    fn none(passage: &Passage<'a>) -> Lines<'a> {
        Lines { lines: SmallVec::new(), refused_by: None, now: passage.chain().decided_at() }
    }

    fn add(&mut self, passage: &Passage<'a>) {
        let (by, is_refused) = match passage.verdict() {
            Verdict::Refused { by, .. } | Verdict::Queued { by, .. } => (Some(by), true),
            Verdict::Admitted | Verdict::Degraded { .. } => (None, false),
        };
        for place in 0..passage.len() {
            if !passage.chain().is_known(place) {
                continue;
            }
            let limit = passage.limit(place);
            let refusal = passage.chain().refusal(place);
            let refusal = match limit.strategy() {
                Strategy::Observe => continue,
                Strategy::Reject | Strategy::Queue => refusal.filter(|_| is_refused),
                // Skipped, whoever else refused.
                Strategy::Degrade => None,
            };
            if by == Some(place) {
                self.refused_by = Some(self.lines.len());
            }
            let line = Line::new(passage.name(place), passage.chain().standing(place))
                .source(limit.source())
                .cost(passage.chain().cost(place))
                .seconds(limit.window_secs())
                .refusal(refusal)
                .text(passage.text(place));
            self.lines.push(line);
        }
    }

    /// The same without what only refusals tell. Whoever answers later need not keep the policy for it.
    #[must_use]
    pub fn detached(self) -> Lines<'static> {
        let lines = self.lines.into_iter().map(Line::detached).collect();
        Lines { lines, refused_by: self.refused_by, now: self.now }
    }

    /// What a response tells of them.
    pub fn report(&self) -> Report<'_> {
        match self.refused_by {
            Some(by) => Report::refused(&self.lines, by, self.now),
            None => Report::admitted(&self.lines, self.now),
        }
    }
}
