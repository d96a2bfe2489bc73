//! Chunks: what a body without a length is sent in (RFC 9112, 7.1).

use bytes::Bytes;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

/// Reads chunks, a byte at a time but for their data, so that it does not matter how they are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunks {
    /// In a size, with the digits so far.
    Size {
        size: u64,
        digits: u8,
    },
    /// After a size: an extension, which nobody reads.
    Extension {
        size: u64,
        length: u16,
    },
    /// After a size and CR.
    SizeEnd {
        size: u64,
    },
    Data {
        left: u64,
    },
    /// After the data.
    DataEnd,
    /// After the data and CR.
    DataEndLine,
    /// After the last chunk: trailers, then an empty line.
    Trailers,
}

/// Longest extension of a chunk, and longest trailers of a body.
const MOST_EXTENSION: u16 = 1024;
const MOST_TRAILERS: usize = 16 * 1024;
const MOST_TRAILER_FIELDS: usize = 64;

/// What reading came to.
pub(super) enum Read {
    Data(Bytes),
    /// More bytes are needed.
    More,
    /// The body is over.
    End(Option<HeaderMap>),
}

/// A body that is no proper sequence of chunks.
#[derive(Debug)]
pub(crate) struct BadChunks;

impl std::fmt::Display for BadChunks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the body is no proper sequence of chunks")
    }
}

impl std::error::Error for BadChunks {}

impl Chunks {
    pub(super) const START: Chunks = Chunks::Size { size: 0, digits: 0 };

    /// Reads from the front of `input`.
    pub(super) fn read(&mut self, input: &mut Bytes) -> Result<Read, BadChunks> {
        loop {
            if let Chunks::Trailers = self {
                return trailers(input);
            }
            if let Chunks::Data { left } = self {
                if input.is_empty() {
                    return Ok(Read::More);
                }
                let some = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= some as u64;
                if *left == 0 {
                    *self = Chunks::DataEnd;
                }
                return Ok(Read::Data(input.split_to(some)));
            }
            let Some(byte) = input.first().copied() else { return Ok(Read::More) };
            *self = self.after(byte)?;
            let _ = input.split_to(1);
        }
    }

    /// Where one more byte of what is not data leads.
    fn after(self, byte: u8) -> Result<Chunks, BadChunks> {
        Ok(match (self, byte) {
            (Chunks::Size { size, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = (byte as char).to_digit(16).ok_or(BadChunks)?;
                // Sixteen digits fill the number; more could only be zeroes in front.
                let size = size.checked_mul(16).ok_or(BadChunks)? + u64::from(digit);
                Chunks::Size { size, digits: digits.checked_add(1).ok_or(BadChunks)? }
            }
            (Chunks::Size { digits: 0, .. }, _) => return Err(BadChunks),
            (Chunks::Size { size, .. }, b'\r') => Chunks::SizeEnd { size },
            (Chunks::Size { size, .. }, b';' | b' ' | b'\t') => {
                Chunks::Extension { size, length: 0 }
            }
            (Chunks::Extension { size, .. }, b'\r') => Chunks::SizeEnd { size },
            (Chunks::Extension { size, length }, byte) if byte != b'\n' && byte != 0 => {
                if length == MOST_EXTENSION {
                    return Err(BadChunks);
                }
                Chunks::Extension { size, length: length + 1 }
            }
            (Chunks::SizeEnd { size: 0 }, b'\n') => Chunks::Trailers,
            (Chunks::SizeEnd { size }, b'\n') => Chunks::Data { left: size },
            (Chunks::DataEnd, b'\r') => Chunks::DataEndLine,
            (Chunks::DataEndLine, b'\n') => Chunks::START,
            _ => return Err(BadChunks),
        })
    }
}

/// Reads the trailers and the empty line after them.
fn trailers(input: &mut Bytes) -> Result<Read, BadChunks> {
    if input.starts_with(b"\r\n") {
        let _ = input.split_to(2);
        return Ok(Read::End(None));
    }
    let mut fields = [httparse::EMPTY_HEADER; MOST_TRAILER_FIELDS];
    let bytes = input.clone();
    match httparse::parse_headers(&bytes, &mut fields) {
        Ok(httparse::Status::Complete((length, fields))) if length <= MOST_TRAILERS => {
            let mut map = HeaderMap::with_capacity(fields.len());
            for field in fields {
                let name = HeaderName::from_bytes(field.name.as_bytes());
                let value = HeaderValue::from_maybe_shared(bytes.slice_ref(field.value));
                map.append(name.map_err(|_| BadChunks)?, value.map_err(|_| BadChunks)?);
            }
            let _ = input.split_to(length);
            Ok(Read::End(Some(map)))
        }
        Ok(httparse::Status::Partial) if bytes.len() <= MOST_TRAILERS => Ok(Read::More),
        _ => Err(BadChunks),
    }
}
