//! Where a running gateway's admin API is, told in its data folder, so that a command beside it needs no address.
//!
//! The file is locked for as long as the gateway lives, however it ends. An address that nobody holds is not believed: by now
//! the port may be another program's, and the admin token would be sent there.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf, absolute};
use std::thread;
use std::time::Duration;

use tollgate_policy::shapes::Tls;

/// The name of the file in the data folder.
const FILE: &str = "admin.url";
/// More than any address and path have.
const LONGEST: u64 = 8192;
/// How long a command may look, and how often it is looked whether it still does.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS: usize = 25;

/// An admin API's address, and the file of its certificate where it has TLS.
///
/// A command beside the gateway is sure to speak with it if it is shown that very certificate, whatever name that is for and
/// whoever has signed it: the folder belongs to whoever runs the gateway, and holds the admin token too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdminUrl {
    pub(crate) url: String,
    pub(crate) certificate: Option<PathBuf>,
}

impl AdminUrl {
    /// Of an API that listens there.
    pub(crate) fn new(listening: SocketAddr, tls: Option<&Tls>) -> AdminUrl {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let certificate = tls.map(|tls| tls.cert.as_path());
        // Whoever reads it may be in another folder.
        let certificate = certificate.map(|file| absolute(file).unwrap_or_else(|_| file.into()));
        AdminUrl { url: format!("{scheme}://{}", reachable(listening)), certificate }
    }

    /// The lines of the file; none while they are being written.
    fn read(text: &str) -> Option<AdminUrl> {
        let mut lines = text.strip_suffix('\n')?.lines();
        let url = lines.next()?.to_owned();
        Some(AdminUrl { url, certificate: lines.next().map(PathBuf::from) })
    }
}

impl fmt::Display for AdminUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)?;
        self.certificate.iter().try_for_each(|file| write!(f, "\n{}", file.display()))
    }
}

/// An address that is told until this is dropped.
#[derive(Debug)]
pub(crate) struct Announced {
    file: PathBuf,
    locked: File,
}

/// What a data folder tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// A gateway runs, and is there.
    Running(AdminUrl),
    /// None does: there is no file, or whoever wrote it has ended.
    Nobody,
}

/// Tells in the data folder, which must be there, where the admin API listens.
///
/// # Errors
///
/// If another gateway tells its address there, or the file cannot be written.
pub(crate) fn announce(folder: &Path, admin: &AdminUrl) -> io::Result<Announced> {
    let file = folder.join(FILE);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut locked = options.open(&file)?;
    lock(&locked)?;
    locked.set_len(0)?;
    // In one write: who reads meanwhile finds all of it or nothing.
    locked.write_all(format!("{admin}\n").as_bytes())?;
    Ok(Announced { file, locked })
}

/// A command that looks whether somebody runs holds it too, for a moment.
fn lock(file: &File) -> io::Result<()> {
    for _ in 0..LOOKS {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(LOOK),
            done => return Ok(done?),
        }
    }
    Ok(file.try_lock()?)
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
    Ok(AdminUrl::read(&text).map_or(Told::Nobody, Told::Running))
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
        let of = |address: &str, tls| AdminUrl::new(address.parse().unwrap(), tls);
        let plain = of("0.0.0.0:9090", None);
        let announced = announce(folder.path(), &plain).unwrap();
        assert_eq!(plain.url, "http://127.0.0.1:9090");
        assert_eq!(find(folder.path()).unwrap(), Told::Running(plain));
        assert!(announce(folder.path(), &of("127.0.0.1:1", None)).is_err());
        drop(announced);
        assert_eq!(find(folder.path()).unwrap(), Told::Nobody);

        let tls: Tls = serde_json::from_str(r#"{ "cert": "a b/tls.crt", "key": "k" }"#).unwrap();
        let encrypted = of("[::]:9090", Some(&tls));
        assert_eq!(encrypted.url, "https://[::1]:9090");
        assert_eq!(encrypted.certificate, Some(absolute("a b/tls.crt").unwrap()));
        let _announced = announce(folder.path(), &encrypted).unwrap();
        assert_eq!(find(folder.path()).unwrap(), Told::Running(encrypted));
    }

    #[test]
    fn a_command_that_looks_keeps_no_gateway_from_telling() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        std::fs::write(&file, "").unwrap();
        let looking = File::open(&file).unwrap();
        looking.lock_shared().unwrap();
        let of = AdminUrl::new(([127, 0, 0, 1], 9090).into(), None);
        thread::scope(|scope| {
            let announced = scope.spawn(|| announce(folder.path(), &of));
            thread::sleep(LOOK * 3);
            looking.unlock().unwrap();
            let announced = announced.join().unwrap().unwrap();
            assert_eq!(find(folder.path()).unwrap(), Told::Running(of.clone()));
            drop(announced);
        });
    }

    #[test]
    fn what_is_just_being_written_is_not_read_by_half() {
        for (text, whole) in
            [("", false), ("https://127.0.0.1:90", false), ("http://[::1]:1\n", true)]
        {
            assert_eq!(AdminUrl::read(text).is_some(), whole, "{text:?}");
        }
    }

    #[test]
    fn an_address_that_nobody_holds_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "http://127.0.0.1:9090\n").unwrap();
        assert_eq!(find(folder.path()).unwrap(), Told::Nobody);
    }
}
