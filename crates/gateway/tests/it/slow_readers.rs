//! Callers who read slowly, and do read: however long that takes, they are not idle.

use std::io::Read as _;
use std::time::{Duration, Instant};

use crate::support::{Exchange, Raw, Served, TestGateway, one_tells};

/// How long an idle connection is kept here.
const IDLE_MS: u64 = 1000;

fn gateway(upstream: &Served) -> TestGateway {
    TestGateway::with(&[&upstream.url()], |server| server.caps.idle_timeout_ms = IDLE_MS)
}

/// Reads at the pace of a link that is slower than the gateway, for four times as long. A socket's buffer says that there is room only
/// once a good part of it is free, so it must not be too slow. `false` if this machine was so busy that the reader looked idle.
fn reads_slowly(caller: &mut Raw) -> bool {
    #[allow(clippy::disallowed_methods, reason = "what is measured is the machine")]
    let now = Instant::now;
    let mut piece = vec![0; 256 * 1024];
    let mut last_read = now();
    for nth in 0..160 {
        std::thread::sleep(Duration::from_millis(IDLE_MS / 40));
        let read = caller.0.read_exact(&mut piece);
        if last_read.elapsed() > Duration::from_millis(IDLE_MS / 2) {
            return false;
        }
        last_read = now();
        assert!(read.is_ok(), "cut off after {nth} pieces: {read:?}");
    }
    true
}

#[test]
fn a_slow_download_over_http1_is_not_cut_off() {
    one_tells(slow_download_over_http1);
}

fn slow_download_over_http1() -> bool {
    let gateway = gateway(&Served::echo());
    let mut caller = Raw::connect(gateway.address);
    let head = caller.write("GET /one-piece HTTP/1.1\r\nhost: a\r\n\r\n").head();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let was_steady = reads_slowly(&mut caller);
    assert!(!was_steady || gateway.counts.timeouts() == 0);
    was_steady
}

/// Whenever the connection was looked at the socket was full, and that something had gone out meanwhile was not seen.
#[test]
fn slow_downloads_over_http2_are_not_cut_off() {
    one_tells(slow_downloads_over_http2);
}

fn slow_downloads_over_http2() -> bool {
    let upstream = Served::new(|exchange: &mut Exchange| {
        exchange.write("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n");
        let piece = vec![b'x'; 1_000_000];
        (0..1000).for_each(|_| exchange.write(&piece));
        false
    });
    let gateway = gateway(&upstream);
    let mut caller = Raw::connect(gateway.address);
    // Settings with the largest window, room for all streams, and eight times GET.
    caller.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    caller.write(b"\0\0\x06\x04\0\0\0\0\0\0\x04\x7f\xff\xff\xff");
    caller.write(b"\0\0\x04\x08\0\0\0\0\0\x7f\xff\0\0");
    for stream in [1, 3, 5, 7, 9, 11, 13, 15] {
        caller.write([b"\0\0\x06\x01\x05\0\0\0", &[stream][..], b"\x82\x86\x84\x41\x01a"].concat());
    }
    let was_steady = reads_slowly(&mut caller);
    assert!(!was_steady || gateway.counts.timeouts() == 0);
    was_steady
}
