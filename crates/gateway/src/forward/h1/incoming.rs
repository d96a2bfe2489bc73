//! The body of a response, read by whoever wants the next piece of it.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::Busy;
use crate::forward::error::{ForwardCause, ForwardError};
use crate::h1::decoder::{Decoded, Decoder};
use crate::request_body::RequestBody;

/// What of a response has not been handed on yet. The request's body may still be on its way.
#[derive(Debug)]
pub(crate) struct Incoming {
    decoder: Decoder,
    /// Bytes that have come.
    rest: Bytes,
    /// The connection, as long as something comes over it.
    busy: Option<Busy>,
    upload: RequestBody,
}

impl Incoming {
    pub(crate) fn new(
        decoder: Decoder,
        rest: Bytes,
        (busy, upload): (Option<Busy>, RequestBody),
    ) -> Incoming {
        Incoming { decoder, rest, busy, upload }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.decoder.is_end()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.decoder.size_hint()
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ForwardError>>> {
        loop {
            let frame = match self.decoder.decode(&mut self.rest) {
                Ok(Decoded::More) => match ready!(self.poll_more(cx)) {
                    Ok(true) => continue,
                    Ok(false) => None,
                    Err(error) => Some(Err(error)),
                },
                Ok(Decoded::Data(data)) => Some(Ok(Frame::data(data))),
                Ok(Decoded::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
                Ok(Decoded::End) => None,
                Err(bad) => Some(Err(ForwardError::sent(ForwardCause::BadResponse).with(bad))),
            };
            match &frame {
                Some(Ok(_)) if !self.decoder.is_end() => (),
                Some(Ok(_)) | None => self.release(),
                Some(Err(_)) => self.fail(),
            }
            return Poll::Ready(frame);
        }
    }

    /// Gets more bytes; `false` where the body ends with the connection.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, ForwardError>> {
        let closed = || ForwardError::sent(ForwardCause::Closed);
        let Some(busy) = &mut self.busy else { return Poll::Ready(Err(closed())) };
        if let Poll::Ready(Err(error)) = busy.poll_send(&mut self.upload, cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(match ready!(busy.poll_some(cx)) {
            Ok(bytes) if !bytes.is_empty() => {
                self.rest = bytes;
                Ok(true)
            }
            Ok(_) if matches!(self.decoder, Decoder::UntilClose) => Ok(false),
            Ok(_) => Err(closed()),
            Err(error) => Err(closed().with(error)),
        })
    }

    /// The response is complete.
    fn release(&mut self) {
        self.decoder = Decoder::NOTHING;
        if let Some(busy) = self.busy.take() {
            busy.release(self.rest.is_empty());
        }
    }

    /// Nothing more can be read.
    fn fail(&mut self) {
        self.decoder = Decoder::NOTHING;
        self.busy = None;
    }
}
