//! Floods of HTTP/2 frames end their connection, and nobody else's.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::{ChildGateway, Exchange, Served, TestGateway, curl};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A GET in HPACK: static entries, and a literal `:authority`.
const GET: &[u8] = &[0x82, 0x86, 0x84, 0x41, 0x01, b'a'];
const POST: &[u8] = &[0x83, 0x86, 0x84, 0x41, 0x01, b'a'];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn open(address: SocketAddr) -> TcpStream {
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
