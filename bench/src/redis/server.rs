//! A Redis of our own, that can be killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::calls::pin;

pub(super) struct Server {
    pub(super) port: u16,
    child: Child,
}

impl Server {
    pub(super) fn start() -> Server {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        Server { port, child: Server::spawn(port) }
    }

    /// One that has a core, as far as others leave it.
    pub(super) fn start_on(core: &str) -> Server {
        let server = Server::start();
        pin(&Path::new("/proc").join(server.child.id().to_string()), core);
        server
    }

    /// One that has a core as soon as it has something to do, before whoever else is there: as on a machine of its own.
    pub(super) fn start_before_others_on(core: &str) -> Server {
        let server = Server::start_on(core);
        let id = server.child.id().to_string();
        let is_first = Command::new("chrt").args(["--fifo", "--pid", "10", &id]).status();
        if !is_first.is_ok_and(|status| status.success()) {
            eprintln!(
                "Redis shares a core with callers, and waits for them: chrt does not work here"
            );
        }
        server
    }

    /// Killed as by `kill -9`, and started again with nothing.
    pub(super) fn restart(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.child = Server::spawn(self.port);
    }

    fn spawn(port: u16) -> Child {
        Command::new("redis-server")
            .args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
            ])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed")
    }

    /// The processor's time it has had.
    pub(super) fn cpu_nanos(&self) -> u64 {
        crate::measure::cpu_nanos(&self.child.id().to_string())
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
