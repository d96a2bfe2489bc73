//! A client that says exactly what it is told to, over a connection of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::node::TOKEN;

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub text: String,
}

impl Ask {
    /// A request with the token.
    pub fn new(method: &str, path: &str) -> Ask {
        Ask::without_token(method, path).header("authorization", &format!("Bearer {TOKEN}"))
    }

    pub fn without_token(method: &str, path: &str) -> Ask {
        Ask { line: format!("{method} {path} HTTP/1.1"), headers: vec![], body: vec![] }
    }

    pub fn header(mut self, name: &str, value: &str) -> Ask {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn json(self, body: &Value) -> Ask {
        self.header("content-type", "application/json").body(&body.to_string())
    }

    pub fn body(mut self, body: &str) -> Ask {
        self.body = body.as_bytes().to_vec();
        self
    }

    pub fn send(&self, to: SocketAddr) -> Answer {
        let mut connection = self.write(to);
        let mut bytes = Vec::new();
        let read = connection.read_to_end(&mut bytes);
        assert!(read.is_ok() || !bytes.is_empty(), "{self:?}: {read:?}");
        Answer::read(&bytes)
    }

    /// Sends it, and hangs up after a while, answered or not.
    pub fn send_and_hang_up(&self, to: SocketAddr, after: Duration) {
        let connection = self.write(to);
        std::thread::sleep(after);
        drop(connection);
    }

    /// Sends it, and leaves the answer to whoever reads the connection.
    pub fn write(&self, to: SocketAddr) -> TcpStream {
        let mut connection = TcpStream::connect(to).unwrap();
        let mut head = format!("{}\r\nhost: {to}\r\nconnection: close\r\n", self.line);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", self.body.len()));
        connection.write_all(head.as_bytes()).unwrap();
        // Whoever refuses by the head alone may close before it has read the body.
        let _ = connection.write_all(&self.body);
        connection
    }
}

impl Answer {
    fn read(bytes: &[u8]) -> Answer {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        Answer { status, headers: lines.map(header).collect(), text: body.to_owned() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body, of an answer with this status.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        if status >= 400 {
            assert_eq!(self.header("content-type"), Some("application/problem+json"));
        }
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}
