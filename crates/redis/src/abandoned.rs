//! Charges of somebody who may go before they are answered: what was charged for nobody is given back.

use tokio::task::JoinHandle;
use tollgate_engine::Strategy;

use crate::answer::{Answer, Part};
use crate::calls::Asked;
use crate::command::{self, Charge, Said};
use crate::{Figures, Strict, Unavailable};

/// A charge that outlives whoever asked for it. Made only when they have gone.
struct OwnCharge {
    key: String,
    figures: Figures,
    cost: u64,
    strategy: Strategy,
}

impl OwnCharge {
    fn of(charge: &Charge<'_>) -> OwnCharge {
        let Charge { key, figures, cost, strategy } = *charge;
        OwnCharge { key: key.to_owned(), figures: figures.clone(), cost, strategy }
    }

    fn charge(&self) -> Charge<'_> {
        Charge::new(&self.key, &self.figures).cost(self.cost).strategy(self.strategy)
    }
}

/// A call that takes. Dropped before it is answered, what it has taken is given back.
pub(crate) struct Taking<'a> {
    strict: &'a Strict,
    charges: &'a [Charge<'a>],
    asked: Option<Asked>,
}

impl<'a> Taking<'a> {
    pub(crate) fn new(strict: &'a Strict, charges: &'a [Charge<'a>], asked: Asked) -> Taking<'a> {
        Taking { strict, charges, asked: Some(asked) }
    }

    pub(crate) async fn answer(mut self) -> Result<redis::Value, Unavailable> {
        let Some(asked) = &mut self.asked else { return Err(Unavailable::Closed) };
        let answer = asked.answer().await;
        self.asked = None;
        answer
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        let Some(asked) = self.asked.take() else { return };
        let (strict, answer) = (self.strict.clone(), asked.leave());
        let charges: Vec<OwnCharge> = self.charges.iter().map(OwnCharge::of).collect();
        self.strict.runtime().spawn(async move {
            let Ok(Ok(value)) = answer.await else { return };
            let charges: Vec<Charge<'_>> = charges.iter().map(OwnCharge::charge).collect();
            if let Some(Said::Decided(parts)) = command::read(&value, &charges) {
                let strategies = charges.iter().map(|charge| charge.strategy);
                // What cannot be given back now is repaid by time.
                let _ = strict.give_back(&charges, &Answer::new(parts, strategies)).await;
            }
        });
    }
}

/// A chain that is taken slot by slot. Dropped before it is through, what it has taken is given back.
pub(crate) struct Slots<'a> {
    strict: &'a Strict,
    charges: &'a [Charge<'a>],
    /// What each charge was answered.
    pub(crate) parts: Vec<Option<Part>>,
}

impl<'a> Slots<'a> {
    pub(crate) fn new(strict: &'a Strict, charges: &'a [Charge<'a>]) -> Slots<'a> {
        Slots { strict, charges, parts: vec![None; charges.len()] }
    }

    /// It is through.
    pub(crate) fn done(mut self) -> Option<Vec<Part>> {
        std::mem::take(&mut self.parts).into_iter().collect()
    }

    /// Gives back what was taken, whether or not anybody waits for that.
    pub(crate) async fn give_back(&mut self) -> Result<(), Unavailable> {
        match self.give_back_later() {
            Some(given_back) => given_back.await.unwrap_or(Err(Unavailable::Closed)),
            None => Ok(()),
        }
    }

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
