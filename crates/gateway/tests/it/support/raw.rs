//! A caller that writes the bytes it is told to, right or wrong.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection to the gateway.
pub struct Raw(pub TcpStream);

impl Raw {
    pub fn connect(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_nodelay(true).unwrap();
        Raw(stream)
    }

    pub fn write(&mut self, bytes: impl AsRef<[u8]>) -> &mut Raw {
        self.0.write_all(bytes.as_ref()).unwrap();
        self
    }

    /// Reads until `text` has come; returns all up to and with it.
    pub fn read_until(&mut self, text: &str) -> String {
        let mut read = Vec::new();
        let mut byte = [0];
        while !read.ends_with(text.as_bytes()) {
            match self.0.read(&mut byte) {
                Ok(1) => read.push(byte[0]),
                other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&read)),
            }
        }
        String::from_utf8_lossy(&read).into_owned()
    }

    /// Reads a head.
    pub fn head(&mut self) -> String {
        self.read_until("\r\n\r\n")
    }

    /// Reads a head and the body that its `Content-Length` announces.
    pub fn response(&mut self) -> (String, String) {
        let head = self.head();
        let length = header(&head, "content-length").map_or(0, |value| value.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        (head, String::from_utf8_lossy(&body).into_owned())
    }

    /// Reads until the gateway closes the connection, however it does.
    pub fn rest(&mut self) -> String {
        let mut read = Vec::new();
        match self.0.read_to_end(&mut read) {
            Ok(_) => (),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => (),
            Err(error) => panic!("not closed: {error}, {:?}", String::from_utf8_lossy(&read)),
        }
        String::from_utf8_lossy(&read).into_owned()
    }
}

/// The value of a header in a head.
pub fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let line = |line: &'h str| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    };
    head.lines().find_map(line)
}

/// Sends one GET and returns the response.
pub fn get(address: SocketAddr, path: &str) -> (String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n");
    Raw::connect(address).write(request).response()
}
