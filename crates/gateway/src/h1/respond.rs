//! A response, written as it comes.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue, TRAILER};
use http::response::Parts;
use http::{Response, StatusCode, Version};
use http_body::Body as _;
use hyper::ext::ReasonPhrase;

use super::chunked::{write_end, write_size};
use super::fields::{has_word, write_line};
use super::io::Io;
use super::spare_map;
use super::wire::Wire;
use crate::body::Body;
use crate::ticker::Watch;
use crate::worker::Worker;

/// What a response must know of its request.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) version: Version,
    pub(super) is_head: bool,
    /// Whether the connection is kept after it.
    pub(super) is_kept: bool,
    pub(super) takes_trailers: bool,
}

impl Exchange {
    /// After which the connection ends.
    pub(super) fn last(version: Version) -> Exchange {
        Exchange { version, is_head: false, is_kept: false, takes_trailers: false }
    }
}

/// How the caller knows where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// It has none.
    None,
    /// So many bytes are still to be written.
    Length(u64),
    Chunked,
    /// With the connection.
    Close,
}

/// Pieces up to this size are copied behind what is to be sent already: a second call costs more.
const COPIED: usize = 16 * 1024;

/// Writes a response to its end. Tells whether the connection can be kept.
pub(super) async fn respond(
    wire: &Wire,
    (worker, watch): (&Worker, &Watch),
    response: Response<Body>,
    exchange: &Exchange,
) -> io::Result<bool> {
    let (parts, body) = response.into_parts();
    let mut is_kept = exchange.is_kept;
    let framing = {
        wire.answering();
        let mut io = wire.io();
        if io.output.capacity() == 0 {
            io.output = worker.take_buffer();
        }
        let framing = write_head(&mut io.output, (&parts, &body), exchange, (&mut is_kept, worker));
        match body.text() {
            // It is at hand, and need not become a piece of its own.
            Some(text) if framing == Framing::Length(text.len() as u64) => {
                io.output.extend_from_slice(text);
                Framing::Length(0)
            }
            _ => framing,
        }
    };
    let takes_trailers = exchange.takes_trailers && framing == Framing::Chunked;
    let named = if takes_trailers { named_trailers(&parts.headers) } else { Vec::new() };
    spare_map::give_back(parts.headers);
    let is_over = framing == Framing::None || framing == Framing::Length(0);
    let mut writer =
        Writer { body, framing, named, large: Bytes::new(), is_over, deaf_since: None };
    let written = poll_fn(|cx| writer.poll(cx, wire, (worker, watch))).await;
    if written.is_ok() {
        let mut io = wire.io();
        worker.put_buffer(std::mem::take(&mut io.output));
    }
    written.map(|()| is_kept)
}

fn named_trailers(headers: &HeaderMap) -> Vec<HeaderValue> {
    headers.get_all(TRAILER).iter().cloned().collect()
}

/// The bytes of a response that is at hand, after which the connection ends.
pub(crate) fn last_words(worker: &Worker, response: Response<Body>) -> Vec<u8> {
    let (parts, mut body) = response.into_parts();
    let mut output = Vec::with_capacity(1024);
    let exchange = Exchange::last(Version::HTTP_11);
    write_head(&mut output, (&parts, &body), &exchange, (&mut false, worker));
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut cx) {
        output.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
    output
}

struct Writer {
    body: Body,
    framing: Framing,
    /// The trailers that the head names, in lists of any number of lines.
    named: Vec<HeaderValue>,
    /// A piece that is too large to be copied; it follows what is in the buffer.
    large: Bytes,
    is_over: bool,
    /// The caller does not take what we write; and what it had taken at the last look.
    deaf_since: Option<usize>,
}

impl Writer {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        wire: &Wire,
        (worker, watch): (&Worker, &Watch),
    ) -> Poll<io::Result<()>> {
        loop {
            // The body may be reading the request's at the same time, over the same connection.
            let mut output = std::mem::take(&mut wire.io().output);
            let gathered = self.gather(cx, &mut output);
            wire.io().output = output;
            let is_waiting = gathered?;
            let sent = self.poll_send(cx, &mut wire.io());
            match sent {
                Poll::Ready(sent) => sent?,
                Poll::Pending => {
                    ready!(self.poll_deaf(cx, wire, (worker, watch)));
                    worker.count(|counts| &counts.timeouts);
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
            if self.deaf_since.take().is_some() {
                watch.disarm();
            }
            if self.is_over {
                return Poll::Ready(Ok(()));
            }
            if is_waiting {
                ready!(wire.poll_hang_up(cx));
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
        }
    }

    /// Ready when the caller has taken nothing for too long.
    fn poll_deaf(
        &mut self,
        cx: &mut Context<'_>,
        wire: &Wire,
        (worker, watch): (&Worker, &Watch),
    ) -> Poll<()> {
        if let Some(taken) = &mut self.deaf_since {
            ready!(watch.poll(cx));
            // A piece may be large, and who takes it slowly takes it.
            if !wire.io().took_more(taken) {
                return Poll::Ready(());
            }
        } else {
            wire.io().took_more(self.deaf_since.insert(0));
        }
        watch.arm(worker.limits().idle_timeout);
        watch.poll(cx)
    }

    /// Adds what the body has to what is to be sent. `true` if it has no more for now.
    fn gather(&mut self, cx: &mut Context<'_>, output: &mut Vec<u8>) -> io::Result<bool> {
        while !self.is_over && self.large.is_empty() && output.len() < COPIED {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => return Ok(true),
                Poll::Ready(None) => self.end(output, None)?,
                Poll::Ready(Some(Err(error))) => return Err(io::Error::other(error)),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.data(output, data)?,
                    Err(frame) => {
                        let trailers = frame.into_trailers().ok();
                        self.end(output, trailers.as_ref())?;
                    }
                },
            }
        }
        Ok(false)
    }

    fn data(&mut self, output: &mut Vec<u8>, data: Bytes) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        match &mut self.framing {
            Framing::None => return Ok(()),
            Framing::Close => (),
            Framing::Length(left) => {
                // More than was announced would be read as the next response.
                *left = left.checked_sub(data.len() as u64).ok_or(io::ErrorKind::InvalidData)?;
                self.is_over = *left == 0;
            }
            Framing::Chunked => write_size(output, data.len()),
        }
        if data.len() > COPIED {
            self.large = data;
            return Ok(());
        }
        output.extend_from_slice(&data);
        if self.framing == Framing::Chunked {
            output.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    /// The body is over.
    fn end(&mut self, output: &mut Vec<u8>, trailers: Option<&HeaderMap>) -> io::Result<()> {
        self.is_over = true;
        match self.framing {
            Framing::Length(1..) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Framing::Chunked => {
                let is_named = |name: &HeaderName| {
                    let word = name.as_str().as_bytes();
                    self.named.iter().any(|list| has_word(list.as_bytes(), word))
                };
                write_end(
                    output,
                    trailers.into_iter().flatten().filter(|(name, _)| is_named(name)),
                );
            }
            _ => (),
        }
        Ok(())
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, io: &mut Io) -> Poll<io::Result<()>> {
        ready!(io.poll_send(cx))?;
        if !self.large.is_empty() {
            ready!(io.poll_send_bytes(cx, &mut self.large))?;
            if self.framing == Framing::Chunked {
                io.output.extend_from_slice(b"\r\n");
            }
        }
        io.poll_flush(cx)
    }
}

fn write_head(
    output: &mut Vec<u8>,
    (parts, body): (&Parts, &Body),
    exchange: &Exchange,
    (is_kept, worker): (&mut bool, &Worker),
) -> Framing {
    let is_1_1 = exchange.version == Version::HTTP_11;
    output.extend_from_slice(if is_1_1 { b"HTTP/1.1 " } else { b"HTTP/1.0 " });
    output.extend_from_slice(parts.status.as_str().as_bytes());
    output.push(b' ');
    let reason = match parts.extensions.get::<ReasonPhrase>() {
        Some(reason) => reason.as_bytes(),
        None => parts.status.canonical_reason().unwrap_or_default().as_bytes(),
    };
    output.extend_from_slice(reason);
    output.extend_from_slice(b"\r\n");
    let has_no_length = parts.status.is_informational() || parts.status == StatusCode::NO_CONTENT;
    let mut length = None;
    let mut has_date = false;
    for (name, value) in &parts.headers {
        match name.as_str().len() {
            4 if name == DATE => has_date = true,
            14 if name == CONTENT_LENGTH => {
                if has_no_length {
                    continue;
                }
                length = value.to_str().ok().and_then(|text| text.parse().ok());
            }
            _ => (),
        }
        write_line(output, name.as_str(), value.as_bytes());
    }
    output.extend_from_slice(body.lines().as_bytes());
    if !has_date {
        output.extend_from_slice(b"date: ");
        worker.write_date(output);
        output.extend_from_slice(b"\r\n");
    }
    let has_body = !has_no_length && parts.status != StatusCode::NOT_MODIFIED;
    let framing = match (length, body.size_hint().exact()) {
        (Some(length), _) => Framing::Length(length),
        (None, Some(exact)) if has_body && !(exchange.is_head && exact == 0) => {
            output.extend_from_slice(b"content-length: ");
            output.extend_from_slice(itoa::Buffer::new().format(exact).as_bytes());
            output.extend_from_slice(b"\r\n");
            Framing::Length(exact)
        }
        (None, Some(_)) => Framing::None,
        (None, None) if !has_body || exchange.is_head => Framing::None,
        (None, None) if is_1_1 => {
            output.extend_from_slice(b"transfer-encoding: chunked\r\n");
            Framing::Chunked
        }
        (None, None) => {
            *is_kept = false;
            Framing::Close
        }
    };
    if !*is_kept && parts.status != StatusCode::SWITCHING_PROTOCOLS {
        output.extend_from_slice(b"connection: close\r\n");
    } else if !is_1_1 {
        output.extend_from_slice(b"connection: keep-alive\r\n");
    }
    output.extend_from_slice(b"\r\n");
    if has_body && !exchange.is_head { framing } else { Framing::None }
}
