//! The schema and how it came to be. Texts are kept as texts, so that `sqlite3` shows something to people.
//!
//! Times are nanoseconds since the epoch. A migration is never changed once released: another is added.

use rusqlite::Connection;

/// What the database says it is, in its header: "Toll".
pub(super) const APPLICATION: i64 = 0x546f_6c6c;

/// Each takes the schema from the version that is its index to the next.
const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE keys (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    origin TEXT NOT NULL,
    sha256 BLOB NOT NULL UNIQUE,
    display_prefix TEXT NOT NULL,
    tenant TEXT NOT NULL,
    user TEXT,
    plan TEXT,
    name TEXT,
    rate_limit TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    replaced_by TEXT,
    grace_until INTEGER
) STRICT;
CREATE INDEX keys_by_tenant ON keys (tenant, seq);
CREATE INDEX keys_by_plan ON keys (plan) WHERE plan IS NOT NULL AND revoked_at IS NULL;

-- Tenants, plans and configuration made by the API; body is JSON as in the configuration file.
CREATE TABLE objects (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    body TEXT NOT NULL,
    version INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE versions (last INTEGER NOT NULL) STRICT;
INSERT INTO versions VALUES (0);

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    before TEXT,
    after TEXT
) STRICT;

CREATE TABLE answers (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    idempotency_key TEXT NOT NULL UNIQUE,
    fingerprint BLOB NOT NULL,
    status INTEGER NOT NULL,
    body TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

-- taken: spent, or reserved to be spent by the process that runs.
CREATE TABLE quotas (
    name TEXT NOT NULL,
    begins INTEGER NOT NULL,
    ends INTEGER NOT NULL,
    taken INTEGER NOT NULL,
    PRIMARY KEY (name, begins)
) STRICT, WITHOUT ROWID;
CREATE INDEX quotas_by_end ON quotas (ends);

CREATE TABLE usage_labels (id INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE usage_holders (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    key TEXT NOT NULL,
    UNIQUE (tenant, key)
) STRICT;
-- entries: a JSON array of [route, plan, requests, refusals, tokens].
CREATE TABLE usage (
    day INTEGER NOT NULL,
    holder INTEGER NOT NULL,
    entries TEXT NOT NULL,
    PRIMARY KEY (day, holder)
) STRICT, WITHOUT ROWID;
-- For people.
CREATE VIEW usage_rows AS
    SELECT date(usage.day * 86400, 'unixepoch') AS day, tenants.label AS tenant, holders.key AS key,
           routes.label AS route, plans.label AS plan, entry.value ->> 2 AS requests,
           entry.value ->> 3 AS refusals, entry.value ->> 4 AS tokens
    FROM usage
    JOIN usage_holders AS holders ON holders.id = usage.holder
    JOIN usage_labels AS tenants ON tenants.id = holders.tenant
    JOIN json_each(usage.entries) AS entry
    JOIN usage_labels AS routes ON routes.id = entry.value ->> 0
    JOIN usage_labels AS plans ON plans.id = entry.value ->> 1;
",
    "
CREATE INDEX keys_by_user ON keys (tenant, user) WHERE user IS NOT NULL;

-- last_day: names of usage that has been forgotten are forgotten after it. Of those that were there before, the day is not known.
ALTER TABLE usage_labels ADD COLUMN last_day INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_holders ADD COLUMN last_day INTEGER NOT NULL DEFAULT 0;
UPDATE usage_labels SET last_day = coalesce((SELECT max(day) FROM usage), 0);
UPDATE usage_holders SET last_day = coalesce((SELECT max(day) FROM usage), 0);
CREATE INDEX usage_labels_by_day ON usage_labels (last_day);
CREATE INDEX usage_holders_by_day ON usage_holders (last_day);
",
    // Keys in their grace are few, and looked for whenever a plan is to be deleted.
    "CREATE INDEX keys_by_grace ON keys (grace_until) WHERE grace_until IS NOT NULL;",
];

/// The newest version.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

/// The version of what is there.
pub(super) fn version(db: &Connection) -> rusqlite::Result<i64> {
    db.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Brings the schema from `version` to the newest, in one step.
pub(super) fn migrate(db: &mut Connection, version: i64) -> rusqlite::Result<()> {
    let step = db.transaction()?;
    for migration in &MIGRATIONS[usize::try_from(version).unwrap_or(0)..] {
        step.execute_batch(migration)?;
    }
    step.pragma_update(None, "user_version", VERSION)?;
    step.pragma_update(None, "application_id", APPLICATION)?;
    step.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_before_they_had_a_day_stay_as_long_as_the_last_usage() {
        let mut db = Connection::open_in_memory().unwrap();
        db.execute_batch(MIGRATIONS[0]).unwrap();
        db.execute_batch(
            "INSERT INTO usage_labels (label) VALUES ('acme');
             INSERT INTO usage_holders (tenant, key) VALUES (1, 'key_1');
             INSERT INTO usage VALUES (20000, 1, '[]'), (20007, 1, '[]');",
        )
        .unwrap();
        migrate(&mut db, 1).unwrap();
        assert_eq!(version(&db), Ok(VERSION));
        for table in ["usage_labels", "usage_holders"] {
            let sql = format!("SELECT last_day FROM {table}");
            assert_eq!(db.query_row(&sql, [], |row| row.get(0)), Ok(20_007), "{table}");
        }
    }
}
