//! A gateway in a process of its own, whose memory is nobody else's.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use super::TestGateway;

const UPSTREAM: &str = "TOLLGATE_TEST_UPSTREAM";

/// A gateway in a process of its own; ended when dropped.
pub struct ChildGateway {
    child: Child,
    pub address: SocketAddr,
}

impl ChildGateway {
    /// This same program, told to run [`serves_as_a_child`] only.
    pub fn new(url: &str) -> ChildGateway {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["support::child::serves_as_a_child", "--exact", "--ignored", "--nocapture"])
            .env(UPSTREAM, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines
            .map(Result::unwrap)
            .find_map(|line| line.split_once("listens on ")?.1.parse().ok());
        ChildGateway { child, address: address.unwrap() }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Bytes of its process in memory.
    pub fn resident(&self) -> usize {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }
}

impl Drop for ChildGateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "no test: what ChildGateway starts"]
fn serves_as_a_child() {
    let Ok(url) = std::env::var(UPSTREAM) else { return };
    let gateway = TestGateway::new(&url);
    println!("\nlistens on {}", gateway.address);
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
