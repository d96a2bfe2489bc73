//! One binary for all tests of the counters in Redis. Each runs against Redis and against Valkey.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod accounts;
mod alive;
mod breaker;
mod chains;
mod chaos;
mod cluster;
mod counters;
mod differential;
mod documented;
mod gated;
mod groups;
mod healing;
mod hybrid;
mod keepers;
mod killed;
mod leased_refusals;
mod leases;
mod moving;
mod newcomers;
mod paced;
mod periods;
mod plain;
mod ports;
mod proxy;
mod refusing;
mod reloads;
mod room;
mod rounds;
mod scale;
mod sentinels;
mod servers;
mod slots;
mod spread;
mod stopping;
mod tls;
