//! One process at a time: a file that is locked as long as the process lives, and says which one that is.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::open::unwritable;
use crate::OpenError;

/// Held, nobody else can open the folder. The system frees it when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct FolderLock {
    file: File,
}

impl FolderLock {
    pub(super) fn take(folder: &Path) -> Result<FolderLock, OpenError> {
        let path = folder.join("tollgate.lock");
        let fault = |why: std::io::Error| unwritable(&path, why);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        // Whoever can open it can hold it.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(fault)?;
        match file.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let pid =
                    file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(OpenError::InUse { folder: folder.to_owned(), pid });
            }
            Err(TryLockError::Error(why)) => return Err(fault(why)),
        }
        // Only people want to know who has it: on a disk that is full it is locked all the same.
        let pid = format!("{}\n", std::process::id());
        let _ = file.set_len(0).and_then(|()| file.rewind());
        let _ = file.write_all(pid.as_bytes());
        Ok(FolderLock { file })
    }
}

impl Drop for FolderLock {
    /// A process that is just being started may have the file open for a moment longer than we do.
    fn drop(&mut self) {
        drop(self.file.unlock());
    }
}
