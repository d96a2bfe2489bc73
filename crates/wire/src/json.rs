//! Just enough JSON for the body of a refusal, written straight into the response's page.
//!
//! A service under attack writes mostly refusals, so their bodies cost one buffer and no tree. Bodies that are
//! rare, or that carry anything, are written by `serde_json`.

use crate::page::Page;

/// Writes `text` as a part of a JSON string.
pub(crate) fn escaped(page: &mut Page, text: &str) {
    let bytes = page.bytes_mut();
    if is_plain(text) {
        return bytes.extend_from_slice(text.as_bytes());
    }
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| must_escape(*byte)) {
        let (plain, from) = rest.split_at(at);
        bytes.extend_from_slice(plain);
        match from[0] {
            b'"' => bytes.extend_from_slice(b"\\\""),
            b'\\' => bytes.extend_from_slice(b"\\\\"),
            control => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                bytes.extend_from_slice(b"\\u00");
                bytes.push(HEX[usize::from(control >> 4)]);
                bytes.push(HEX[usize::from(control & 15)]);
            }
        }
        rest = &from[1..];
    }
    bytes.extend_from_slice(rest);
}

/// Whether a text is its own JSON. All bytes are looked at, sixteen at a time, because most texts are.
#[inline]
pub(crate) fn is_plain(text: &str) -> bool {
    text.bytes().fold(true, |plain, byte| plain & !must_escape(byte))
}

fn must_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}
