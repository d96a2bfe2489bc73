//! One counter in its slot, whichever form its state has.

use tollgate_core::{Algorithm, Flat, Form, Limit, Log, Refusal, SlidingLog, State, Time};

use crate::chain::{join_log, split_log};
use crate::slots::{Place, Slot};
use crate::table::Table;

/// A slot together with the steps that understand it.
pub(crate) enum Cell<'t> {
    Flat(&'t Flat, &'t mut Slot),
    Log(&'t SlidingLog, &'t mut Slot, &'t mut Log),
}

impl<'t> Cell<'t> {
    #[inline]
    pub(crate) fn new(table: &'t mut Table, slot: Place, limit: &'t Limit) -> Cell<'t> {
        match limit.form() {
            Form::Flat(flat) => Cell::Flat(flat, table.slot(slot)),
            Form::Log(steps) => {
                let (slot, log) = table.slot_and_log(slot);
                Cell::Log(steps, slot, log)
            }
        }
    }

    /// Why a charge would not pass.
    #[inline]
    pub(crate) fn refusal(&self, cost: u64, now: Time) -> Option<Refusal> {
        match self {
            Cell::Flat(flat, slot) => flat.refusal(&slot.state(), cost, now),
            Cell::Log(steps, _, log) => steps.refusal(log, cost, now),
        }
    }

    #[inline]
    pub(crate) fn charge(&mut self, cost: u64, now: Time) {
        match self {
            Cell::Flat(flat, slot) => {
                let mut state = slot.state();
                flat.charge(&mut state, cost, now);
                slot.set_state(state);
            }
            Cell::Log(steps, slot, log) => {
                steps.charge(log, cost, now);
                slot.set_state(log_state(steps.renewed_at(log)));
            }
        }
    }

    /// What is left.
    pub(crate) fn remaining(&self, now: Time) -> u64 {
        match self {
            Cell::Flat(flat, slot) => flat.standing(&slot.state(), now).remaining,
            Cell::Log(steps, _, log) => steps.standing(log, now).remaining,
        }
    }

    /// Makes it new.
    pub(crate) fn renew(&mut self) {
        match self {
            Cell::Flat(_, slot) => slot.set_state(State::NEW),
            Cell::Log(_, slot, log) => {
                **log = Log::default();
                slot.set_state(log_state(Time::EPOCH));
            }
        }
    }

    /// Takes back the charge of `cost` that a decision saw the counter after as `seen`.
    pub(crate) fn give_back(&mut self, cost: u64, seen: State, now: Time) {
        match self {
            Cell::Flat(flat, slot) => {
                let mut state = slot.state();
                flat.give_back(&mut state, flat.receipt(&seen, cost), now);
                slot.set_state(state);
            }
            Cell::Log(steps, slot, log) => {
                steps.give_back(log, steps.receipt_of(split_log(seen).1, cost), now);
                slot.set_state(log_state(steps.renewed_at(log)));
            }
        }
    }

    /// What a decision keeps of the counter.
    #[inline]
    pub(crate) fn seen(&self, now: Time) -> State {
        match self {
            Cell::Flat(_, slot) => slot.state(),
            Cell::Log(steps, _, log) => {
                join_log(steps.standing(log, now).remaining, steps.renewed_at(log))
            }
        }
    }

    pub(crate) fn renewed_at(&self) -> Time {
        match self {
            Cell::Flat(flat, slot) => flat.renewed_at(&slot.state()),
            Cell::Log(steps, _, log) => steps.renewed_at(log),
        }
    }
}

/// A log's slot tells only when the log is renewed.
fn log_state(renewed_at: Time) -> State {
    State::from_bits(u128::from(renewed_at.as_nanos()))
}
