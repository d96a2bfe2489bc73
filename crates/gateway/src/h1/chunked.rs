//! Bodies in chunks (RFC 9112, 7.1), read strictly.
//!
//! What two readers could understand in two ways is refused: signs, sizes beyond 64 bits, lines that end without CR,
//! control characters in extensions. Extensions are skipped and trailers kept, both within bounds.

use bytes::{Buf, Bytes};
use http::{HeaderName, HeaderValue};

use super::decoder::{BadBody, Decoded};
use super::fields::{trailers, write_line};

/// Blanks behind a size: as many as it may have digits.
const MOST_BLANKS: u8 = 16;

/// Of all extensions of a body together, and of its trailers.
const MOST_EXTENSIONS: usize = 16 * 1024;
const MOST_TRAILERS: usize = 16 * 1024;

/// Where in a chunked body we are.
#[derive(Clone, Debug)]
pub(crate) struct Chunked {
    at: At,
    /// Bytes of extensions so far.
    extensions: usize,
    /// The trailers as far as they have come.
    trailers: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum At {
    /// In a size, with so many digits so far.
    Size {
        size: u64,
        digits: u8,
    },
    /// After a size: blanks, which some servers pad it with.
    Padding {
        size: u64,
        blanks: u8,
    },
    Extension(u64),
    SizeLf(u64),
    Data(u64),
    DataCr,
    DataLf,
    Trailers,
    End,
}

const START: At = At::Size { size: 0, digits: 0 };

impl Chunked {
    pub(crate) fn new() -> Chunked {
        Chunked { at: START, extensions: 0, trailers: Vec::new() }
    }

    pub(crate) fn is_end(&self) -> bool {
        matches!(self.at, At::End)
    }

    /// Takes the next piece out of `from`.
    pub(crate) fn decode(&mut self, from: &mut Bytes) -> Result<Decoded, BadBody> {
        loop {
            match self.at {
                At::Data(left) => {
                    let size = usize::try_from(left).unwrap_or(usize::MAX).min(from.len());
                    if size == 0 {
                        return Ok(Decoded::More);
                    }
                    let left = left - size as u64;
                    self.at = if left == 0 { At::DataCr } else { At::Data(left) };
                    return Ok(Decoded::Data(from.split_to(size)));
                }
                At::Trailers => return self.decode_trailers(from),
                At::End => return Ok(Decoded::End),
                _ => {
                    let Some(&byte) = from.first() else { return Ok(Decoded::More) };
                    from.advance(1);
                    self.at = self.after(byte)?;
                }
            }
        }
    }

    /// One byte of what stands between the data.
    fn after(&mut self, byte: u8) -> Result<At, BadBody> {
        Ok(match (self.at, byte) {
            (At::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                // Sixteen digits are 64 bits; leading zeros count as well.
                if digits == 16 {
                    return Err(BadBody::ChunkSize);
                }
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                At::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }
            }
            (At::Size { digits: 0, .. }, _) => return Err(BadBody::ChunkSize),
            (At::Size { size, .. } | At::Padding { size, .. }, b';') => At::Extension(size),
            (At::Size { size, .. } | At::Padding { size, .. }, b'\r') => At::SizeLf(size),
            (At::Size { size, .. }, b' ' | b'\t') => At::Padding { size, blanks: 1 },
            (At::Padding { size, blanks }, b' ' | b'\t') if blanks < MOST_BLANKS => {
                At::Padding { size, blanks: blanks + 1 }
            }
            (At::Padding { .. }, b' ' | b'\t') => return Err(BadBody::Extensions),
            (At::Size { .. } | At::Padding { .. }, _) => return Err(BadBody::ChunkSize),
            (At::Extension(size), b'\r') => At::SizeLf(size),
            (At::Extension(size), b'\t' | b' '..=b'~' | 0x80..) => {
                self.count_extension()?;
                At::Extension(size)
            }
            (At::SizeLf(0), b'\n') => At::Trailers,
            (At::SizeLf(size), b'\n') => At::Data(size),
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => START,
            _ => return Err(BadBody::ChunkEnd),
        })
    }

    fn count_extension(&mut self) -> Result<(), BadBody> {
        self.extensions += 1;
        if self.extensions > MOST_EXTENSIONS { Err(BadBody::Extensions) } else { Ok(()) }
    }

    fn decode_trailers(&mut self, from: &mut Bytes) -> Result<Decoded, BadBody> {
        while let Some(&byte) = from.first() {
            from.advance(1);
            self.trailers.push(byte);
            if self.trailers.len() > MOST_TRAILERS {
                return Err(BadBody::Trailers);
            }
            if byte != b'\n' {
                continue;
            }
            // An empty line that ends so would be the end to others, and what comes next the next request.
            if !self.trailers.ends_with(b"\r\n") {
                return Err(BadBody::Trailers);
            }
            if self.trailers == b"\r\n" {
                self.at = At::End;
                self.trailers = Vec::new();
                return Ok(Decoded::End);
            }
            if self.trailers.ends_with(b"\n\r\n") {
                self.at = At::End;
                let lines = Bytes::from(std::mem::take(&mut self.trailers));
                return Ok(match trailers(&lines)? {
                    trailers if trailers.is_empty() => Decoded::End,
                    trailers => Decoded::Trailers(trailers),
                });
            }
        }
        Ok(Decoded::More)
    }
}

/// Writes the line before a chunk's data.
pub(crate) fn write_size(out: &mut Vec<u8>, size: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = (usize::BITS - size.leading_zeros()).div_ceil(4).max(1);
    for at in (0..digits).rev() {
        out.push(DIGITS[(size >> (at * 4)) & 15]);
    }
    out.extend_from_slice(b"\r\n");
}

/// What stands after a chunk's data, and after the last chunk's.
pub(crate) const AFTER_DATA: &[u8] = b"\r\n";
pub(crate) const AFTER_LAST_DATA: &[u8] = b"\r\n0\r\n\r\n";

/// Ends a body, with trailers perhaps.
pub(crate) fn write_end<'t>(
    out: &mut Vec<u8>,
    trailers: impl IntoIterator<Item = (&'t HeaderName, &'t HeaderValue)>,
) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers {
        write_line(out, name.as_str(), value.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What became of a body, in pieces of `size`, and how much of it was left.
    fn decoded(body: &'static [u8], size: usize) -> (Result<(), BadBody>, usize) {
        let (mut chunked, mut left) = (Chunked::new(), body.len());
        for piece in body.chunks(size) {
            let mut piece = Bytes::from_static(piece);
            loop {
                let had = piece.len();
                let decoded = chunked.decode(&mut piece);
                left -= had - piece.len();
                match decoded {
                    Ok(Decoded::End) => return (Ok(()), left),
                    Ok(Decoded::More) => break,
                    Ok(Decoded::Data(_) | Decoded::Trailers(_)) => (),
                    Err(bad) => return (Err(bad), left),
                }
            }
        }
        (Ok(()), left)
    }

    /// The next request was read as trailers, up to its end.
    #[test]
    fn trailers_whose_lines_end_without_cr_are_refused_at_once() {
        for size in [1, 3, 1000] {
            for (body, next) in [
                (&b"0\r\nx: y\n\nGET / HTTP/1.1\r\n\r\n"[..], &b"\nGET / HTTP/1.1\r\n\r\n"[..]),
                (b"0\r\nx: y\r\n\nGET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"),
                (b"0\r\n\nGET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"),
                (b"0\r\nx: y\n\r\n", b"\r\n"),
            ] {
                assert_eq!(decoded(body, size), (Err(BadBody::Trailers), next.len()), "{body:?}");
            }
            let right = b"1\r\na\r\n0\r\nx: y\r\nz: 1\r\n\r\nGET /";
            assert_eq!(decoded(right, size), (Ok(()), 5));
        }
    }
}
