//! When the breaker opens and how it comes back, in the runtime's paused time: no machine is too busy for these bounds.

use std::sync::atomic::Ordering::SeqCst;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::*;

/// By when the breaker is open after a call has met a dead server, or a silent one at the default timeout.
const OPEN: Duration = Duration::from_millis(100);

/// Something that answers every command with OK. It is a task of the same runtime: while there is anything to send, hear
/// or do, time stands still.
struct Fake {
    port: u16,
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    /// Hears everything and says nothing, as a stopped process does.
    is_silent: AtomicBool,
    /// Ends every connection at once.
    hangs_up: AtomicBool,
    /// When somebody connected.
    connected: Mutex<Vec<Instant>>,
}

impl Fake {
    async fn start() -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let state = Arc::<State>::default();
        let task = tokio::spawn(accept(listener, Arc::clone(&state)));
        Fake { port, state, task }
    }

    fn settings(&self) -> Settings {
        Settings::new(&format!("redis://127.0.0.1:{}", self.port)).expect("a good address")
    }

    /// Ends it and all its connections, as `kill -9` does.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// How long after one another they connected.
    fn pauses(&self) -> Vec<Duration> {
        self.state.connected.lock().windows(2).map(|two| two[1] - two[0]).collect()
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    // Dropped with this task, and all connections with it.
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        state.connected.lock().push(Instant::now());
        if !state.hangs_up.load(SeqCst) {
            connections.spawn(answer(socket, Arc::clone(&state)));
        }
    }
}

async fn answer(mut socket: TcpStream, state: Arc<State>) {
    let mut heard = Vec::new();
    while socket.read_buf(&mut heard).await.is_ok_and(|length| length > 0) {
        while let Some(length) = first_command(&heard) {
            heard.drain(..length);
            if !state.is_silent.load(SeqCst) && socket.write_all(b"+OK\r\n").await.is_err() {
                return;
            }
        }
    }
}

/// How long the first whole command is: `*2`, and for each of its words `$<length>` and the word, a line each.
fn first_command(heard: &[u8]) -> Option<usize> {
    let number = |from: usize| {
        let length = heard.get(from..)?.iter().position(|byte| *byte == b'\r')?;
        let text = std::str::from_utf8(&heard[from + 1..from + length]).ok()?;
        Some((text.parse::<usize>().ok()?, from + length + 2))
    };
    let (words, mut at) = number(0)?;
    for _ in 0..words {
        let (length, after) = number(at)?;
        at = after + length + 2;
    }
    (at <= heard.len()).then_some(at)
}

fn ping() -> Cmd {
    redis::cmd("PING")
}

async fn up(settings: Settings) -> Calls {
    let calls = Calls::start(settings);
    calls.up().await;
    assert!(calls.ask(ping(), None).await.is_ok());
    calls
}

#[tokio::test(start_paused = true)]
async fn a_killed_server_opens_the_breaker_with_the_first_call() {
    let server = Fake::start().await;
    let calls = up(server.settings()).await;
    server.kill().await;
    let begin = Instant::now();
    let failed = calls.ask(ping(), None).await.expect_err("nobody is there");
    assert!(failed.may_have_run(), "{failed}");
    assert!(!calls.is_up() && calls.opened() == 1, "whoever is told finds it open");
    assert!(begin.elapsed() <= OPEN, "{:?}", begin.elapsed());
    // From now on nobody is sent anywhere: connections are refused.
    let begin = Instant::now();
    for _ in 0..1000 {
        assert_eq!(calls.ask(ping(), None).await, Err(Unavailable::Open));
    }
    assert_eq!(begin.elapsed(), Duration::ZERO);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(calls.ask(ping(), None).await, Err(Unavailable::Open));
    assert_eq!(calls.opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_refused_never_lets_anybody_wait() {
    let server = Fake::start().await;
    let settings = server.settings();
    server.kill().await;
    let (calls, begin) = (Calls::start(settings), Instant::now());
    assert_eq!(calls.ask(ping(), None).await, Err(Unavailable::Open));
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

/// Whatever is handed in while the first waits, all are told when the first is.
async fn silence_opens_it_after(timeout: Duration) {
    let server = Fake::start().await;
    let calls = up(server.settings().timeout(timeout)).await;
    server.state.is_silent.store(true, SeqCst);
    let begin = Instant::now();
    let mut callers = JoinSet::new();
    for nth in 0..40 {
        let calls = calls.clone();
        callers.spawn(async move {
            sleep(timeout * nth / 41).await;
            let failed = calls.ask(ping(), None).await.expect_err("nobody answers");
            (failed, calls.is_up(), Instant::now())
        });
    }
    while let Some(told) = callers.join_next().await {
        let (_, is_up, at) = told.expect("it does not panic");
        assert!(!is_up, "whoever is told finds it open");
        assert!(at - begin >= timeout && at - begin <= timeout + Duration::from_millis(2));
    }
    assert_eq!(calls.opened(), 1);
    // Not one more waits, and it stays open as long as a script is not answered.
    let begin = Instant::now();
    assert_eq!(calls.ask(ping(), None).await, Err(Unavailable::Open));
    assert_eq!(begin.elapsed(), Duration::ZERO);
    sleep(Duration::from_secs(10)).await;
    assert!(!calls.is_up());
    server.state.is_silent.store(false, SeqCst);
    calls.up().await;
    assert!(calls.ask(ping(), None).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_opens_the_breaker_after_the_timeout() {
    let by_default = Settings::new("redis://127.0.0.1").expect("a good address").longest_wait();
    assert!(by_default <= OPEN, "{by_default:?}");
    silence_opens_it_after(by_default).await;
    // Whoever allows longer answers waits so long for the first that does not come.
    silence_opens_it_after(Duration::from_millis(500)).await;
}

/// Whoever waits to be sent while others wait for answers. What broke: they were told that they might have run, so a slice that
/// nobody had asked to renew was given up.
#[tokio::test(start_paused = true)]
async fn what_was_not_sent_when_the_breaker_opens_has_certainly_not_run() {
    let server = Fake::start().await;
    let calls = up(server.settings()).await;
    server.state.is_silent.store(true, SeqCst);
    let mut sent = Vec::new();
    for _ in 0..ON_THE_WAY {
        let batch = (0..BATCH).map(|_| calls.hand_in(ping(), None).expect("the breaker is closed"));
        sent.extend(batch.collect::<Vec<_>>());
        // Till it is on its way.
        sleep(Duration::from_millis(1)).await;
    }
    let mut last = calls.hand_in(ping(), None).expect("the breaker is closed");
    assert_eq!(last.answer().await, Err(Unavailable::Open));
    assert_eq!(calls.opened(), 1);
    for mut asked in sent {
        let failed = asked.answer().await.expect_err("nobody answers");
        assert!(failed.may_have_run(), "{failed}");
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_to_a_second_and_are_short_again_after_a_steady_time() {
    let server = Fake::start().await;
    let calls = up(server.settings()).await;
    server.state.hangs_up.store(true, SeqCst);
    // The connection there is ends with the next word.
    server.state.is_silent.store(true, SeqCst);
    sleep(STEADY).await;
    assert!(calls.ask(ping(), None).await.is_err());
    sleep(Duration::from_secs(20)).await;
    let pauses = server.pauses();
    assert!(pauses.len() > 20, "{pauses:?}");
    let mut longest = PAUSE;
    for pause in &pauses[1..] {
        longest = (2 * longest).min(LONGEST_PAUSE);
        // The clock's own step is a millisecond.
        let bounds = longest / 2..=longest + Duration::from_millis(2);
        assert!(bounds.contains(pause), "{pause:?} is not in {bounds:?}: {pauses:?}");
    }
    // Ten of half a second to one: that they are all within a tenth of a second happens once in 200,000 times.
    let late = &pauses[pauses.len() - 10..];
    let spread = late.iter().max().expect("ten").saturating_sub(*late.iter().min().expect("ten"));
    assert!(spread > Duration::from_millis(100), "{pauses:?}");
    // It comes back, and stays for a while: then the first pause is short.
    server.state.hangs_up.store(false, SeqCst);
    server.state.is_silent.store(false, SeqCst);
    calls.up().await;
    sleep(STEADY).await;
    server.state.is_silent.store(true, SeqCst);
    assert!(calls.ask(ping(), None).await.is_err());
    let failed = Instant::now();
    server.state.is_silent.store(false, SeqCst);
    calls.up().await;
    let first = failed.elapsed();
    assert!((PAUSE / 2..=PAUSE + Duration::from_millis(2)).contains(&first), "{first:?}");
}

#[test]
fn drawn_pauses_are_spread_over_half_of_the_longest() {
    for longest in [PAUSE, LONGEST_PAUSE] {
        let mut tenths = [0; 10];
        for _ in 0..2000 {
            let pause = drawn(longest);
            assert!(pause >= longest / 2 && pause <= longest, "{pause:?} of {longest:?}");
            let part = (pause - longest / 2).as_secs_f64() / (longest / 2).as_secs_f64();
            tenths[((part * 10.0) as usize).min(9)] += 1;
        }
        // 200 are expected in each: fewer than 100 are seven deviations below.
        assert!(tenths.iter().all(|count| *count > 100), "{tenths:?}");
    }
}
