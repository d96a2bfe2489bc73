//! What a server of our kind does at least: a runtime a thread, a task a connection. It takes what comes and sends as many bytes as our refusal
//! has. No parsing, no key, no limit.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A refusal's, by `curl -i`.
pub const LENGTH: usize = 1_414;

/// Serves until it is killed.
pub fn serve(port: u16) -> std::io::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build_local(Default::default())?.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::task::spawn_local(answer_all(stream));
        }
    })
}

async fn answer_all(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (answer, mut scratch) = (answer(), [0; 4096]);
    while stream.read(&mut scratch).await? > 0 {
        stream.write_all(&answer).await?;
    }
    Ok(())
}

fn answer() -> Vec<u8> {
    let head = |length: usize| {
        format!("HTTP/1.1 429 Too Many Requests\r\ncontent-length: {length:05}\r\n\r\n")
    };
    let body = LENGTH - head(0).len();
    let mut answer = head(body).into_bytes();
    answer.resize(LENGTH, b'x');
    answer
}
