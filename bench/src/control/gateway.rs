//! A gateway with a storage of its own, as a process.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tollgate_policy::Sha256;

use crate::calls::{backend, pin};
use crate::gateway::proxies::{KEY, free_port, shipped};

pub(super) const TOKEN: &str = "token-of-the-benchmark-0123456789";

/// A gateway in a process of its own.
pub(super) struct Gateway {
    child: Child,
    pub(super) port: u16,
    pub(super) admin: u16,
    folder: tempfile::TempDir,
}

impl Gateway {
    pub(super) fn start() -> Result<Gateway, String> {
        let folder = super::folder();
        let (port, admin) = (free_port()?, free_port()?);
        let backend = backend("0")?;
        let text = format!(
            "server: {{ listen: 127.0.0.1:{port}, admin_listen: 127.0.0.1:{admin}, workers: 1 }}
storage: {{ path: ./data }}
upstreams: {{ api: {{ url: \"http://127.0.0.1:{backend}\" }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
plans: {{ pro: {{ rate_limit: {{ sustained: {{ rate: 1000000 }}, scope: user }} }} }}
tenants: [ {{ id: acme, plan: pro }} ]
keys: [ {{ tenant: acme, user: ci, sha256: {} }} ]
",
            Sha256::of(KEY.as_bytes())
        );
        let failed = |error: std::io::Error| format!("the gateway did not start: {error}");
        fs::write(folder.path().join("tollgate.yaml"), text).map_err(failed)?;
        let child = Command::new(shipped()?)
            .args(["serve", "--config", "tollgate.yaml"])
            .env("TOLLGATE_ADMIN_TOKEN", TOKEN)
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let gateway = Gateway { child, port, admin, folder };
        for _ in 0..200 {
            if std::net::TcpStream::connect(("127.0.0.1", admin)).is_ok() {
                gateway.share_cores();
                return Ok(gateway);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err("the gateway does not listen".to_owned())
    }

    /// Workers have core 0, everybody else core 1.
    fn share_cores(&self) {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()));
        for task in tasks.into_iter().flatten().flatten() {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let core = if name.starts_with("worker-") { "0" } else { "1" };
            pin(&task.path(), core);
        }
    }

    /// Without a warning; what it leaves behind.
    pub(super) fn kill(&mut self) -> PathBuf {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.folder.path().join("data")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill();
    }
}
