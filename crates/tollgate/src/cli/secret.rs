//! A text that must not be seen.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// The admin token. Neither `Debug` nor any message shows it.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    /// Without the line's end that files have.
    pub(crate) fn new(text: &str) -> Secret {
        Secret(text.trim().to_owned())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// To be sent, and nothing else.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Secret, Infallible> {
        Ok(Secret::new(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
