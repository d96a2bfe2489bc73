//! API keys as callers hold them: `tg_live_`, 24 random characters, 6 characters of checksum.
//!
//! The checksum is the CRC32 of everything before it, in base 62. It is no secret: it tells a mistyped or truncated
//! key from an unknown one before anything is looked up, and lets scanners of leaked secrets be sure of a find.
//! Nothing here allocates, so that a flood of bad keys costs as little as it can.

use std::fmt;

use crate::Sha256;

const PREFIX: &str = "tg_live_";
const RANDOM: usize = 24;
const CHECKSUM: usize = 6;
const CHECKED: usize = PREFIX.len() + RANDOM;
const LENGTH: usize = CHECKED + CHECKSUM;
/// Of the random characters, how many people may see.
const SHOWN: usize = 4;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// An API key, whose checksum is right. It is a secret: `Debug` shows only the display prefix.
///
/// ```
/// use tollgate_policy::ApiKey;
///
/// let key = ApiKey::mint(|bytes: &mut [u8]| {
///     bytes.fill(7); // A real one is random.
///     Ok::<(), std::convert::Infallible>(())
/// })?;
/// assert_eq!(key.as_str(), "tg_live_7777777777777777777777772h5Igl");
/// assert!(ApiKey::read(key.as_str().as_bytes()).is_some());
/// assert!(ApiKey::read(b"tg_live_7777777777777777777777772h5Igm").is_none());
/// assert_eq!(key.display_prefix(), "tg_live_7777");
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey([u8; LENGTH]);

impl ApiKey {
    /// What every key begins with.
    pub const PREFIX: &'static str = PREFIX;

    /// A new key of what `fill` fills bytes with, which must be random.
    ///
    /// # Errors
    ///
    /// What `fill` fails with.
    pub fn mint<E>(mut fill: impl FnMut(&mut [u8]) -> Result<(), E>) -> Result<ApiKey, E> {
        let mut key = [0; LENGTH];
        key[..PREFIX.len()].copy_from_slice(PREFIX.as_bytes());
        fill_base62(&mut key[PREFIX.len()..CHECKED], &mut fill)?;
        let digits = checksum(&key[..CHECKED]);
        key[CHECKED..].copy_from_slice(&digits);
        Ok(ApiKey(key))
    }

    /// The key that a caller sent, if it has a key's form and its checksum is right.
    pub fn read(sent: &[u8]) -> Option<ApiKey> {
        let key: [u8; LENGTH] = sent.try_into().ok()?;
        let is_whole = key.starts_with(PREFIX.as_bytes())
            // All of them, sixteen at a time: most keys are whole.
            && key[PREFIX.len()..].iter().fold(true, |all, byte| all & byte.is_ascii_alphanumeric())
            && key[CHECKED..] == checksum(&key[..CHECKED]);
        is_whole.then_some(ApiKey(key))
    }

    /// The whole key, for the one answer that shows it.
    pub fn as_str(&self) -> &str {
        text(&self.0)
    }

    /// What is kept of it, and what it is looked up by.
    pub fn sha256(&self) -> Sha256 {
        Sha256::of(&self.0)
    }

    /// Its beginning, by which people tell keys apart.
    pub fn display_prefix(&self) -> &str {
        text(&self.0[..PREFIX.len() + SHOWN])
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({}…)", self.display_prefix())
    }
}

/// Fills `digits` with random characters of base 62 out of what `fill` fills bytes with. All are equally likely: of the 64
/// values of six bits the last two are drawn again.
///
/// # Errors
///
/// What `fill` fails with.
pub fn fill_base62<E>(
    digits: &mut [u8],
    mut fill: impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut entropy = [0u8; 32];
    let mut filled = 0;
    while filled < digits.len() {
        fill(&mut entropy)?;
        let drawn = entropy.iter().filter_map(|byte| ALPHABET.get(usize::from(byte & 0x3f)));
        for (digit, drawn) in digits[filled..].iter_mut().zip(drawn) {
            *digit = *drawn;
            filled += 1;
        }
    }
    Ok(())
}

/// The CRC32 of `checked` in base 62: most significant digit first, padded with 0.
fn checksum(checked: &[u8]) -> [u8; CHECKSUM] {
    let mut left = crc32fast::hash(checked);
    let mut digits = [ALPHABET[0]; CHECKSUM];
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[(left % 62) as usize];
        left /= 62;
    }
    digits
}

fn text(ascii: &[u8]) -> &str {
    std::str::from_utf8(ascii).expect("prefix and alphabet are ASCII")
}
