//! Programs that the training needs, started on free ports and stopped again.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use crate::run::{command, root, said};

/// Where all of them are at home, until it is dropped.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Result<Folder, String> {
        let folder = Folder(root().join(format!("target/training-{}", std::process::id())));
        fs::create_dir_all(folder.0.join("calls")).map_err(|error| error.to_string())?;
        Ok(folder)
    }

    pub(super) fn path(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// A server's own: `cert.pem` and `key.pem`.
    pub(super) fn certificate(&self) -> Result<(), String> {
        let mut openssl = command("openssl");
        openssl
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
            .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
            .args(["-keyout", "key.pem", "-out", "cert.pem"])
            .current_dir(&self.0);
        said(openssl).map(drop)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that runs until it is dropped.
pub(super) struct Started(Child);

impl Started {
    /// Starts it, and waits until it listens.
    pub(super) fn new(words: &[&str], folder: &Folder, port: u16) -> Result<Started, String> {
        let log = fs::File::create(folder.0.join("log")).map_err(|error| error.to_string())?;
        let child = command(words[0])
            .args(&words[1..])
            .current_dir(&folder.0)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{} did not start: {error}", words[0]))?;
        let started = Started(child);
        for _ in 0..200 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(started);
            }
            thread::sleep(Duration::from_millis(50));
        }
        let told = fs::read_to_string(folder.0.join("log")).unwrap_or_default();
        Err(format!("{} does not listen:\n{told}", words[0]))
    }

    /// Asks it to end, and waits until it has.
    pub(super) fn stop(mut self) -> Result<(), String> {
        let mut kill = command("kill");
        kill.args(["-TERM", &self.0.id().to_string()]);
        said(kill)?;
        match self.0.wait() {
            Ok(status) if status.success() => Ok(()),
            ended => Err(format!("the gateway did not end well: {ended:?}")),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn free_port() -> Result<u16, String> {
    let probe = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    probe.map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

/// An upstream over HTTP/1.1, which says the same to everybody until we end; its port.
pub(super) fn answering() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(|| answer(stream));
        }
    });
    Ok(port)
}

/// Answers each request when all of it has come.
fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let _ = stream.set_nodelay(true);
    let mut came = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        let length = stream.read(&mut piece)?;
        if length == 0 {
            return Ok(());
        }
        came.extend_from_slice(&piece[..length]);
        while let Some(length) = whole(&came) {
            came.drain(..length);
            stream.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 6\r\n\r\nhello\n",
            )?;
        }
    }
}

/// How long the first request is, once all of it is there.
fn whole(came: &[u8]) -> Option<usize> {
    let head = came.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&came[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
    let all = head + length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
    (came.len() >= all).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_whole_with_its_body() {
        let bare = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        assert_eq!(whole(&bare[..bare.len() - 1]), None);
        assert_eq!(whole(bare), Some(bare.len()));
        let with_body = b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nbodyGET";
        assert_eq!(whole(&with_body[..with_body.len() - 4]), None);
        assert_eq!(whole(with_body), Some(with_body.len() - 3));
    }
}
