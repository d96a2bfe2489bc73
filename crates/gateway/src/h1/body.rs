//! Where a request's body ends.

use bytes::Bytes;
use http_body::Frame;

use super::chunked::{BadChunks, Chunks, Read};

/// What of a request's body is still to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoder {
    Done,
    /// So many bytes; never 0.
    Length(u64),
    Chunked(Chunks),
    /// It ended where it should not have, or is none.
    Broken,
}

/// What reading came to.
pub(super) enum Step {
    Frame(Frame<Bytes>),
    /// More bytes are needed.
    More,
    End,
}

impl Decoder {
    /// Bytes that are still to come, if that is known.
    pub(super) fn left(self) -> Option<u64> {
        match self {
            Decoder::Done => Some(0),
            Decoder::Length(left) => Some(left),
            Decoder::Chunked(_) | Decoder::Broken => None,
        }
    }

    /// Takes the next piece from the front of `input`.
    pub(super) fn decode(&mut self, input: &mut Bytes) -> Result<Step, BadChunks> {
        match self {
            Decoder::Done => Ok(Step::End),
            Decoder::Broken => Err(BadChunks),
            Decoder::Length(_) if input.is_empty() => Ok(Step::More),
            Decoder::Length(left) => {
                let some = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= some as u64;
                if *left == 0 {
                    *self = Decoder::Done;
                }
                Ok(Step::Frame(Frame::data(input.split_to(some))))
            }
            Decoder::Chunked(chunks) => match chunks.read(input) {
                Ok(Read::Data(bytes)) => Ok(Step::Frame(Frame::data(bytes))),
                Ok(Read::More) => Ok(Step::More),
                Ok(Read::End(trailers)) => {
                    *self = Decoder::Done;
                    Ok(trailers.map_or(Step::End, |map| Step::Frame(Frame::trailers(map))))
                }
                Err(bad) => {
                    *self = Decoder::Broken;
                    Err(bad)
                }
            },
        }
    }
}
