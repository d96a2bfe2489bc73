//! The embedded database: SQLite, one writer and a few readers, each a thread with a connection of its own.

mod audit;
mod backup;
mod faults;
mod idempotency;
mod keys;
mod lock;
mod objects;
mod open;
mod quotas;
mod reader;
mod schema;
mod usage;
mod usage_query;
mod writer;

pub use open::Embedded;
