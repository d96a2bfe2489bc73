//! The admin token: the one credential of the control plane.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq;
use tollgate_policy::{Sha256, fill_base62};

/// Of a token that is made here: some 250 bits.
const RANDOM: usize = 42;
const PREFIX: &str = "tg_admin_";

/// The admin token. `Debug` does not show it.
///
/// Only its digest is kept, and digests are compared in constant time: neither the token's characters nor its length
/// can be learned from how long an answer takes.
#[derive(Clone)]
pub struct AdminToken(Sha256);

/// Why there is no token. Every message says what would be right.
#[derive(Debug)]
#[non_exhaustive]
pub enum TokenError {
    /// The one that was given can be guessed, or no header can carry it.
    Weak,
    /// The file with it cannot be used.
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// The system gave no random bytes.
    Random(getrandom::Error),
}

impl AdminToken {
    /// Where a program finds a token before it looks into the data folder.
    pub const VARIABLE: &'static str = "TOLLGATE_ADMIN_TOKEN";
    /// The name of the token's file in the data folder.
    pub const FILE: &'static str = "admin-token";
    /// The fewest characters of a token.
    pub const SHORTEST: usize = 16;

    /// The token that an operator chose.
    ///
    /// # Errors
    ///
    /// If it is shorter than [`AdminToken::SHORTEST`], or has spaces or characters that are not ASCII.
    pub fn new(text: &str) -> Result<AdminToken, TokenError> {
        if text.len() < AdminToken::SHORTEST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Weak);
        }
        Ok(AdminToken(Sha256::of(text.as_bytes())))
    }

    /// The token of a program that starts: `given` (what [`AdminToken::VARIABLE`] says), else the one in the data
    /// folder, which is made at the first start for its owner's eyes only.
    ///
    /// ```
    /// use tollgate_admin::AdminToken;
    ///
    /// let folder = tempfile::tempdir()?;
    /// AdminToken::find(None, folder.path()).unwrap();
    /// let text = std::fs::read_to_string(folder.path().join(AdminToken::FILE))?;
    /// assert!(text.starts_with("tg_admin_"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the token is weak, or its file cannot be read or made.
    pub fn find(given: Option<&str>, folder: &Path) -> Result<AdminToken, TokenError> {
        if let Some(text) = given.filter(|text| !text.is_empty()) {
            return AdminToken::new(text);
        }
        let file = folder.join(AdminToken::FILE);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                let token = mint().map_err(TokenError::Random)?;
                write_private(&file, &token).map_err(|why| TokenError::File { file, why })?;
                token
            }
            Err(why) => return Err(TokenError::File { file, why }),
        };
        AdminToken::new(text.trim())
    }

    /// Whether `sent` is it.
    pub(crate) fn is(&self, sent: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(Sha256::of(sent).as_bytes()).into()
    }
}

fn mint() -> Result<String, getrandom::Error> {
    let mut digits = [0; RANDOM];
    fill_base62(&mut digits, getrandom::fill)?;
    Ok(PREFIX.chars().chain(digits.map(char::from)).collect())
}

/// Written beside its place and then moved there, so that nobody ever finds half a token.
fn write_private(file: &Path, token: &str) -> io::Result<()> {
    let fresh = file.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut written = options.open(&fresh)?;
    writeln!(written, "{token}")?;
    written.sync_all()?;
    fs::rename(&fresh, file)
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenError::Weak => write!(
                f,
                "the admin token is too weak: use {} ASCII characters or more, without spaces",
                AdminToken::SHORTEST
            ),
            TokenError::File { file, why } => {
                write!(f, "the admin token in {} cannot be used: {why}", file.display())
            }
            TokenError::Random(why) => {
                write!(f, "no admin token can be made without random bytes from the system: {why}")
            }
        }
    }
}

impl std::error::Error for TokenError {}
