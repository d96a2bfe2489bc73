//! A wire to a server that can be made slow, and cut.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Listens on a port of its own until the test's process ends.
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// How much later answers arrive, in milliseconds.
    delay: AtomicU64,
    is_cut: AtomicBool,
}

impl Proxy {
    pub fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.is_cut.load(Relaxed) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                for (from, to, is_answer) in [(&client, &server, false), (&server, &client, true)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let state = Arc::clone(&shared);
                    std::thread::spawn(move || pass_on(from, to, (&state, is_answer)));
                }
            }
        });
        Proxy { port, state }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// From now on answers arrive so much later.
    pub fn delay(&self, by: Duration) {
        self.state.delay.store(by.as_millis() as u64, Relaxed);
    }

    /// Nothing passes any more, and connections break.
    pub fn cut(&self) {
        self.state.is_cut.store(true, Relaxed);
    }

    pub fn mend(&self) {
        self.state.is_cut.store(false, Relaxed);
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, (state, is_answer): (&State, bool)) {
    let _ = to.set_nodelay(true);
    // So that a cut is noticed where nothing is said.
    let _ = from.set_read_timeout(Some(Duration::from_millis(5)));
    let mut buffer = vec![0; 65_536];
    while !state.is_cut.load(Relaxed) {
        let length = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(why)
                if matches!(
                    why.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) =>
            {
                continue;
            }
            Err(_) => break,
        };
        if is_answer {
            std::thread::sleep(Duration::from_millis(state.delay.load(Relaxed)));
        }
        if state.is_cut.load(Relaxed) || to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
