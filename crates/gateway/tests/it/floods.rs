//! Floods of HTTP/2 frames end their connection, and nobody else's.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::{ChildGateway, Exchange, Served, TestGateway, curl, eventually};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// A GET in HPACK: static entries, and a literal `:authority`.
pub const GET: &[u8] = &[0x82, 0x86, 0x84, 0x41, 0x01, b'a'];
pub const POST: &[u8] = &[0x83, 0x86, 0x84, 0x41, 0x01, b'a'];

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

pub fn open(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    stream
}

/// Sends `frames` until the gateway ends the connection; fails if it takes more than `most` of them.
fn flood(gateway: &TestGateway, first: &[u8], most: u32, mut frames: impl FnMut(u32) -> Vec<u8>) {
    let mut stream = open(gateway.address);
    stream.write_all(first).unwrap();
    // Whoever floods does not read, but a full buffer of answers must not look like an end.
    let mut reader = stream.try_clone().unwrap();
    let ended = std::thread::spawn(move || {
        reader.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut bytes = [0; 65_536];
        while matches!(reader.read(&mut bytes), Ok(1..)) {}
    });
    let cut_off = (0..most).find(|n| ended.is_finished() || stream.write_all(&frames(*n)).is_err());
    assert!(cut_off.is_some(), "{most} frames were taken");
    // Everybody else is served.
    assert_eq!(curl(&["--http2-prior-knowledge", &gateway.url("/")]), "fine");
}

fn slow_upstream() -> Served {
    Served::new(|exchange: &mut Exchange| {
        exchange.body();
        exchange.ok("fine");
        true
    })
}

#[test]
fn rapid_resets_end_the_connection() {
    let upstream = slow_upstream();
    let gateway = TestGateway::new(&upstream.url());
    flood(&gateway, &[], 200_000, |n| {
        let stream = 2 * n + 1;
        let mut frames = frame(HEADERS, END_STREAM | END_HEADERS, stream, GET);
        frames.extend(frame(RST_STREAM, 0, stream, &8u32.to_be_bytes()));
        frames
    });
}

#[test]
fn endless_continuations_end_the_connection() {
    let upstream = slow_upstream();
    let gateway = TestGateway::new(&upstream.url());
    // A header that is never finished, in small pieces and in large ones.
    let literal = [&[0x00, 0x01, b'x', 0x01, b'y'][..]; 20].concat();
    for (size, most) in [(0, 1_000_000), (5, 100_000), (100, 20_000)] {
        let first = frame(HEADERS, END_STREAM, 1, GET);
        flood(&gateway, &first, most, |_| frame(CONTINUATION, 0, 1, &literal[..size]));
    }
}

#[test]
fn empty_data_frames_end_the_connection() {
    let upstream = slow_upstream();
    let gateway =
        TestGateway::with(&[&upstream.url()], |server| server.caps.body_timeout_ms = 1000);
    flood(&gateway, &frame(HEADERS, END_HEADERS, 1, POST), 3_000_000, |_| frame(DATA, 0, 1, &[]));
}

/// Reads frames until one of this kind comes; its stream and payload.
pub fn next_of(stream: &mut TcpStream, wanted: u8) -> (u32, Vec<u8>) {
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let [a, b, c, kind, _, d, e, f, g] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload).unwrap();
        if kind == wanted {
            return (u32::from_be_bytes([d, e, f, g]), payload);
        }
    }
}

#[test]
fn a_connection_has_128_requests_at_once_and_no_more() {
    const REFUSED_STREAM: u32 = 7;
    let (stay, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let upstream = Served::new(move |_: &mut Exchange| wait.lock().unwrap().recv().is_ok());
    let gateway = TestGateway::new(&upstream.url());
    let mut stream = open(gateway.address);
    for n in 0..129 {
        let frame = frame(HEADERS, END_STREAM | END_HEADERS, 2 * n + 1, GET);
        stream.write_all(&frame).unwrap();
    }
    let refused = next_of(&mut stream, RST_STREAM);
    assert_eq!(refused, (257, REFUSED_STREAM.to_be_bytes().to_vec()));
    eventually("the others are served", || upstream.heads().len() == 128);
    drop(stay);
}

#[test]
fn headers_about_a_connection_are_no_http2() {
    const PROTOCOL_ERROR: u32 = 1;
    let upstream = slow_upstream();
    let gateway = TestGateway::new(&upstream.url());
    for (name, value) in [("connection", "close"), ("transfer-encoding", "chunked"), ("te", "gzip")]
    {
        let mut stream = open(gateway.address);
        let mut head = GET.to_vec();
        // A literal header with a new name.
        head.extend([0, name.len() as u8]);
        head.extend(name.as_bytes());
        head.push(value.len() as u8);
        head.extend(value.as_bytes());
        stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &head)).unwrap();
        let reset = next_of(&mut stream, RST_STREAM);
        assert_eq!(reset, (1, PROTOCOL_ERROR.to_be_bytes().to_vec()), "{name}");
    }
    assert_eq!(upstream.heads(), [""; 0]);
}

#[test]
fn too_large_a_list_of_headers_is_431() {
    let upstream = slow_upstream();
    let gateway = TestGateway::with(&[&upstream.url()], |server| server.caps.header_bytes = 8192);
    let status = |size: usize| {
        let header = format!("x-large: {}", "v".repeat(size));
        let url = gateway.url("/");
        let args = ["--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_code}", "-H"];
        curl(&[&args[..], &[&header, &url]].concat())
    };
    assert_eq!(status(4000), "200");
    assert_eq!(status(9000), "431");
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn pings_whose_answers_are_not_read_take_no_memory() {
    let upstream = slow_upstream();
    let gateway = ChildGateway::new(&upstream.url());
    let mut stream = open(gateway.address);
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let pings = frame(6, 0, 0, &[0; 8]).repeat(1000);
    let before = gateway.resident();
    // Each must be acknowledged, and nobody reads the acknowledgements.
    let _ = (0..3000).find(|_| stream.write_all(&pings).is_err());
    assert!(gateway.resident() < before + 16 * 1024 * 1024);
    assert_eq!(curl(&["--http2-prior-knowledge", &gateway.url("/")]), "fine");
}

/// Nothing but what every connection begins with, half of a frame, or a head of which the rest never comes.
#[test]
fn half_a_head_over_http2_is_closed_in_time() {
    let upstream = slow_upstream();
    let gateway = TestGateway::with(&[&upstream.url()], |server| {
        server.caps.header_timeout_ms = 200;
        server.caps.idle_timeout_ms = 400;
    });
    let half = frame(HEADERS, END_STREAM, 1, GET);
    for said in [&[][..], &half[..7], &half] {
        let mut stream = open(gateway.address);
        stream.write_all(said).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut bytes = [0; 1024];
        let end = loop {
            match stream.read(&mut bytes) {
                Ok(1..) => (),
                end => break end,
            }
        };
        let is_reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(end.as_ref().map_or_else(is_reset, |_| true), "{said:?}: {end:?}");
    }
    eventually("all closed", || gateway.counts.open() == 0);
    assert_eq!(upstream.heads(), [""; 0]);
}
