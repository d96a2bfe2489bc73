//! An upstream that answers as a test says, over plain blocking sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// An upstream that listens until the test's process ends.
pub struct Served {
    pub address: SocketAddr,
    /// The heads of all requests, in the order they came.
    pub heads: Arc<Mutex<Vec<String>>>,
    /// How many connections were made.
    pub connections: Arc<Mutex<usize>>,
}

/// One request as the upstream sees it.
pub struct Exchange {
    pub head: String,
    pub reader: BufReader<TcpStream>,
    /// Which request of its connection this is, from 0.
    pub nth: usize,
}

impl Exchange {
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.reader.get_mut().write_all(bytes.as_ref());
    }

    /// Answers 200 with a body.
    pub fn ok(&mut self, body: &str) {
        self.write(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
    }

    /// Reads a body of the announced length.
    pub fn body(&mut self) -> Vec<u8> {
        let length = super::raw::header(&self.head, "content-length").unwrap_or("0");
        let mut body = vec![0; length.parse().unwrap()];
        self.reader.read_exact(&mut body).unwrap();
        body
    }

    /// Reads up to an empty line: a head, a chunk with trailers.
    pub fn lines(&mut self) -> String {
        lines(&mut self.reader).unwrap_or_default()
    }
}

impl Served {
    /// Serves every request by `answer`, which says whether the connection stays open.
    pub fn new(answer: impl Fn(&mut Exchange) -> bool + Send + Sync + 'static) -> Served {
        Served::on(TcpListener::bind("127.0.0.1:0").unwrap(), answer)
    }

    pub fn on(
        listener: TcpListener,
        answer: impl Fn(&mut Exchange) -> bool + Send + Sync + 'static,
    ) -> Served {
        let address = listener.local_addr().unwrap();
        let served = Served { address, heads: Arc::default(), connections: Arc::default() };
        let (heads, connections) = (Arc::clone(&served.heads), Arc::clone(&served.connections));
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                *connections.lock().unwrap() += 1;
                let (heads, answer) = (Arc::clone(&heads), Arc::clone(&answer));
                thread::spawn(move || serve(stream, &heads, &*answer));
            }
        });
        served
    }

    /// Answers every request with its own head.
    pub fn echo() -> Served {
        Served::new(|exchange| {
            exchange.body();
            let head = exchange.head.clone();
            exchange.ok(&head);
            true
        })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    pub fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

fn serve(stream: TcpStream, heads: &Mutex<Vec<String>>, answer: &dyn Fn(&mut Exchange) -> bool) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream);
    for nth in 0.. {
        let Some(head) = lines(&mut reader) else { return };
        heads.lock().unwrap().push(head.clone());
        let mut exchange = Exchange { head, reader, nth };
        if !answer(&mut exchange) {
            return;
        }
        reader = exchange.reader;
    }
}

fn lines(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut text = String::new();
    loop {
        let before = text.len();
        match reader.read_line(&mut text) {
            Ok(0) | Err(_) => return None,
            Ok(_) if &text[before..] == "\r\n" => return Some(text),
            Ok(_) => (),
        }
    }
}
