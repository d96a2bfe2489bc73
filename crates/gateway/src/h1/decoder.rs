//! Where a response's body ends.

use bytes::Bytes;
use http::HeaderMap;
use http_body::SizeHint;

use super::chunked::Chunked;

/// What is left of a response's body.
#[derive(Clone, Debug)]
pub(crate) enum Decoder {
    /// So many bytes.
    Length(u64),
    Chunked(Chunked),
    /// All until the upstream closes.
    UntilClose,
}

/// A piece of a body.
#[derive(Debug)]
pub(crate) enum Decoded {
    Data(Bytes),
    Trailers(HeaderMap),
    /// The next piece has not come yet.
    More,
    End,
}

/// Why a body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadBody {
    ChunkSize,
    ChunkEnd,
    Extensions,
    Trailers,
}

impl std::fmt::Display for BadBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BadBody::ChunkSize => "a chunk's size is no hexadecimal number of 64 bits",
            BadBody::ChunkEnd => "a chunk does not end where it should",
            BadBody::Extensions => "the extensions of chunks are too long",
            BadBody::Trailers => "the trailers are no headers, or too many",
        })
    }
}

impl std::error::Error for BadBody {}

impl Decoder {
    pub(crate) const NOTHING: Decoder = Decoder::Length(0);

    /// Takes the next piece out of `from`.
    pub(crate) fn decode(&mut self, from: &mut Bytes) -> Result<Decoded, BadBody> {
        match self {
            Decoder::Length(0) => Ok(Decoded::End),
            Decoder::Chunked(chunked) => chunked.decode(from),
            Decoder::Length(_) | Decoder::UntilClose if from.is_empty() => Ok(Decoded::More),
            Decoder::Length(left) => {
                let size = usize::try_from(*left).unwrap_or(usize::MAX).min(from.len());
                *left -= size as u64;
                Ok(Decoded::Data(from.split_to(size)))
            }
            Decoder::UntilClose => Ok(Decoded::Data(std::mem::take(from))),
        }
    }

    /// Whether the body ends within `bytes`, and how many of them are none of it.
    pub(crate) fn extra_in(&self, bytes: &Bytes) -> Result<Option<usize>, BadBody> {
        match self {
            Decoder::Length(left) => {
                Ok((bytes.len() as u64).checked_sub(*left).map(|extra| extra as usize))
            }
            Decoder::UntilClose => Ok(None),
            Decoder::Chunked(chunked) => {
                let (mut chunked, mut rest) = (chunked.clone(), bytes.clone());
                loop {
                    match chunked.decode(&mut rest)? {
                        Decoded::More => return Ok(None),
                        Decoded::End => return Ok(Some(rest.len())),
                        Decoded::Data(_) | Decoded::Trailers(_) => (),
                    }
                }
            }
        }
    }

    /// Whether nothing more comes, trailers included.
    pub(crate) fn is_end(&self) -> bool {
        match self {
            Decoder::Length(left) => *left == 0,
            Decoder::Chunked(chunked) => chunked.is_end(),
            Decoder::UntilClose => false,
        }
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            Decoder::Length(left) => SizeHint::with_exact(*left),
            Decoder::Chunked(_) | Decoder::UntilClose => SizeHint::default(),
        }
    }
}
