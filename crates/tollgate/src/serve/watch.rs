//! Sees when the file has changed, also where a link was pointed elsewhere, as Kubernetes does it.
//!
//! It looks twice a second. That costs next to nothing, works on every file system, and needs no list of the ways in
//! which editors and orchestrators replace a file.

use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const EVERY: Duration = Duration::from_millis(500);

/// What a file is known by without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    target: Option<PathBuf>,
    modified: Option<SystemTime>,
    bytes: u64,
}

/// Watches one file, or none.
#[derive(Debug)]
pub(crate) struct Watch {
    path: Option<PathBuf>,
    seen: Option<Mark>,
}

impl Watch {
    pub(crate) fn new(path: Option<&Path>) -> Watch {
        let mut watch = Watch { path: path.map(Path::to_owned), seen: None };
        watch.seen = watch.mark();
        watch
    }

    fn mark(&self) -> Option<Mark> {
        let path = self.path.as_ref()?;
        let about = std::fs::metadata(path).ok()?;
        Some(Mark {
            target: std::fs::canonicalize(path).ok(),
            modified: about.modified().ok(),
            bytes: about.len(),
        })
    }

    /// Ends when the file is another than when it was last looked at. A file that is gone has not changed yet: whoever
    /// replaces it may be about to.
    pub(crate) async fn changed(&mut self) {
        if self.path.is_none() {
            pending::<()>().await;
        }
        loop {
            tokio::time::sleep(EVERY).await;
            let now = self.mark();
            if now.is_some() && now != self.seen {
                self.seen = now;
                return;
            }
        }
    }
}
