//! Where a running gateway's admin API is, told in its data folder, so that a command beside it needs no address.
//!
//! The file is locked for as long as the gateway lives, however it ends. An address that nobody holds is not believed: by now
//! the port may be another program's, and the admin token would be sent there.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The name of the file in the data folder.
const FILE: &str = "admin.url";
/// More than any address has.
const LONGEST: u64 = 1024;

/// An address that is told until this is dropped.
#[derive(Debug)]
pub(crate) struct Announced {
    file: PathBuf,
    locked: File,
}

/// What a data folder tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// A gateway runs, and this is its URL.
    Running(String),
    /// None does: there is no file, or whoever wrote it has ended.
    Nobody,
}

/// Tells in the data folder, which must be there, where the admin API listens.
///
/// # Errors
///
/// If another gateway tells its address there, or the file cannot be written.
pub(crate) fn announce(folder: &Path, listening: SocketAddr) -> io::Result<Announced> {
    let file = folder.join(FILE);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut locked = options.open(&file)?;
    locked.try_lock()?;
    locked.set_len(0)?;
    writeln!(locked, "http://{}", reachable(listening))?;
    Ok(Announced { file, locked })
}

impl Drop for Announced {
    /// Removed while it is still locked, so it cannot be a successor's.
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.file));
        drop(self.locked.unlock());
    }
}

/// Reads what the folder tells.
///
/// # Errors
///
/// If the file cannot be read.
pub(crate) fn find(folder: &Path) -> io::Result<Told> {
    let file = match File::open(folder.join(FILE)) {
        Ok(file) => file,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Told::Nobody),
        Err(why) => return Err(why),
    };
    match file.try_lock_shared() {
        Ok(()) => return Ok(Told::Nobody),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(why)) => return Err(why),
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    let url = text.trim();
    // Nothing yet: it is just being written.
    Ok(if url.is_empty() { Told::Nobody } else { Told::Running(url.to_owned()) })
}

/// An address that a caller on this machine can use.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, v6.port()).into(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_as_long_as_its_gateway_lives() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(find(folder.path()).unwrap(), Told::Nobody);
        let announced = announce(folder.path(), "0.0.0.0:9090".parse().unwrap()).unwrap();
        let url = "http://127.0.0.1:9090".to_owned();
        assert_eq!(find(folder.path()).unwrap(), Told::Running(url));
        assert!(announce(folder.path(), "127.0.0.1:1".parse().unwrap()).is_err());
        drop(announced);
        assert_eq!(find(folder.path()).unwrap(), Told::Nobody);
        announce(folder.path(), "[::]:9090".parse().unwrap()).unwrap();
    }

    #[test]
    fn an_address_that_nobody_holds_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "http://127.0.0.1:9090\n").unwrap();
        assert_eq!(find(folder.path()).unwrap(), Told::Nobody);
    }
}
