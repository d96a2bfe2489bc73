//! The same scripts at moments that a test chooses, so that they and the core can be driven side by side.

use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::Instant;

use crate::answer::Answer;
use crate::calendar::Calendar;
use crate::command::{self, Purpose, Said, Wanted};
pub use crate::ledger::News;
use crate::ledger::{Ledger, Statement};
use crate::scripts::{SCRIPTS, Scripts, TimeFrom};
use crate::slice::{Report, Slice};
use crate::{Charge, Figures};

/// Calls of scripts whose time is an argument.
#[derive(Debug)]
pub struct Driven {
    scripts: Scripts,
    calendar: Calendar,
}

impl Default for Driven {
    fn default() -> Driven {
        Driven {
            scripts: Scripts::with_time_from(TimeFrom::LastArgument),
            calendar: Calendar::default(),
        }
    }
}

impl Driven {
    /// Every script, to be loaded.
    pub fn bodies(&self) -> impl Iterator<Item = &str> {
        self.scripts.all().map(|script| script.body.as_str()).into_iter()
    }

    /// The call that decides a chain at `now`, in microseconds.
    pub fn take(&self, charges: &[Charge<'_>], now: u64) -> Cmd {
        self.take_told(charges, now, now)
    }

    /// The same for a caller who thinks it is `told`.
    pub fn take_told(&self, charges: &[Charge<'_>], now: u64, told: u64) -> Cmd {
        let script = command::script_for(&self.scripts, charges);
        let bounds = |charge: &Charge<'_>| self.calendar.around(charge.figures.limit(), told);
        let mut cmd = command::take(script, charges, Purpose::Take, bounds);
        cmd.arg(now);
        cmd
    }

    /// What it answered; `None` if it asks to be told the calendar again.
    pub fn answer(&self, value: &Value, charges: &[Charge<'_>]) -> Option<Answer> {
        match command::read(value, charges)? {
            Said::Decided(parts) => {
                Some(Answer::new(parts, charges.iter().map(|charge| charge.strategy)))
            }
            Said::LookAgain(_) => None,
        }
    }

    /// The call that gives a chain back at `now`.
    pub fn give_back(&self, charges: &[Charge<'_>], answer: &Answer, now: u64) -> Cmd {
        let made = charges.iter().zip(&answer.parts).filter(|(_, part)| part.is_charged);
        let mut cmd = command::give_back(&self.scripts.give_back, made);
        cmd.arg(now);
        cmd
    }

    /// The call that leases tokens at `now`: at least and at most so many, after (granted, unspent, mark) of the slice before.
    pub fn lease(
        &self,
        key: &str,
        figures: &Figures,
        wanted: [u64; 2],
        told: (u64, u64, i64),
        now: u64,
    ) -> Cmd {
        let told = Report { granted: told.0, unspent: told.1, mark: told.2 };
        let [least, most] = wanted;
        let wanted = Wanted { least, most, told, lifetime: LIFETIME, is_former: most == 0 };
        let bounds = self.calendar.around(figures.limit(), now);
        let mut cmd = command::lease(&self.scripts.lease, figures, key, bounds, wanted);
        cmd.arg(now);
        cmd
    }

    /// What was granted: how many tokens, for how many microseconds, by which mark.
    pub fn granted(&self, value: &Value) -> Option<(u64, u64, i64)> {
        let grant = command::read_grant(value)?.ok()?;
        Some((grant.holds, grant.lives.as_micros() as u64, grant.mark))
    }
}

/// A node's account with a counter that nodes decide by themselves.
#[derive(Clone, Copy, Debug)]
pub struct Account(Ledger);

/// What an account has told and not been answered yet.
#[derive(Clone, Copy, Debug)]
pub struct Told(Statement);

impl Told {
    /// That the counter is to be made new.
    pub fn reset() -> Told {
        Told(Statement::RESET)
    }
}

impl Default for Account {
    fn default() -> Account {
        Account(Ledger::begin())
    }
}

impl Account {
    /// Enters what was admitted here.
    pub fn consume(&mut self, cost: u64) {
        self.0.consume(cost);
    }

    /// Takes back what was entered.
    pub fn give_back(&mut self, cost: u64) {
        self.0.unconsume(cost);
    }

    /// What it has to tell.
    pub fn told(&mut self) -> Told {
        Told(self.0.statement())
    }

    /// Enters an answer, and tells what it means to this node's own counter.
    pub fn settle(&mut self, told: Told, answer: &Value) -> Option<News> {
        Some(self.0.settle(told.0, command::read_settled(answer)?.ok()?))
    }
}

impl Driven {
    /// The call that tells a counter at `now` what `node` has consumed.
    pub fn sync(&self, key: &str, figures: &Figures, (node, told): (&str, Told), now: u64) -> Cmd {
        let bounds = self.calendar.around(figures.limit(), now);
        let mut cmd = command::sync(&self.scripts.sync, figures, key, bounds, (node, told.0));
        cmd.arg(now);
        cmd
    }
}

/// A node's slice of a counter, as [`Leases`](crate::Leases) keeps it, at moments that a test chooses.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    slice: Slice,
    lifetime: Duration,
    /// What was told of the slice before, what is wanted, and when that was asked.
    asked: Option<(Report, u64, Instant)>,
}

impl Held {
    /// Nothing is held yet; slices live for one to two lifetimes.
    pub fn new(lifetime: Duration, now: Instant) -> Held {
        Held { slice: Slice::new(now), lifetime, asked: None }
    }

    /// Spends `cost` if it is there.
    pub fn spend(&mut self, cost: u64, now: Instant) -> bool {
        self.slice.spend(cost, now)
    }

    /// Whether it is time to ask for more, before somebody has to wait for it.
    pub fn is_low(&self, now: Instant) -> bool {
        self.asked.is_none() && self.slice.is_low(now)
    }

    /// Whether an answer is awaited.
    pub fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// The call that asks for at least `cost`, at `micros` by the server's clock.
    pub fn ask(
        &mut self,
        driven: &Driven,
        (key, figures): (&str, &Figures),
        cost: u64,
        (now, micros): (Instant, u64),
    ) -> Cmd {
        let want = self.slice.demand(cost, self.lifetime, now);
        let told = self.slice.report(want, now);
        self.asked = Some((told, want, now));
        let wanted =
            Wanted { least: cost, most: want, told, lifetime: self.lifetime, is_former: false };
        let bounds = driven.calendar.around(figures.limit(), micros);
        let mut cmd = command::lease(&driven.scripts.lease, figures, key, bounds, wanted);
        cmd.arg(micros);
        cmd
    }

    /// Begins the slice that was granted.
    pub fn granted(&mut self, answer: &Value) -> Option<()> {
        let grant = command::read_grant(answer)?.ok()?;
        let (told, want, asked) = self.asked.take()?;
        self.slice.begin(grant, told, want, asked);
        Some(())
    }
}

/// How long driven slices live.
pub const LIFETIME: Duration = Duration::from_secs(1);

/// The words of the call that decides a chain on the server's clock, for a benchmark to send by other means.
pub fn arguments(charges: &[Charge<'_>]) -> Vec<String> {
    let script = command::script_for(&SCRIPTS, charges);
    let cmd = command::take(script, charges, Purpose::Take, |_| [0; 3]);
    let words = cmd.args_iter().filter_map(|arg| match arg {
        redis::Arg::Simple(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    });
    words.collect()
}
