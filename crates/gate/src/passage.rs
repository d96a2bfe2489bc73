//! One request at the gate: its chain and what became of it.

use smallvec::SmallVec;
use tollgate_engine::{Chain, PolicyName, Refusal, Verdict};
use tollgate_policy::compile::PlacedLimit;
use tollgate_policy::shapes::Strategy;
use tollgate_wire::LimitText;

use crate::kept::KeptPlaces;

type Texts<'f> = SmallVec<[Option<&'f LimitText>; 8]>;

/// One request at the gate: the verdict, and where each limit stands after it.
#[derive(Debug)]
pub struct Passage<'f> {
    pub(crate) chain: Chain<'f>,
    pub(crate) limits: SmallVec<[&'f PlacedLimit; 8]>,
    /// What responses tell of each in the same words.
    pub(crate) texts: Texts<'f>,
    pub(crate) verdict: Verdict,
    pub(crate) kept: KeptPlaces<'f>,
    pub(crate) unavailable: Option<&'static str>,
    /// Where the limit that its key has for itself degrades to.
    pub(crate) own_degrades_to: Option<usize>,
}

impl<'f> Passage<'f> {
    /// With no charges yet. They are added where it is, because it is large.
    #[inline]
    #[must_use]
    pub fn undecided() -> Passage<'f> {
        Passage {
            chain: Chain::new(),
            limits: SmallVec::new(),
            texts: SmallVec::new(),
            verdict: Verdict::Admitted,
            kept: KeptPlaces::default(),
            unavailable: None,
            own_degrades_to: None,
        }
    }

    /// What becomes of the request.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Whether it may go on now.
    pub fn is_admitted(&self) -> bool {
        self.verdict.is_admitted()
    }

    /// What does not work, in a sentence for the caller, if it is refused only because nobody can count it now.
    pub fn unavailable(&self) -> Option<&'static str> {
        self.unavailable
    }

    /// How many limits it met.
    pub fn len(&self) -> usize {
        self.limits.len()
    }

    /// Whether it met none.
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// The limit at a place of the chain.
    pub fn limit(&self, place: usize) -> &'f PlacedLimit {
        self.limits[place]
    }

    /// What responses tell in the same words of the limit at a place, if that is known.
    pub(crate) fn text(&self, place: usize) -> Option<&'f LimitText> {
        self.texts[place]
    }

    /// Its charges.
    pub fn chain(&self) -> &Chain<'f> {
        &self.chain
    }

    /// The place of the limit that keeps it out: the one with the longest wait.
    pub fn refused_by(&self) -> Option<usize> {
        match self.verdict {
            Verdict::Refused { by, .. } | Verdict::Queued { by, .. } => Some(by),
            Verdict::Admitted | Verdict::Degraded { .. } => None,
        }
    }

    /// How long that one keeps it out.
    pub fn refusal(&self) -> Option<Refusal> {
        match self.verdict {
            Verdict::Refused { refusal, .. } | Verdict::Queued { refusal, .. } => Some(refusal),
            Verdict::Admitted | Verdict::Degraded { .. } => None,
        }
    }

    /// The limits that observe and would have refused.
    pub fn observed(&self) -> impl Iterator<Item = &'f PlacedLimit> + '_ {
        (0..self.len())
            .filter(|place| self.chain.refusal(*place).is_some())
            .map(|place| self.limits[place])
            .filter(|limit| limit.strategy() == Strategy::Observe)
    }

    /// The first limit that was skipped, if the request passes degraded: its name, and the number of the
    /// upstream it forwards to.
    pub fn degraded(&self) -> Option<(PolicyName, Option<usize>)> {
        match self.verdict {
            Verdict::Degraded { by } => {
                // What a key has for itself is the first of its chain.
                let own = self.own_degrades_to.filter(|_| by == 0);
                Some((self.name(by), self.limits[by].degrade_to().or(own)))
            }
            _ => None,
        }
    }

    /// The name of the limit at a place: of several alike, which of them it is.
    pub fn name(&self, place: usize) -> PolicyName {
        let name = self.limits[place].name();
        let before = self.limits[..place].iter().filter(|limit| limit.name() == name).count();
        name.nth(before as u16 + 1)
    }

    /// Whether responses may tell of limits: none of the chain forbids it.
    pub fn shows_headers(&self) -> bool {
        self.limits.iter().all(|limit| limit.shows_headers())
    }
}
