//! Where Redis is and how long it may take.

use std::fmt;
use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

/// How Redis is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// One server.
    #[default]
    Single,
    /// A cluster; the URL is of any of its nodes.
    Cluster,
    /// By a sentinel; the URL is the sentinel's.
    Sentinel,
}

/// Where Redis is and how long it may take.
///
/// ```
/// use std::time::Duration;
/// use tollgate_redis::{Mode, Settings};
///
/// # fn main() -> Result<(), tollgate_redis::BadUrl> {
/// let settings = Settings::new("rediss://user:secret@127.0.0.1:6379")?.timeout(Duration::from_millis(20));
/// assert!(Settings::new("http://127.0.0.1").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) info: ConnectionInfo,
    pub(crate) mode: Mode,
    pub(crate) timeout: Duration,
    pub(crate) master: String,
    /// More nodes or sentinels, which any can be asked instead of.
    others: Vec<ConnectionAddr>,
}

/// The URL is not one of Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUrl {
    why: String,
}

impl fmt::Display for BadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: write redis://host:port, or rediss://user:password@host:port for TLS",
            self.why
        )
    }
}

impl std::error::Error for BadUrl {}

fn read(url: &str) -> Result<ConnectionInfo, BadUrl> {
    let info = url.into_connection_info().map_err(|error| BadUrl { why: error.to_string() })?;
    Ok(info.set_tcp_settings(at_once()))
}

/// A pipeline is sent when it is written. The driver's default lets it wait until the one before it has been answered.
pub(crate) fn at_once() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

impl Settings {
    /// A single server at `url` that answers within 50 ms.
    pub fn new(url: &str) -> Result<Settings, BadUrl> {
        let (master, timeout) = ("mymaster".to_owned(), Duration::from_millis(50));
        Ok(Settings { info: read(url)?, mode: Mode::Single, timeout, master, others: Vec::new() })
    }

    /// Another node of the cluster, or another sentinel: any that answers will do. What the first URL says of users, passwords
    /// and TLS holds for all.
    pub fn also(mut self, url: &str) -> Result<Settings, BadUrl> {
        self.others.push(read(url)?.addr().clone());
        Ok(self)
    }

    /// Every server that may be asked first.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = ConnectionInfo> + '_ {
        let others = self.others.iter().map(|address| self.info.clone().set_addr(address.clone()));
        std::iter::once(self.info.clone()).chain(others)
    }

    /// How it is reached.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Settings {
        self.mode = mode;
        self
    }

    /// The longest that a call waits for it.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Settings {
        self.timeout = timeout;
        self
    }

    /// The longest that a call waits for it.
    pub fn longest_wait(&self) -> Duration {
        self.timeout
    }

    /// How it is reached.
    pub fn way(&self) -> Mode {
        self.mode
    }

    /// Its host and port.
    pub fn address(&self) -> String {
        self.info.addr().to_string()
    }

    /// Another server with the same credentials, such as the next node of a cluster.
    #[must_use]
    pub fn at(mut self, host: &str, port: u16) -> Settings {
        let host = host.to_owned();
        let address = match self.info.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        self.info = self.info.set_addr(address);
        self.others.clear();
        self
    }

    /// What sentinels call the server; `mymaster` if unsaid.
    #[must_use]
    pub fn master(mut self, name: &str) -> Settings {
        name.clone_into(&mut self.master);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else each pipeline waits until the one before it has been answered.
    #[test]
    fn nothing_waits_to_be_sent() {
        let settings = Settings::new("redis://127.0.0.1:6379")
            .and_then(|first| first.also("redis://127.0.0.1:6380"));
        let moved = settings.clone().map(|settings| settings.at("127.0.0.1", 6381));
        for settings in [settings, moved] {
            let seeds: Vec<_> = settings.expect("good addresses").seeds().collect();
            assert!(seeds.iter().all(|seed| seed.tcp_settings().nodelay()), "{seeds:?}");
        }
    }
}
