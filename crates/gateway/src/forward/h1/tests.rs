//! The codec alone, without a stream.

use std::cell::Cell;

use bytes::Bytes;
use http::{HeaderMap, Request};
use proptest::prelude::*;
use tollgate_wire::HeadLines;

use super::request_head;
use super::response_head::{BadHead, Head, HeadReader};
use super::sending::Framing;
use crate::forward::head::Hops;
use crate::forward::outbound::Outbound;
use crate::h1::chunked::{AFTER_DATA, Chunked, write_end, write_size};
use crate::h1::decoder::{BadBody, Decoded, Decoder};
use crate::received::Received;
use crate::request_body::RequestBody;
use crate::upstream::Upstream;

/// A head, in the pieces that `sizes` cut it into.
fn head(bytes: &[u8], sizes: &[usize]) -> Result<Option<(Head, Bytes)>, BadHead> {
    let (mut reader, mut rest) = (HeadReader::default(), bytes);
    let mut sizes = sizes.iter().copied();
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(sizes.next().unwrap_or(usize::MAX).clamp(1, rest.len()));
        rest = later;
        if let Some((head, after)) = reader.read(Bytes::copy_from_slice(piece), false)? {
            return Ok(Some((head, Bytes::from([&after, rest].concat()))));
        }
    }
    Ok(None)
}

/// A body, in pieces: its data, its trailers, and what came after it.
type Read = (Vec<u8>, HeaderMap, Vec<u8>);

fn body(mut decoder: Decoder, bytes: &[u8], sizes: &[usize]) -> Result<Option<Read>, BadBody> {
    let (mut data, mut trailers) = (Vec::new(), HeaderMap::new());
    let mut sizes = sizes.iter().copied();
    let (mut rest, mut piece) = (bytes, Bytes::new());
    loop {
        match decoder.decode(&mut piece)? {
            Decoded::Data(more) => data.extend_from_slice(&more),
            Decoded::Trailers(more) => trailers = more,
            Decoded::End => return Ok(Some((data, trailers, [&piece, rest].concat()))),
            Decoded::More if rest.is_empty() => return Ok(None),
            Decoded::More => {
                let size = sizes.next().unwrap_or(usize::MAX).clamp(1, rest.len());
                let (now, later) = rest.split_at(size);
                (piece, rest) = (Bytes::copy_from_slice(now), later);
            }
        }
    }
}

fn chunked() -> Decoder {
    Decoder::Chunked(Chunked::new())
}

#[test]
fn a_body_ends_where_its_head_says() {
    let rows: &[(&str, &str, bool)] = &[
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", "Length(5)", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\ncontent-LENGTH: 5\r\n\r\n", "Length(5)", true),
        ("HTTP/1.1 200\r\ncontent-length: 18446744073709551615\r\n\r\n", "Length(184467440", true),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", "Chunked", true),
        ("HTTP/1.1 200 OK\r\n\r\n", "UntilClose", false),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: x, Close\r\n\r\n",
            "Length(5)",
            false,
        ),
        ("HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\n", "Length(5)", false),
        (
            "HTTP/1.0 200 OK\r\ncontent-length: 5\r\nconnection: Keep-Alive\r\n\r\n",
            "Length(5)",
            true,
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", "Length(0)", true),
        ("HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", "Length(0)", true),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 204 X\r\n\r\n",
            "Length(0)",
            true,
        ),
    ];
    for (bytes, framing, is_kept) in rows {
        let (head, rest) = head(bytes.as_bytes(), &[]).unwrap().unwrap();
        let found = format!("{:?}", head.body);
        assert!(found.starts_with(framing), "{bytes:?}: {found}");
        assert_eq!((head.is_kept, rest.len()), (*is_kept, 0), "{bytes:?}");
        assert!(head.headers.get_all("content-length").iter().count() < 2, "{bytes:?}");
    }
}

#[test]
fn what_could_be_read_in_two_ways_is_no_head() {
    let with = |lines: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n");
    let rows = [
        with("content-length: 5\r\ncontent-length: 6"),
        with("content-length: 5, 5"),
        with("content-length: +5"),
        with("content-length: -5"),
        with("content-length: 0x5"),
        with("content-length: 5 5"),
        with("content-length:"),
        with("content-length: 18446744073709551616"),
        with("content-length: 5\r\ntransfer-encoding: chunked"),
        with("transfer-encoding: chunked\r\ncontent-length: 5"),
        with("transfer-encoding: gzip, chunked"),
        with("transfer-encoding: gzip"),
        with("transfer-encoding: chunked\r\ntransfer-encoding: chunked"),
        with("transfer-encoding: identity"),
        with("x: 1\r\n 2"),
        with("x: 1\r2"),
        with("x: 1\0"),
        with("x\0: 1"),
        with("x : 1"),
        with(" x: 1"),
        with("x"),
        with(": 1"),
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(),
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n".to_owned(),
        "HTTP/1.1 099 X\r\n\r\n".to_owned(),
        "HTTP/1.1 20 X\r\n\r\n".to_owned(),
        "HTTP/2.0 200 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 200 O\0K\r\n\r\n".to_owned(),
        "SSH-2.0-OpenSSH_9.2\r\n".to_owned(),
        with(&vec!["x: 1"; 101].join("\r\n")),
        with(&format!("x: {}", "y".repeat(64 * 1024))),
        format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(64 * 1024)),
    ];
    for row in rows {
        for sizes in [&[][..], &[7; 20_000]] {
            let read = head(row.as_bytes(), sizes);
            assert!(read.is_err(), "{:?}", &row[..row.len().min(200)]);
        }
    }
    assert!(head(with(&vec!["x: 1"; 100].join("\r\n")).as_bytes(), &[]).is_ok());
}

#[test]
fn chunks_are_read_strictly() {
    let rows: &[(&str, Option<(&str, &str)>)] = &[
        ("0\r\n\r\n", Some(("", ""))),
        ("5\r\nhello\r\n0\r\n\r\n", Some(("hello", ""))),
        ("5\r\nhello\r\n1\r\n!\r\n0\r\n\r\nmore", Some(("hello!", "more"))),
        ("0A\r\n0123456789\r\n000\r\n\r\n", Some(("0123456789", ""))),
        ("5;a=b;c=\"d\"\r\nhello\r\n0;e\r\n\r\n", Some(("hello", ""))),
        ("5  \r\nhello\r\n0 \t;x\r\n\r\n", Some(("hello", ""))),
        ("\r\n", None),
        ("+5\r\nhello\r\n0\r\n\r\n", None),
        ("-5\r\nhello\r\n0\r\n\r\n", None),
        ("0x5\r\nhello\r\n0\r\n\r\n", None),
        (" 5\r\nhello\r\n0\r\n\r\n", None),
        ("5 5\r\nhello\r\n0\r\n\r\n", None),
        ("g\r\n", None),
        ("5\nhello\r\n0\r\n\r\n", None),
        ("5\rhello\r\n0\r\n\r\n", None),
        ("5;a\nhello\r\n0\r\n\r\n", None),
        ("5;a\0\r\nhello\r\n0\r\n\r\n", None),
        ("5\r\nhello0\r\n\r\n", None),
        ("5\r\nhello\n0\r\n\r\n", None),
        ("5\r\nhello!\r\n0\r\n\r\n", None),
        ("10000000000000000\r\n", None),
        ("00000000000000005\r\nhello\r\n0\r\n\r\n", None),
        ("0\r\nx : 1\r\n\r\n", None),
        ("0\r\nx: 1\0\r\n\r\n", None),
        ("0\r\nx: 1\r\n 2\r\n\r\n", None),
    ];
    for (bytes, read) in rows {
        let found = body(chunked(), bytes.as_bytes(), &[]).ok().flatten();
        let found = found.map(|(data, _, rest)| (data, rest));
        let read = read.map(|(data, rest)| (data.as_bytes().to_vec(), rest.as_bytes().to_vec()));
        assert_eq!(found, read, "{bytes:?}");
    }
    let largest = body(chunked(), b"ffffffffffffffff\r\nx", &[]);
    assert!(largest.unwrap().is_none(), "a size of 64 bits is one");
}

#[test]
fn extensions_and_trailers_have_bounds() {
    let of = |bytes: String| body(chunked(), bytes.as_bytes(), &[]);
    assert!(of(format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(16_000))).is_ok());
    assert_eq!(of(format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(17_000))), Err(BadBody::Extensions));
    let many = "1;eeee\r\nx\r\n".repeat(5000);
    assert_eq!(of(format!("{many}0\r\n\r\n")), Err(BadBody::Extensions));
    assert_eq!(of(format!("1{}\r\nx\r\n", " ".repeat(17_000))), Err(BadBody::Extensions));
    assert_eq!(of(format!("0\r\nx: {}\r\n\r\n", "y".repeat(17_000))), Err(BadBody::Trailers));
    assert_eq!(of(format!("0\r\n{}\r\n", "x: y\r\n".repeat(101))), Err(BadBody::Trailers));
    assert_eq!(of(format!("0\r\n{}\r\n", "x: y\r\n".repeat(100))).unwrap().unwrap().1.len(), 100);
    assert!(of(format!("0\r\n{}", "\n".repeat(100_000))).is_err(), "lines without end");
}

#[test]
fn what_frames_or_identifies_does_not_trail() {
    let bytes = b"0\r\nx-sum: 1\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\nhost: a\r\n\
                  x-tollgate-tenant: b\r\nx-forwarded-for: c\r\nconnection: d\r\n\
                  Forwarded: e\r\nX-Real-IP: f\r\n\r\n";
    let (_, trailers, _) = body(chunked(), bytes, &[]).unwrap().unwrap();
    let names: Vec<_> = trailers.keys().map(http::HeaderName::as_str).collect();
    assert_eq!(names, ["x-sum"]);
}

#[test]
fn a_request_head_is_what_the_caller_sent_without_what_is_not_the_upstreams() {
    type Row = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str);
    let rows: &[Row] = &[
        (
            "http://u",
            "/a?b",
            &[("host", "h"), ("accept", "*/*")],
            "GET /a?b HTTP/1.1\r\nhost: h\r\naccept: */*\r\n",
        ),
        ("http://u/base", "/a?b", &[("host", "h")], "GET /base/a?b HTTP/1.1\r\nhost: h\r\n"),
        (
            "http://u/base",
            "http://real:81?b",
            &[("host", "h")],
            "GET /base/?b HTTP/1.1\r\nhost: real:81\r\n",
        ),
        ("http://u/base", "*", &[("host", "h")], "GET * HTTP/1.1\r\nhost: h\r\n"),
        (
            "http://u:7",
            "/",
            &[("x", "1"), ("x", "2")],
            "GET / HTTP/1.1\r\nx: 1\r\nx: 2\r\nhost: u:7\r\n",
        ),
        (
            "http://u",
            "/",
            &[("cookie", "a=1"), ("host", "h"), ("cookie", "b=2"), ("cookie", "c=3; d=4")],
            "GET / HTTP/1.1\r\nhost: h\r\ncookie: a=1; b=2; c=3; d=4\r\n",
        ),
        (
            "http://u",
            "/",
            &[("host", "h"), ("cookie", "a=1"), ("connection", "cookie")],
            "GET / HTTP/1.1\r\nhost: h\r\n",
        ),
        (
            "http://u",
            "/",
            &[
                ("host", "h"),
                ("connection", "X-Mine, host, x-told"),
                ("x-mine", "1"),
                ("keep-alive", "1"),
                ("te", "gzip, trailers"),
                ("expect", "100-continue"),
                ("x-told", "forged"),
                ("upgrade", "x"),
                ("transfer-encoding", "chunked"),
                ("proxy-authorization", "x"),
                ("content-length", "0"),
                ("trailer", "y"),
            ],
            "GET / HTTP/1.1\r\nhost: h\r\ntrailer: y\r\nte: trailers\r\n",
        ),
    ];
    for (url, target, headers, expected) in rows {
        let shape = tollgate_policy::shapes::Upstream {
            url: Some(url.parse().unwrap()),
            urls: None,
            backpressure: tollgate_policy::shapes::Backpressure::default(),
            connect_timeout_ms: 1,
            response_timeout_ms: 1,
            rate_limit: None,
        };
        let upstream = Upstream::new(&shape, || unreachable!()).unwrap();
        let mut request = Request::get(*target);
        for (name, value) in *headers {
            request = request.header(*name, *value);
        }
        let request = request.body(RequestBody::empty()).unwrap();
        let hops = Hops::of(request.headers());
        let mut told = HeadLines::default();
        told.set_text(&http::HeaderName::from_static("x-told"), "truth");
        let has_length = headers.iter().any(|(name, _)| *name == "content-length");
        let length = if has_length { "content-length: 0\r\n" } else { "" };
        let unseen = &Cell::new(true);
        let mut request = Received::new(request);
        let outbound = Outbound { request: &mut request, told, hidden: None, hops, unseen };
        let mut out = Vec::new();
        let framing = request_head::write(&mut out, &outbound, &upstream.origins()[0]);
        assert_eq!(framing, Framing::Done);
        let written = String::from_utf8(out).unwrap();
        assert_eq!(written, format!("{expected}x-told: truth\r\n{length}\r\n"));
    }
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1..40usize, 0..60)
}

/// Bytes that often come near to what is right.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "HTTP/1.1 ",
        "HTTP/1.0 ",
        "200",
        "100 Continue",
        "304",
        " OK",
        "\r\n",
        "\r\n\r\n",
        "\n",
        "\r",
        ":",
        " ",
        "content-length",
        "transfer-encoding",
        "chunked",
        "connection",
        "close",
        "5",
        "0",
        "ffffffffffffffff",
        ";",
        "\0",
        "x: y\r\n",
        "hello",
    ]);
    let word = prop_oneof![
        8 => words.prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(word, 0..24).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn pieces_do_not_change_a_head(name in "[a-z-]{1,12}", value in "[ -~]{0,40}", interim in 0..3usize, body in "[ -~\r\n]{0,40}", sizes in sizes()) {
        let interim = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n".repeat(interim);
        let bytes = format!("{interim}HTTP/1.1 200 Fine\r\nx-{name}: {value}\r\ncontent-length: 7\r\n\r\n{body}");
        let whole = head(bytes.as_bytes(), &[]).unwrap().unwrap();
        let pieces = head(bytes.as_bytes(), &sizes).unwrap().unwrap();
        prop_assert_eq!(&whole.1, body.as_bytes());
        prop_assert_eq!(format!("{whole:?}"), format!("{pieces:?}"));
    }

    #[test]
    fn what_is_written_in_chunks_is_read_back_in_any_pieces(
        data in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..6),
        trailer in prop::option::of("[a-z]{1,9}"),
        after in prop::collection::vec(any::<u8>(), 0..9),
        sizes in sizes(),
    ) {
        let mut bytes = Vec::new();
        for chunk in &data {
            write_size(&mut bytes, chunk.len());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(AFTER_DATA);
        }
        let mut trailers = HeaderMap::new();
        if let Some(value) = &trailer {
            trailers.insert("x-trailer", value.parse().unwrap());
        }
        write_end(&mut bytes, &trailers);
        let end = bytes.len();
        bytes.extend_from_slice(&after);
        let decoder = chunked();
        prop_assert_eq!(decoder.extra_in(&Bytes::from(bytes.clone())), Ok(Some(after.len())));
        prop_assert_eq!(decoder.extra_in(&Bytes::copy_from_slice(&bytes[..end - 1])), Ok(None));
        let read = body(decoder, &bytes, &sizes).unwrap().unwrap();
        prop_assert_eq!(read, (data.concat(), trailers, after));
    }

    #[test]
    fn pieces_do_not_change_what_is_read_of_anything(bytes in nearly(), sizes in sizes()) {
        let whole = body(chunked(), &bytes, &[]);
        prop_assert_eq!(whole, body(chunked(), &bytes, &sizes));
        prop_assert_eq!(body(Decoder::Length(9), &bytes, &[]), body(Decoder::Length(9), &bytes, &sizes));
        // Heads are told from what is none as soon as that is certain, or at their end.
        match (head(&bytes, &[]), head(&bytes, &sizes)) {
            (Ok(whole @ Some(_)), pieces) => prop_assert_eq!(format!("{:?}", Ok::<_, BadHead>(whole)), format!("{pieces:?}")),
            (Ok(None), pieces) => prop_assert!(!matches!(pieces, Ok(Some(_)))),
            (Err(_), pieces) => prop_assert!(!matches!(pieces, Ok(Some(_)))),
        }
    }

    #[test]
    fn sizes_are_hexadecimal(size in any::<usize>()) {
        let mut out = Vec::new();
        write_size(&mut out, size);
        prop_assert_eq!(String::from_utf8(out).unwrap(), format!("{size:x}\r\n"));
    }
}
