//! Calls of the scripts, and their answers.

use std::time::Duration;

use redis::{Cmd, Value};
use tollgate_engine::{Decision, Strategy};

use crate::answer::{Left, Part, refusal, standing};
use crate::calendar::Bounds;
use crate::figures::{Figures, Shape};
use crate::ledger::{Settled, Statement, Telling};
use crate::scripts::{Script, Scripts};
use crate::slice::{Grant, Report};

/// One limit's counter and the cost this request puts on it.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    pub(crate) key: &'a str,
    pub(crate) figures: &'a Figures,
    pub(crate) cost: u64,
    pub(crate) strategy: Strategy,
}

impl<'a> Charge<'a> {
    /// One token on the counter `key`, refused if there is none. A key belongs to one limit.
    pub fn new(key: &'a str, figures: &'a Figures) -> Charge<'a> {
        Charge { key, figures, cost: 1, strategy: Strategy::Reject }
    }

    /// So many tokens instead of one. 0 only looks.
    #[must_use]
    pub fn cost(mut self, cost: u64) -> Charge<'a> {
        self.cost = cost;
        self
    }

    /// What happens if there are not enough.
    #[must_use]
    pub fn strategy(mut self, strategy: Strategy) -> Charge<'a> {
        self.strategy = strategy;
        self
    }
}

/// Whether a chain is charged, or only asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Take,
    Ask,
}

/// The script that decides a chain.
pub(crate) fn script_for<'s>(scripts: &'s Scripts, charges: &[Charge<'_>]) -> &'s Script {
    let is_bucket = |charge: &Charge<'_>| matches!(charge.figures.shape, Shape::Bucket { .. });
    if charges.iter().all(is_bucket) { &scripts.take_buckets } else { &scripts.take_any }
}

/// The call that decides a chain.
pub(crate) fn take(
    script: &Script,
    charges: &[Charge<'_>],
    purpose: Purpose,
    bounds: impl Fn(&Charge<'_>) -> Bounds,
) -> Cmd {
    let mut cmd = evalsha(script, charges.iter().map(|charge| charge.key));
    cmd.arg(if purpose == Purpose::Take { "take" } else { "ask" });
    for charge in charges {
        let figures = charge.figures;
        let sent = if figures.shape == Shape::Quota { bounds(charge) } else { figures.sent };
        cmd.arg(figures.letter);
        // More than can ever pass might not be a number that Lua knows exactly.
        if charge.cost <= figures.capacity() {
            cmd.arg(charge.cost)
        } else {
            cmd.arg(-1)
        };
        cmd.arg(match charge.strategy {
            Strategy::Reject => "r",
            Strategy::Queue => "q",
            Strategy::Degrade => "d",
            Strategy::Observe => "o",
        });
        cmd.arg(&figures.text).arg(figures.capacity());
        cmd.arg(sent[0]).arg(sent[1]).arg(sent[2]);
    }
    cmd
}

/// The call that gives charges back.
pub(crate) fn give_back<'a>(
    script: &Script,
    made: impl Iterator<Item = (&'a Charge<'a>, &'a Part)> + Clone,
) -> Cmd {
    let mut cmd = evalsha(script, made.clone().map(|(charge, _)| charge.key));
    for (charge, part) in made {
        let figures = charge.figures;
        cmd.arg(figures.letter).arg(charge.cost).arg(&figures.text).arg(figures.capacity());
        cmd.arg(figures.sent[0]).arg(figures.sent[1]).arg(figures.sent[2]);
        cmd.arg(part.left.one).arg(part.left.two).arg(part.left.three).arg(part.at);
    }
    cmd
}

/// The call that leases tokens: at least and at most so many, after what is told of the slice before.
pub(crate) fn lease(
    script: &Script,
    figures: &Figures,
    key: &str,
    bounds: Bounds,
    wanted: Wanted,
) -> Cmd {
    let mut cmd = evalsha(script, std::iter::once(key));
    let sent = if figures.shape == Shape::Quota { bounds } else { figures.sent };
    cmd.arg(figures.letter).arg(&figures.text).arg(figures.capacity());
    cmd.arg(sent[0]).arg(sent[1]).arg(sent[2]);
    cmd.arg(wanted.least).arg(wanted.most);
    cmd.arg(wanted.told.granted).arg(wanted.told.unspent).arg(wanted.told.mark);
    cmd.arg(u64::try_from(wanted.lifetime.as_micros()).unwrap_or(u64::MAX));
    if wanted.is_former {
        cmd.arg("former");
    }
    cmd
}

/// What a node asks to be leased.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) least: u64,
    pub(crate) most: u64,
    pub(crate) told: Report,
    pub(crate) lifetime: Duration,
    /// Whether that concerns a counter before: one of another algorithm is left as it is.
    pub(crate) is_former: bool,
}

/// What was granted; `Err` with the server's time if its calendar must be looked up again.
pub(crate) fn read_grant(value: &Value) -> Option<Result<Grant, i64>> {
    let Value::Array(values) = value else { return None };
    let number = |value: &Value| if let Value::Int(number) = value { Some(*number) } else { None };
    let numbers = values.iter().map(number).collect::<Option<Vec<i64>>>()?;
    match numbers[..] {
        [at] => Some(Err(at)),
        [at, holds, lives, mark, one, two, three] => Some(Ok(Grant {
            holds: u64::try_from(holds).ok()?,
            lives: Duration::from_micros(u64::try_from(lives).ok()?),
            mark,
            at,
            left: Left { one, two, three },
        })),
        _ => None,
    }
}

/// The call that tells a counter what `node` has consumed. A log is counted by two windows here: what others did in which
/// microsecond is not for every node to know.
pub(crate) fn sync(
    script: &Script,
    figures: &Figures,
    key: &str,
    bounds: Bounds,
    (node, told): (&str, Statement),
) -> Cmd {
    let mut cmd = evalsha(script, std::iter::once(key));
    let sent = if figures.shape == Shape::Quota { bounds } else { figures.sent };
    let letter = if matches!(figures.shape, Shape::Log(_)) { "s" } else { figures.letter };
    cmd.arg(letter).arg(&figures.text).arg(figures.capacity());
    cmd.arg(sent[0]).arg(sent[1]).arg(sent[2]);
    cmd.arg(node).arg(told.account).arg(told.born);
    cmd.arg(told.sum).arg(told.unsent).arg(told.forgiven).arg(told.total);
    cmd.arg(told.in_view.until());
    match told.purpose {
        Telling::Consumed => &mut cmd,
        Telling::Former => cmd.arg("former"),
        Telling::Reset => cmd.arg("reset"),
    };
    cmd
}

/// What all have consumed; `Err` with the server's time if its calendar must be looked up again.
pub(crate) fn read_settled(value: &Value) -> Option<Result<Settled, i64>> {
    let Value::Array(values) = value else { return None };
    let number = |value: &Value| if let Value::Int(number) = value { Some(*number) } else { None };
    let numbers = values.iter().map(number).collect::<Option<Vec<i64>>>()?;
    match numbers[..] {
        [at] => Some(Err(at)),
        [_, born, total, news, rest, is_reset] => Some(Ok(Settled {
            born,
            rest,
            is_reset: is_reset == 1,
            total: u64::try_from(total).ok()?,
            news: u64::try_from(news).ok()?,
        })),
        _ => None,
    }
}

pub(crate) fn evalsha<'k>(script: &Script, keys: impl Iterator<Item = &'k str> + Clone) -> Cmd {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(&script.sha).arg(keys.clone().count());
    for key in keys {
        cmd.arg(key);
    }
    cmd
}

/// What the script that decides a chain answered.
pub(crate) enum Said {
    /// What became of each charge, and the server's time.
    Decided(Vec<Part>),
    /// The server's time is outside the periods it was told, and it is this.
    LookAgain(i64),
}

/// Reads the answer; `None` if it is none.
pub(crate) fn read(value: &Value, charges: &[Charge<'_>]) -> Option<Said> {
    let Value::Array(values) = value else { return None };
    let number = |value: &Value| if let Value::Int(number) = value { Some(*number) } else { None };
    let ([at, state], rest) = values.split_first_chunk::<2>()?;
    let (at, state) = (number(at)?, number(state)?);
    if state == 2 {
        return Some(Said::LookAgain(at));
    }
    if rest.len() != 4 * charges.len() {
        return None;
    }
    let parts = rest.chunks_exact(4).zip(charges).map(|(four, charge)| {
        let left =
            Left { one: number(&four[1])?, two: number(&four[2])?, three: number(&four[3])? };
        let refused = number(&four[0])? == 1;
        let refusal = refused.then(|| refusal(charge.figures, left, charge.cost, at));
        let standing = standing(charge.figures, left, at);
        let is_charged = state == 0 && !refused && charge.cost > 0;
        let decision = Decision { refusal, standing };
        Some(Part { decision, left, at, is_charged, is_known: true })
    });
    parts.collect::<Option<Vec<Part>>>().map(Said::Decided)
}
