//! Charges of somebody who may go before they are answered: what was charged for nobody is given back.

use tollgate_engine::Strategy;

use crate::answer::Answer;
use crate::calls::Asked;
use crate::command::{self, Charge, Said};
use crate::{Figures, Strict, Unavailable};

/// A charge that outlives whoever asked for it. Made only when they have gone.
pub(crate) struct OwnCharge {
    key: String,
    figures: Figures,
    cost: u64,
    strategy: Strategy,
}

impl OwnCharge {
    pub(crate) fn of(charge: &Charge<'_>) -> OwnCharge {
        let Charge { key, figures, cost, strategy } = *charge;
        OwnCharge { key: key.to_owned(), figures: figures.clone(), cost, strategy }
    }

    pub(crate) fn charge(&self) -> Charge<'_> {
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
