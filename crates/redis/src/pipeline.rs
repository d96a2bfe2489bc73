//! Calls that are sent at once, of scripts that the server may not know any more.
//!
//! A server forgets scripts when it restarts, fails over or is told to. A call of one that it does not know has not run, so it
//! is sent again. Under load many calls are answered so at the same time: the first of each script is sent whole, then all
//! others by name, and what another server of a cluster does not know even then is sent whole. So it takes three round trips
//! more at most, however many calls there are.

use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};
use tokio::time::{Instant, timeout_at};

use crate::Unavailable;
use crate::link::{Link, is_down};
use crate::scripts::Script;

/// What a call was answered; else why it was not, and whether the server as a whole is of no use.
pub(crate) type Answered = Result<Value, (Unavailable, bool)>;

/// What each call runs, where it is to be loaded if the server does not have it.
pub(crate) type Runs<'a> = &'a [Option<&'static Script>];

/// Sends all at once, and again what the server did not know. Answers are in order.
pub(crate) async fn call_all(
    link: &Link,
    (pipeline, scripts): (&Pipeline, Runs<'_>),
    deadline: Instant,
) -> Result<Vec<Answered>, Unavailable> {
    let mut answers = in_time(link, pipeline, deadline).await?;
    let mut failed = None;
    for turn in [Turn::FirstOfEach, Turn::Others, Turn::Elsewhere] {
        let unknown = unknown(&answers, scripts);
        if unknown.is_empty() {
            break;
        }
        let (places, calls) = turn.of(pipeline, &unknown);
        match in_time(link, &calls, deadline).await {
            Ok(again) => {
                for (nth, answer) in places.into_iter().zip(again) {
                    answers[nth] = answer;
                }
            }
            Err(why) => {
                failed = Some(why);
                break;
            }
        }
    }
    let answered = |answer: RedisResult<Value>| match (answer, &failed) {
        (Err(error), Some(why)) if is_unknown_script(&error) => Err((why.clone(), true)),
        (answer, _) => answer.map_err(told),
    };
    Ok(answers.into_iter().map(answered).collect())
}

/// Which calls were not made because the server does not know what they run.
fn unknown(answers: &[RedisResult<Value>], scripts: Runs<'_>) -> Vec<(usize, &'static Script)> {
    let is_unknown = |nth: usize| answers[nth].as_ref().is_err_and(is_unknown_script);
    let all = scripts.iter().take(answers.len()).enumerate();
    all.filter_map(|(nth, script)| Some((nth, (*script)?)).filter(|_| is_unknown(nth))).collect()
}

/// What is sent again, one after the other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// One call of each script, whole: the server knows it from then on.
    FirstOfEach,
    /// The others by name.
    Others,
    /// What another server of the cluster did not know, whole.
    Elsewhere,
}

impl Turn {
    /// Which of those that are unknown are sent now, by their places, and how.
    fn of(
        self,
        pipeline: &Pipeline,
        unknown: &[(usize, &'static Script)],
    ) -> (Vec<usize>, Pipeline) {
        let cmds: Vec<&Cmd> = pipeline.cmd_iter().collect();
        let (mut places, mut calls) = (Vec::new(), Pipeline::new());
        for (number, (nth, script)) in unknown.iter().enumerate() {
            let is_first = || unknown[..number].iter().all(|(_, before)| before.sha != script.sha);
            if self == Turn::FirstOfEach && !is_first() {
                continue;
            }
            let Some(cmd) = cmds.get(*nth) else { continue };
            places.push(*nth);
            calls.add_command(match self {
                Turn::FirstOfEach | Turn::Elsewhere => whole(cmd, script),
                Turn::Others => (*cmd).clone(),
            });
        }
        (places, calls)
    }
}

/// Whether scripts are answered until then: a server may take connections and still be of no use.
pub(crate) async fn answers_scripts(link: &Link, deadline: Instant) -> Result<(), Unavailable> {
    let mut probe = Pipeline::with_capacity(1);
    probe.cmd("EVAL").arg("return 1").arg(0);
    match in_time(link, &probe, deadline).await?.pop() {
        Some(Err(error)) => Err(told(error).0),
        _ => Ok(()),
    }
}

/// Sends all at once, and waits until then at most.
async fn in_time(
    link: &Link,
    pipeline: &Pipeline,
    deadline: Instant,
) -> Result<Vec<RedisResult<Value>>, Unavailable> {
    match timeout_at(deadline, link.call_all(pipeline, deadline)).await {
        Err(_) => Err(Unavailable::TimedOut),
        Ok(Err(error)) => Err(told(error).0),
        Ok(Ok(answers)) => Ok(answers),
    }
}

/// An error as callers see it, and whether the server as a whole is of no use.
#[allow(clippy::needless_pass_by_value, reason = "stands in map_err")]
pub(crate) fn told(error: RedisError) -> (Unavailable, bool) {
    let (why, is_down) = (error.to_string(), is_down(&error));
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => (Unavailable::Refused(why), is_down),
        _ => (Unavailable::Lost(why), is_down),
    }
}

fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(redis::ServerErrorKind::NoScript)
}

/// The same call with the script itself in place of its name.
fn whole(cmd: &Cmd, script: &Script) -> Cmd {
    let mut whole = redis::cmd("EVAL");
    whole.arg(&script.body);
    for arg in cmd.args_iter().skip(2) {
        if let redis::Arg::Simple(bytes) = arg {
            whole.arg(bytes);
        }
    }
    whole
}
