//! What is kept of a key.

use std::fmt;

use schemars::JsonSchema;

use super::{Right, Text, text_value};

/// The SHA-256 of a whole key, as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(extend("format" = Self::FORMAT, "pattern" = Self::PATTERN))]
pub struct Sha256(#[schemars(with = "String")] [u8; 32]);

impl Sha256 {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Sha256 {
        Sha256(<sha2::Sha256 as sha2::Digest>::digest(bytes).into())
    }

    /// The digest of these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Sha256 {
        Sha256(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Text for Sha256 {
    const FORMAT: &'static str = "sha256";
    const PATTERN: &'static str = "^[0-9A-Fa-f]{64}$";

    fn read(text: &str) -> Result<Sha256, Right> {
        if text.starts_with("tg_") {
            return Err("a key itself never stands in a file: write the hex of its SHA-256".into());
        }
        let wrong = || Right::from("write the 64 hexadecimal digits of the key's SHA-256");
        let mut bytes = [0; 32];
        if text.len() != 64 {
            return Err(wrong());
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digit = |at: usize| (pair[at] as char).to_digit(16);
            let (Some(high), Some(low)) = (digit(0), digit(1)) else { return Err(wrong()) };
            *byte = (high * 16 + low) as u8;
        }
        Ok(Sha256(bytes))
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256({self})")
    }
}

text_value!(Sha256);
