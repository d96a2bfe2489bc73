//! The head of a request, from bytes.
//!
//! Two programs that read the same bytes must not see two different requests, so whatever is doubtful is refused:
//! `httparse` refuses control characters, folded headers and spaces before a colon; here it is lengths and codings.

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING,
    UPGRADE,
};
use http::{Method, Request, Uri, Version};

use super::chunked::Chunked;
use super::decoder::Decoder;
use super::fields::{field_name, has_word, may_end, number};
use super::spare_map::MOST_ROOM;
use crate::fault::Fault;
use crate::received::Received;
use crate::request_body::RequestBody;
use crate::settings::Limits;

/// A request's head, and what it means for the connection, which has one and reads each head into it.
#[derive(Debug)]
pub(super) struct Head {
    /// Its body is put in by whoever reads that.
    pub(super) request: Received,
    /// The bytes of it, where no body comes after them and they are few: the next head may be the same.
    bytes: Bytes,
    /// How often the settings had been changed by which it was found to be right.
    changes: u32,
    pub(super) body: Decoder,
    /// The caller wants to go on with this connection.
    pub(super) is_kept: bool,
    /// It waits for `100 Continue`.
    pub(super) expects: bool,
    pub(super) takes_trailers: bool,
    pub(super) wants_switch: bool,
    /// It says what is asked for, whatever is wrong with the rest.
    pub(super) is_addressed: bool,
}

pub(super) enum Parsed {
    /// It is so long.
    Whole(usize),
    /// It goes on.
    Partial,
    Bad(Fault),
}

/// Header fields that are parsed without an allocation.
const USUAL_FIELDS: usize = 100;

/// Whether it is worth parsing: always what comes first, and then only what may have an end. Parsing a head again for each
/// byte of it would make a slow caller expensive.
pub(super) fn may_be_whole(input: &[u8], seen: usize) -> bool {
    if seen == 0 || input.len() == seen {
        return !input.is_empty() && input.len() != seen;
    }
    may_end(&input[seen.saturating_sub(2)..])
}

impl Head {
    /// None has come yet.
    pub(super) fn none() -> Box<Head> {
        Box::new(Head {
            request: Received::new(Request::new(RequestBody::empty())),
            bytes: Bytes::new(),
            changes: 0,
            body: Decoder::NOTHING,
            is_kept: false,
            expects: false,
            takes_trailers: false,
            wants_switch: false,
            is_addressed: false,
        })
    }

    /// Reads the head at the front of `input`, which is a part of so much memory, by settings that have been changed so often.
    /// One that is the same as the last need not be parsed, unless somebody has changed what was made of it.
    pub(super) fn read(
        &mut self,
        (input, held): (&Bytes, usize),
        (limits, changes): (&Limits, u32),
    ) -> Parsed {
        let is_same =
            !self.bytes.is_empty() && self.changes == changes && input.starts_with(&self.bytes);
        if is_same && self.request.is_as_it_came() {
            return Parsed::Whole(self.bytes.len());
        }
        let was_noted = is_same && self.request.is_noted();
        let parsed = parse(input, limits, self);
        if let Parsed::Whole(length) = parsed {
            let has_nothing_behind = self.body.is_end() && !self.expects && !self.wants_switch;
            let may_come_again = has_nothing_behind && held <= MOST_KEPT;
            self.bytes = if may_come_again { input.slice(..length) } else { Bytes::new() };
            self.changes = changes;
            if may_come_again {
                self.request.keep();
                self.request.is_again(was_noted);
            }
        }
        parsed
    }

    /// The request is over. What it has of others is let go; of a head that may come again what was made of it stays.
    pub(super) fn leave(&mut self) {
        if self.bytes.is_empty() || !self.request.is_as_it_came() {
            let was_noted = self.request.is_noted();
            empty(self.request.renew());
            if !self.bytes.is_empty() {
                self.request.is_again(was_noted);
                self.request.is_to_be_parsed();
            }
        }
    }
}

/// Makes room for another head.
fn empty(request: &mut Request<RequestBody>) {
    *request.body_mut() = RequestBody::empty();
    *request.uri_mut() = Uri::default();
    request.extensions_mut().clear();
    if request.headers().capacity() <= MOST_ROOM {
        request.headers_mut().clear();
    } else {
        *request.headers_mut() = HeaderMap::new();
    }
}

/// Parses the head at the front of `input`.
fn parse(input: &Bytes, limits: &Limits, head: &mut Head) -> Parsed {
    let most = if limits.headers > 0 { limits.headers } else { 65_536 };
    if most <= USUAL_FIELDS {
        let mut fields = [const { std::mem::MaybeUninit::uninit() }; USUAL_FIELDS];
        parse_into(input, limits, &mut fields[..most], head)
    } else {
        let mut fields = vec![std::mem::MaybeUninit::uninit(); most.min(input.len())];
        parse_into(input, limits, &mut fields, head)
    }
}

fn parse_into<'b>(
    bytes: &'b Bytes,
    limits: &Limits,
    fields: &mut [std::mem::MaybeUninit<httparse::Header<'b>>],
    head: &mut Head,
) -> Parsed {
    let mut request = httparse::Request::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_request_with_uninit_headers(
        &mut request,
        bytes,
        fields,
    );
    let fault = match parsed {
        Ok(httparse::Status::Complete(length)) if length <= limits.largest_head() => {
            return match head.fill(bytes, &request) {
                Ok(()) => Parsed::Whole(length),
                Err(fault) => Parsed::Bad(fault),
            };
        }
        Ok(httparse::Status::Partial) if bytes.len() <= limits.largest_head() => {
            return Parsed::Partial;
        }
        Ok(_) => Fault::LargeHead,
        Err(httparse::Error::TooManyHeaders) => Fault::ManyHeaders,
        Err(_) => Fault::Malformed,
    };
    // As far as it goes, for whoever keeps account of what was asked.
    if let (Fault::LargeHead, Some(method), None) = (fault, request.method, request.path) {
        request.path = Some(beginning_of_target(bytes, method));
    }
    let _ = head.address(bytes, &request);
    Parsed::Bad(fault)
}

/// What is told of a target that is too long to have come as a whole.
const MOST_TOLD: usize = 1024;

/// The beginning of the target that stands behind the method.
fn beginning_of_target<'b>(bytes: &'b [u8], method: &str) -> &'b str {
    let blank_lines = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let target = bytes.get(blank_lines + method.len() + 1..).unwrap_or_default();
    let told = target.iter().take(MOST_TOLD).take_while(|byte| byte.is_ascii_graphic()).count();
    str::from_utf8(&target[..told]).unwrap_or_default()
}

impl Head {
    /// The first line, in the place of the last request.
    fn address(&mut self, bytes: &Bytes, parsed: &httparse::Request<'_, '_>) -> Result<(), Fault> {
        let method = parsed.method.unwrap_or_default().as_bytes();
        let target = bytes.slice_ref(parsed.path.unwrap_or_default().as_bytes());
        self.is_addressed = false;
        let request = self.request.renew();
        empty(request);
        *request.method_mut() = Method::from_bytes(method).map_err(|_| Fault::Malformed)?;
        *request.uri_mut() = Uri::from_maybe_shared(target).map_err(|_| Fault::Target)?;
        self.is_addressed = true;
        Ok(())
    }

    fn fill(&mut self, bytes: &Bytes, parsed: &httparse::Request<'_, '_>) -> Result<(), Fault> {
        self.address(bytes, parsed)?;
        let request = self.request.renew();
        let is_1_1 = parsed.version == Some(1);
        *request.version_mut() = if is_1_1 { Version::HTTP_11 } else { Version::HTTP_10 };
        let mut meaning = Meaning { is_1_1, is_kept: is_1_1, ..Meaning::default() };
        if parsed.headers.len() > MOST {
            return Err(Fault::ManyHeaders);
        }
        let headers = request.headers_mut();
        headers.try_reserve(parsed.headers.len() + ROOM).map_err(|_| Fault::ManyHeaders)?;
        let read = parsed.headers.iter().try_for_each(|field| {
            let name = field_name(field.name).ok_or(Fault::Malformed)?;
            let value = HeaderValue::from_maybe_shared(bytes.slice_ref(field.value))
                .map_err(|_| Fault::Malformed)?;
            if meaning.of(&name, &value)? {
                headers.append(name, value);
            }
            Ok(())
        });
        if read.is_err() {
            // A part would say what the whole does not: of a list of addresses the end alone is believed.
            headers.clear();
        }
        read?;
        let (body, is_kept) = meaning.body()?;
        if meaning.is_chunked.is_some() && meaning.length.is_some() {
            headers.remove(CONTENT_LENGTH);
        }
        self.body = body;
        self.is_kept = is_kept;
        self.expects = meaning.expects && is_1_1;
        self.takes_trailers = meaning.takes_trailers;
        self.wants_switch = meaning.wants_switch && is_1_1;
        Ok(())
    }
}

/// A head that came with more bytes is not kept, to be compared with the next: it would keep all of them.
const MOST_KEPT: usize = 4096;

/// For headers that are added on the way.
const ROOM: usize = 4;
/// More than a `HeaderMap` can hold are no head, whatever the caps say; a little less, for what is added.
const MOST: usize = 24_000;

/// What the headers say about the body and the connection.
#[derive(Default)]
struct Meaning {
    is_1_1: bool,
    is_kept: bool,
    length: Option<u64>,
    /// Whether the last transfer coding is `chunked`, if there is one.
    is_chunked: Option<bool>,
    expects: bool,
    takes_trailers: bool,
    wants_switch: bool,
}

impl Meaning {
    /// Takes note of a header; `false` if it says what another did.
    fn of(&mut self, name: &HeaderName, value: &HeaderValue) -> Result<bool, Fault> {
        let bytes = value.as_bytes();
        // The lengths of those names; few others have one of them.
        match name.as_str().len() {
            2 if name == TE => self.takes_trailers |= has_word(bytes, b"trailers"),
            6 if name == EXPECT => self.expects = bytes.eq_ignore_ascii_case(b"100-continue"),
            7 if name == UPGRADE => self.wants_switch = true,
            10 if name == CONNECTION => {
                if has_word(bytes, b"close") {
                    self.is_kept = false;
                } else if !self.is_1_1 && has_word(bytes, b"keep-alive") {
                    self.is_kept = true;
                }
            }
            14 if name == CONTENT_LENGTH => {
                let length = number(bytes).ok_or(Fault::Length)?;
                match self.length.replace(length) {
                    Some(before) if before != length => return Err(Fault::Length),
                    Some(_) => return Ok(false),
                    None => (),
                }
            }
            17 if name == TRANSFER_ENCODING => {
                if !self.is_1_1 {
                    return Err(Fault::Coding);
                }
                let last = bytes.rsplit(|byte| *byte == b',').next().unwrap_or_default();
                self.is_chunked = Some(last.trim_ascii().eq_ignore_ascii_case(b"chunked"));
            }
            _ => (),
        }
        Ok(true)
    }

    /// How the body ends, and whether the connection can be kept after it.
    fn body(&self) -> Result<(Decoder, bool), Fault> {
        match (self.is_chunked, self.length) {
            (Some(false), _) => Err(Fault::Coding),
            // One of the two is a lie, so who comes after on this connection is doubtful.
            (Some(true), length) => {
                Ok((Decoder::Chunked(Chunked::new()), self.is_kept && length.is_none()))
            }
            (None, length) => Ok((Decoder::Length(length.unwrap_or(0)), self.is_kept)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_policy::shapes::Server;

    use super::*;
    use crate::settings::Settings;

    /// Many heads may come in one piece of memory, and the last of them must not keep it.
    #[test]
    fn a_head_is_kept_if_little_came_with_it() {
        let limits = Settings::new(&Server::default()).limits;
        let small = Bytes::from_static(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n");
        for (held, is_kept) in [(small.len(), true), (MOST_KEPT, true), (MOST_KEPT + 1, false)] {
            let mut head = Head::none();
            for nth in 0..2 {
                let read = head.read((&small, held), (&limits, 0));
                assert!(matches!(read, Parsed::Whole(length) if length == small.len()));
                assert_eq!(head.request.noted(), (is_kept && nth > 0).then_some(7));
                head.request.note(7);
                head.leave();
            }
            assert_eq!(head.bytes.is_empty(), !is_kept, "{held}");
            // By other settings, and after another, it is read anew.
            head.read((&small, held), (&limits, 1));
            assert_eq!(head.request.noted::<i32>(), None);
            head.request.note(7);
            head.leave();
            let other = Bytes::from_static(b"GET / HTTP/1.1\r\nhost: b\r\n\r\n");
            head.read((&other, held), (&limits, 1));
            assert_eq!(head.request.noted::<i32>(), None);
        }
    }

    /// Whoever changes a request gets it as it came when it comes again.
    #[test]
    fn what_was_changed_is_parsed_again() {
        let limits = Settings::new(&Server::default()).limits;
        let bytes = Bytes::from_static(b"GET /a HTTP/1.1\r\nhost: a\r\nx-b: 1\r\n\r\n");
        let mut head = Head::none();
        for _ in 0..3 {
            head.read((&bytes, bytes.len()), (&limits, 0));
            assert_eq!((head.request.uri().path(), head.request.headers().len()), ("/a", 2));
            assert_eq!(head.request.headers()["x-b"], "1");
            head.request.headers_mut().remove("x-b");
            *head.request.uri_mut() = Uri::from_static("/c");
            head.request.note(7);
            head.leave();
        }
        head.read((&bytes, bytes.len()), (&limits, 0));
        assert_eq!(head.request.noted(), Some(7));
    }

    #[test]
    fn a_head_is_parsed_when_it_comes_and_when_it_may_be_whole() {
        let whole = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        assert!(may_be_whole(&whole[..1], 0));
        for end in 2..whole.len() {
            assert!(!may_be_whole(&whole[..end], end - 1), "{end}");
        }
        assert!(may_be_whole(whole, whole.len() - 1));
        assert!(may_be_whole(whole, 5));
        assert!(!may_be_whole(b"", 0));
    }
}
