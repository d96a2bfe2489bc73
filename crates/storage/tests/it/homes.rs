//! Where a store can be: each behaviour is tested in all of these.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tollgate_redis::Settings;
use tollgate_storage::{Embedded, InRedis, Store, StoredKey};

use crate::servers::{Brand, Server};

/// What keeps things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Embedded,
    Redis,
    Valkey,
}

/// Where a store is; it goes with the test.
#[derive(Clone, Debug)]
pub enum Home {
    Folder(Arc<TempDir>),
    Server(Arc<Server>),
}

impl Home {
    pub fn new(kind: Kind) -> Home {
        match kind {
            Kind::Embedded => Home::Folder(Arc::new(tempfile::tempdir().unwrap())),
            Kind::Redis => Home::Server(Arc::new(Server::start(Brand::Redis))),
            Kind::Valkey => Home::Server(Arc::new(Server::start(Brand::Valkey))),
        }
    }

    /// Opens what is there.
    pub fn open(&self) -> Store {
        self.open_watching(|_| ())
    }

    /// The same with somebody who is told of keys.
    pub fn open_watching(&self, watch: impl Fn(&StoredKey) + Send + 'static) -> Store {
        match self {
            Home::Folder(folder) => Embedded::at(folder.path()).watch_keys(watch).open().unwrap(),
            Home::Server(server) => in_redis(server).watch_keys(watch).open().unwrap(),
        }
    }

    /// Everything that is written there.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Home::Folder(folder) => {
                let files = std::fs::read_dir(folder.path()).unwrap();
                files.flat_map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
            }
            Home::Server(server) => {
                let names: Vec<String> = server.ask(&["KEYS", "*"]);
                assert!(!names.is_empty());
                names.iter().flat_map(|name| server.ask::<Vec<u8>>(&["DUMP", name])).collect()
            }
        }
    }
}

/// The store in a server, for callers that are patient.
pub fn in_redis(server: &Server) -> InRedis {
    let settings = Settings::new(&server.url()).unwrap().timeout(Duration::from_secs(10));
    InRedis::at(settings, "tollgate")
}

/// An empty store, and where it is.
pub fn store(kind: Kind) -> (Home, Store) {
    let home = Home::new(kind);
    let store = home.open();
    (home, store)
}

/// The embedded database, for what only it does, and its folder.
pub fn embedded() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::at(folder.path()).open().unwrap();
    (folder, store)
}

/// Each of these tests, which take where to keep things, for every kind.
macro_rules! on_every_store {
    ($($name:ident,)*) => {
        mod embedded { $(#[test] fn $name() { super::$name(crate::homes::Kind::Embedded); })* }
        mod redis { $(#[test] fn $name() { super::$name(crate::homes::Kind::Redis); })* }
        mod valkey { $(#[test] fn $name() { super::$name(crate::homes::Kind::Valkey); })* }
    };
}
pub(crate) use on_every_store;
