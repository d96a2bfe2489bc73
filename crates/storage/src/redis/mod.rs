//! The same messages, answered by Redis or Valkey: many nodes share one store and keep nothing themselves.
//!
//! ```text
//!  Commit, AddUsage, Tidy ─▶ Writer ── one script a group, each with a number ──▶ primary
//!  Reserve, Refund ────────▶ Quotas ── one script a quota, spread over slots ───▶ primaries
//!  reads ──────────────────▶ Reader ── pages ────────────────────────────────────▶
//!  watchers ◀── Feed ◀─ pub/sub says "there is something", the log of changes says what ─┘
//! ```
//! Everything but quotas has one hash tag, so that a list of changes is one script in a cluster too.
//!
//! **Once.** A connection that breaks leaves in doubt whether a script has run. So the writer numbers its calls, and the script keeps
//! the last number with its answer: sent again, it answers and does nothing. A reservation that is in doubt counts as made
//! and not granted, a refund as given back: both can only strand, never give twice.
//!
//! **Order.** A change is an entry in a log, which says which key or object changed; what it is now is read with it. However
//! a node comes by news, it makes the newest state its own.

mod feed;
mod names;
mod open;
mod quotas;
mod reader;
mod row;
mod scripts;
mod usage_query;
mod values;
mod writer;

pub use open::InRedis;
