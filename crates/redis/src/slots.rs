//! Chains across the slots of a cluster: taken slot by slot in ascending order, and given back if a later one refuses.

use smallvec::SmallVec;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollgate_engine::Strategy;

use crate::abandoned::OwnCharge;
use crate::answer::Part;
use crate::command::{Charge, Purpose};
use crate::slot::slot;
use crate::{Strict, Unavailable};

/// Whether a chain has to be taken slot by slot.
pub(crate) fn spans_slots(charges: &[Charge<'_>]) -> bool {
    let slots = charges.iter().map(|charge| slot(charge.key.as_bytes()));
    slots.clone().zip(slots.skip(1)).any(|(one, next)| one != next)
}

impl Strict {
    /// Decides a chain slot by slot. A refusal is final: neither giving back nor asking the slots that follow changes it,
    /// whatever becomes of that and however long it takes.
    pub(crate) async fn take_by_slots(
        &self,
        charges: &[Charge<'_>],
        deadline: Instant,
    ) -> Result<Vec<Part>, Unavailable> {
        let mut order: Vec<(u16, usize)> = charges
            .iter()
            .zip(0..)
            .map(|(charge, index)| (slot(charge.key.as_bytes()), index))
            .collect();
        order.sort_unstable();
        let mut groups = order.chunk_by(|one, other| one.0 == other.0);
        let mut slots = Slots::new(self, charges);
        let taking = async {
            for group in groups.by_ref() {
                if slots.decide(group, Purpose::Take).await? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        if self.within(deadline, taking).await? {
            let given_back = slots.give_back_later();
            let rest = async {
                // Those that follow are only asked: the longest wait of all is reported.
                for group in groups {
                    slots.decide(group, Purpose::Ask).await?;
                }
                if let Some(given_back) = given_back {
                    let _ = given_back.await;
                }
                Ok(())
            };
            let _ = self.within(deadline, rest).await;
        }
        Ok(slots.done())
    }
}

/// A chain that is taken slot by slot. Dropped before it is through, what it has taken is given back.
struct Slots<'a> {
    strict: &'a Strict,
    charges: &'a [Charge<'a>],
    /// What each charge was answered, if it was.
    parts: Vec<Option<Part>>,
}

impl<'a> Slots<'a> {
    fn new(strict: &'a Strict, charges: &'a [Charge<'a>]) -> Slots<'a> {
        Slots { strict, charges, parts: vec![None; charges.len()] }
    }

    /// Decides those of one slot, by their places, and tells whether one of them refuses the request.
    async fn decide(
        &mut self,
        places: &[(u16, usize)],
        purpose: Purpose,
    ) -> Result<bool, Unavailable> {
        use Strategy::{Queue, Reject};
        let asked: SmallVec<[Charge<'_>; 8]> =
            places.iter().map(|(_, index)| self.charges[*index]).collect();
        let answered = self.strict.decide(&asked, purpose).await?;
        let blocks = |(part, charge): (&Part, &Charge<'_>)| {
            part.decision.refusal.is_some() && matches!(charge.strategy, Reject | Queue)
        };
        let is_refused = answered.iter().zip(&asked).any(blocks);
        for (part, (_, index)) in answered.into_iter().zip(places) {
            self.parts[*index] = Some(part);
        }
        Ok(is_refused)
    }

    /// It is through.
    fn done(mut self) -> Vec<Part> {
        let parts = std::mem::take(&mut self.parts).into_iter().zip(self.charges);
        parts.map(|(part, charge)| part.unwrap_or_else(|| Part::unknown(charge.figures))).collect()
    }

    /// Gives back what was taken, whether or not anybody waits for that.
    fn give_back_later(&mut self) -> Option<JoinHandle<Result<(), Unavailable>>> {
        let mut made = Vec::new();
        for (charge, part) in self.charges.iter().zip(&mut self.parts) {
            if let Some(part) = part
                && std::mem::take(&mut part.is_charged)
            {
                made.push((OwnCharge::of(charge), *part));
            }
        }
        if made.is_empty() {
            return None;
        }
        let strict = self.strict.clone();
        Some(self.strict.runtime().spawn(async move {
            let charges: Vec<Charge<'_>> = made.iter().map(|(charge, _)| charge.charge()).collect();
            let made = charges.iter().zip(made.iter().map(|(_, part)| part)).collect();
            strict.give_back_made(made).await
        }))
    }
}

impl Drop for Slots<'_> {
    fn drop(&mut self) {
        self.give_back_later();
    }
}
