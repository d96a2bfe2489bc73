//! Keys, and lists of changes, as scripts read them: JSON in which every value is text. A script's JSON knows only doubles, which
//! would round a moment; text passes through it unharmed.

use std::borrow::Cow;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tollgate_core::Time;
use tollgate_policy::{KeyId, Sha256};

use super::values::{damaged, moment, read_moment};
use crate::{Change, Expect, IdempotentAnswer, KeyTerms, StoreError, StoredKey};

/// A key.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Row<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    origin: Cow<'a, str>,
    #[serde(borrow)]
    sha256: Cow<'a, str>,
    #[serde(borrow)]
    display_prefix: Cow<'a, str>,
    #[serde(borrow)]
    tenant: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<Cow<'a, str>>,
    #[serde(borrow)]
    created_at: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked_at: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaced_by: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grace_until: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plan: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    /// Its own JSON, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate_limit: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Cow<'a, str>>,
}

/// What may change of it.
#[derive(Debug, Serialize)]
struct Terms<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_limit: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Cow<'a, str>>,
}

fn written(time: Time) -> Cow<'static, str> {
    Cow::Owned(moment(time))
}

impl<'a> Terms<'a> {
    fn of(terms: &'a KeyTerms) -> Result<Terms<'a>, StoreError> {
        let rate_limit = terms.rate_limit.as_ref().map(serde_json::to_string).transpose();
        Ok(Terms {
            plan: terms.plan.as_ref().map(|plan| plan.as_str().into()),
            name: terms.name.as_ref().map(|name| name.as_str().into()),
            rate_limit: rate_limit.map_err(|_| damaged("a rate limit"))?.map(Cow::Owned),
            expires_at: terms.expires_at.map(written),
        })
    }
}

/// `None` if it is there and does not read.
#[allow(clippy::option_option, reason = "whether it reads, and whether it is there")]
fn maybe<T: FromStr>(text: Option<&str>) -> Option<Option<T>> {
    text.map(str::parse).transpose().ok()
}

#[allow(clippy::option_option, reason = "whether it reads, and whether it is there")]
fn maybe_moment(text: Option<&str>) -> Option<Option<Time>> {
    match text {
        Some(text) => read_moment(text).map(Some),
        None => Some(None),
    }
}

impl<'a> Row<'a> {
    fn of(key: &'a StoredKey) -> Result<Row<'a>, StoreError> {
        let Terms { plan, name, rate_limit, expires_at } = Terms::of(&key.terms)?;
        Ok(Row {
            id: key.id.as_str().into(),
            origin: key.origin.as_str().into(),
            sha256: key.sha256.to_string().into(),
            display_prefix: key.display_prefix.as_str().into(),
            tenant: key.tenant.as_str().into(),
            user: key.user.as_ref().map(|user| user.as_str().into()),
            created_at: written(key.created_at),
            revoked_at: key.revoked_at.map(written),
            replaced_by: key.replaced_by.as_ref().map(|id| id.as_str().into()),
            grace_until: key.grace_until.map(written),
            plan,
            name,
            rate_limit,
            expires_at,
        })
    }

    fn read(&self) -> Option<StoredKey> {
        Some(StoredKey {
            id: self.id.parse().ok()?,
            origin: self.origin.parse().ok()?,
            sha256: self.sha256.parse().ok()?,
            display_prefix: self.display_prefix.clone().into_owned(),
            tenant: self.tenant.parse().ok()?,
            user: maybe(self.user.as_deref())?,
            terms: KeyTerms {
                plan: maybe(self.plan.as_deref())?,
                name: maybe(self.name.as_deref())?,
                rate_limit: match &self.rate_limit {
                    Some(json) => Some(serde_json::from_str(json).ok()?),
                    None => None,
                },
                expires_at: maybe_moment(self.expires_at.as_deref())?,
            },
            created_at: read_moment(&self.created_at)?,
            revoked_at: maybe_moment(self.revoked_at.as_deref())?,
            replaced_by: maybe(self.replaced_by.as_deref())?,
            grace_until: maybe_moment(self.grace_until.as_deref())?,
        })
    }
}

/// A key as a script wrote it.
pub(super) fn read_key(text: &str) -> Result<StoredKey, StoreError> {
    let row = serde_json::from_str::<Row<'_>>(text).ok();
    row.and_then(|row| row.read()).ok_or_else(|| damaged("a key"))
}

/// What was answered to an `Idempotency-Key`.
#[derive(Debug, Serialize, Deserialize)]
struct Answer<'a> {
    at: Cow<'a, str>,
    fingerprint: Cow<'a, str>,
    status: Cow<'a, str>,
    body: Cow<'a, str>,
}

pub(super) fn read_answer(key: &str, text: &str) -> Result<IdempotentAnswer, StoreError> {
    let read = || {
        let answer: Answer<'_> = serde_json::from_str(text).ok()?;
        Some(IdempotentAnswer {
            key: key.to_owned(),
            fingerprint: answer.fingerprint.parse::<Sha256>().ok()?,
            status: answer.status.parse().ok()?,
            body: answer.body.into_owned(),
            at: read_moment(&answer.at)?,
        })
    };
    read().ok_or_else(|| damaged("an answer"))
}

/// The latest moment of answers that are forgotten at `now`.
pub(super) fn forgotten_at(now: Time) -> Time {
    let kept = u64::try_from(IdempotentAnswer::KEPT.as_nanos()).unwrap_or(u64::MAX);
    Time::from_nanos(now.as_nanos().saturating_sub(kept))
}

/// A change.
#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Op<'a> {
    Issue { row: Row<'a> },
    Update { id: &'a KeyId, terms: Terms<'a> },
    Rotate { id: &'a KeyId, row: Row<'a>, grace_until: String },
    Revoke { id: &'a KeyId, at: String },
    Put { kind: &'a str, id: &'a str, body: &'a str, expect: Cow<'a, str>, at: String },
    Remove { kind: &'a str, id: &'a str, expect: Cow<'a, str> },
    Needs { kind: &'a str, id: &'a str },
    Unchanged { since: String },
    Audit { at: String, row: String },
    Remember { key: &'a str, answer: String, forgotten: String },
}

fn expected(expect: Expect) -> Cow<'static, str> {
    match expect {
        Expect::Absent => "absent".into(),
        Expect::Present => "present".into(),
        Expect::Anything => "anything".into(),
        Expect::Version(version) => version.0.to_string().into(),
    }
}

impl<'a> Op<'a> {
    fn of(change: &'a Change) -> Result<Op<'a>, StoreError> {
        Ok(match change {
            Change::IssueKey(key) => Op::Issue { row: Row::of(key)? },
            Change::UpdateKey { id, terms } => Op::Update { id, terms: Terms::of(terms)? },
            Change::RotateKey { id, successor, grace_until } => {
                Op::Rotate { id, row: Row::of(successor)?, grace_until: moment(*grace_until) }
            }
            Change::RevokeKey { id, at } => Op::Revoke { id, at: moment(*at) },
            Change::Put { kind, id, body, expect, at } => {
                let (kind, expect, at) = (kind.name(), expected(*expect), moment(*at));
                Op::Put { kind, id, body, expect, at }
            }
            Change::Remove { kind, id, expect, at: _ } => {
                Op::Remove { kind: kind.name(), id, expect: expected(*expect) }
            }
            Change::Needs { kind, id } => Op::Needs { kind: kind.name(), id },
            Change::Unchanged(revision) => Op::Unchanged { since: revision.0.to_string() },
            Change::Audit(entry) => Op::Audit {
                at: format!("{:020}", entry.at),
                row: serde_json::to_string(entry).map_err(|_| damaged("an audit row"))?,
            },
            Change::Remember(answer) => Op::Remember {
                key: &answer.key,
                forgotten: moment(forgotten_at(answer.at)),
                answer: {
                    let written = Answer {
                        at: written(answer.at),
                        fingerprint: answer.fingerprint.to_string().into(),
                        status: answer.status.to_string().into(),
                        body: answer.body.as_str().into(),
                    };
                    serde_json::to_string(&written).map_err(|_| damaged("an answer"))?
                },
            },
        })
    }
}

/// A list of changes as the script takes it.
pub(super) fn write_list(changes: &[Change]) -> Result<String, StoreError> {
    let ops = changes.iter().map(Op::of).collect::<Result<Vec<Op<'_>>, _>>()?;
    serde_json::to_string(&ops).map_err(|_| damaged("a change"))
}
