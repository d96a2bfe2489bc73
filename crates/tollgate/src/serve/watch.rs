//! Sees when the file or a certificate has changed, also where a link was pointed elsewhere, as Kubernetes does it.
//!
//! It looks twice a second. That costs next to nothing, works on every file system, and needs no list of the ways in
//! which editors and orchestrators replace a file.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tollgate_policy::shapes::Server;

const EVERY: Duration = Duration::from_millis(500);

/// What a file is known by without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    path: PathBuf,
    target: Option<PathBuf>,
    modified: Option<SystemTime>,
    bytes: u64,
}

impl Mark {
    /// None of a file that is gone.
    fn of(path: &Path) -> Option<Mark> {
        let about = std::fs::metadata(path).ok()?;
        Some(Mark {
            path: path.to_owned(),
            target: std::fs::canonicalize(path).ok(),
            modified: about.modified().ok(),
            bytes: about.len(),
        })
    }
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    File,
    Certificates,
}

/// Watches the file, if there is one, and the certificates that it names.
#[derive(Debug)]
pub(crate) struct Watch {
    file: Option<PathBuf>,
    seen: Option<Mark>,
    certificates: Vec<Mark>,
}

impl Watch {
    pub(crate) fn new(file: Option<&Path>) -> Watch {
        let seen = file.and_then(Mark::of);
        Watch { file: file.map(Path::to_owned), seen, certificates: Vec::new() }
    }

    /// The certificates of `server` are about to be read.
    pub(crate) fn look_at_certificates(&mut self, server: &Server) {
        self.certificates = certificates(server);
    }

    /// Ends when something is another than when it was last looked at. A file that is gone has not changed yet: whoever
    /// replaces it may be about to. Which certificates are looked at, `server` says each time: another configuration may
    /// name others.
    pub(crate) async fn changed(&mut self, server: impl Fn() -> Server) -> Changed {
        loop {
            tokio::time::sleep(EVERY).await;
            let now = self.file.as_deref().and_then(Mark::of);
            if now.is_some() && now != self.seen {
                self.seen = now;
                return Changed::File;
            }
            let now = certificates(&server());
            if now.iter().any(|mark| !self.certificates.contains(mark)) {
                self.certificates = now;
                return Changed::Certificates;
            }
        }
    }
}

/// The certificates of `server` and their keys, those that are there: one that is gone has not changed yet.
fn certificates(server: &Server) -> Vec<Mark> {
    let files = server.tls.iter().chain(&server.admin_tls).flat_map(|tls| [&tls.cert, &tls.key]);
    files.filter_map(|file| Mark::of(file.as_path())).collect()
}
