//! What the gateway holds in memory: for connections on which nothing happens, and while much streams through.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::proxies::{Backend, Case, KEY, Kind, Proxy};
use crate::report::Report;

const IDLE: usize = 10_000;
const GIGABYTE: u64 = 1 << 30;

/// Ten thousand connections that have each had one answer and wait.
pub fn idle(report: &mut Report) -> Result<(), String> {
    let backend = Backend::start()?;
    let proxy = Proxy::start(Kind::Ours, Case::Forward, &backend)?;
    let before = proxy.resident_bytes();
    let request = format!("GET / HTTP/1.1\r\nhost: bench\r\nx-api-key: {KEY}\r\n\r\n");
    let mut held = Vec::with_capacity(IDLE);
    for _ in 0..IDLE {
        let connected = TcpStream::connect(("127.0.0.1", proxy.port));
        let mut stream = connected.map_err(|error| format!("{} are open: {error}", held.len()))?;
        let mut answer = [0; 4096];
        stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        let read = stream.read(&mut answer).map_err(|error| error.to_string())?;
        if !answer[..read].starts_with(b"HTTP/1.1 200") {
            return Err(String::from_utf8_lossy(&answer[..read]).into_owned());
        }
        held.push(stream);
    }
    // What a connection no longer needs it gives back within a few seconds.
    std::thread::sleep(Duration::from_secs(5));
    let bytes = proxy.resident_bytes().saturating_sub(before);
    report.row(&[
        ("case", "idle".into()),
        ("connections", IDLE.into()),
        ("bytes_per_connection", (bytes as f64 / IDLE as f64).into()),
    ]);
    Ok(())
}

/// A gigabyte down through the gateway.
pub fn stream(report: &mut Report) -> Result<(), String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {GIGABYTE}\r\n\r\n");
            let piece = vec![0u8; 1 << 20];
            for _ in 0..GIGABYTE >> 20 {
                if stream.write_all(&piece).is_err() {
                    break;
                }
            }
        }
    });
    let proxy = Proxy::start(Kind::Ours, Case::Forward, &Backend::at(port))?;
    let before = proxy.resident_bytes();
    let mut caller =
        TcpStream::connect(("127.0.0.1", proxy.port)).map_err(|error| error.to_string())?;
    write!(
        caller,
        "GET / HTTP/1.1\r\nhost: bench\r\nx-api-key: {KEY}\r\nconnection: close\r\n\r\n"
    )
    .map_err(|error| error.to_string())?;
    let (begin, mut most, mut read) = (Instant::now(), before, 0u64);
    let mut piece = vec![0u8; 1 << 20];
    loop {
        match caller.read(&mut piece).map_err(|error| error.to_string())? {
            0 => break,
            bytes => read += bytes as u64,
        }
        most = most.max(proxy.resident_bytes());
    }
    if read < GIGABYTE {
        return Err(format!("only {read} bytes came"));
    }
    report.row(&[
        ("case", "stream".into()),
        ("bytes", read.into()),
        ("more_resident_bytes", (most - before).into()),
        ("seconds", begin.elapsed().as_secs_f64().into()),
    ]);
    Ok(())
}
