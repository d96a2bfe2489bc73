//! An upstream that answers as it is told and remembers what it was sent.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// An HTTP/1.1 server of one answer.
pub struct Upstream {
    pub address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    /// It answers with these headers and this body.
    pub fn new(headers: &'static str, body: &'static str) -> Upstream {
        let answer =
            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len());
        Upstream::serving(move |stream| stream.write_all(answer.as_bytes()))
    }

    /// It reads requests and lets `serve` write each answer.
    pub fn serving(
        serve: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (seen, serve) = (Arc::clone(&heads), Arc::new(serve));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, serve) = (Arc::clone(&seen), Arc::clone(&serve));
                thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let mut stream = stream;
                    while let Some(head) = read_request(&mut reader) {
                        seen.lock().unwrap().push(head);
                        if serve(&mut stream).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Upstream { address, heads }
    }

    /// How many requests there were so far.
    pub fn count(&self) -> u64 {
        self.heads.lock().unwrap().len() as u64
    }

    /// The heads of all requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// The head of the next request, its body read over; `None` at the end.
fn read_request(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        head += &line;
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(head)
}
