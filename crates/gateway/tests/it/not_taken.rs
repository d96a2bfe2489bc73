//! HTTP/2 upstreams that do not take a request, and say so or go.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use tollgate_gateway::law::Outcome;
use tollgate_policy::shapes::Workers;

use crate::support::{TestGateway, TestLaw, curl};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const ENHANCE_YOUR_CALM: u32 = 11;
const REFUSED_STREAM: u32 = 7;

/// `:status: 200` in HPACK.
const OK: &[u8] = &[0x88];

/// Besides `content-length: 1` and `content-length: 2`.
const TWO_LENGTHS: &[u8] = &[0x88, 0x0f, 0x0d, 1, b'1', 0x0f, 0x0d, 1, b'2'];

/// What an upstream does with a stream.
#[derive(Clone, Copy)]
pub enum Act {
    Answer,
    /// Says nothing of it.
    Wait,
    /// Answers, and never comes to an end.
    Begin,
    /// Begins to answer, in thousands of small pieces, and then answers the first stream.
    Crumble,
    /// Answers with two lengths.
    Contradict,
    /// Answers with a head that has no end.
    Babble,
    /// Says for this reason that it took the first stream only, and closes.
    Leave(u32),
    Close,
    Reset(u32),
}

/// An upstream of frames: does with each stream what `act` says, by the numbers of its connection, from 0, and of its own.
pub struct Frames {
    pub address: SocketAddr,
    /// All that came: connection and stream.
    seen: Arc<Mutex<Vec<(usize, u32)>>>,
}

impl Frames {
    pub fn new(settings: &'static [u8], act: fn(usize, u32) -> Act) -> Frames {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let frames = Frames { address: listener.local_addr().unwrap(), seen: Arc::default() };
        let seen = Arc::clone(&frames.seen);
        thread::spawn(move || {
            for (nth, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                let seen = Arc::clone(&seen);
                thread::spawn(move || {
                    let _ = serve(stream, settings, |number| {
                        seen.lock().unwrap().push((nth, number));
                        act(nth, number)
                    });
                });
            }
        });
        frames
    }

    pub fn seen(&self) -> Vec<(usize, u32)> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, settings: &[u8], act: impl Fn(u32) -> Act) -> std::io::Result<()> {
    let mut send = stream.try_clone()?;
    let mut send =
        |kind, flags, number, payload: &[u8]| send.write_all(&frame(kind, flags, number, payload));
    stream.read_exact(&mut [0; 24])?;
    send(SETTINGS, 0, 0, settings)?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload)?;
        let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        // An answer to half a request is another story.
        let is_request = matches!(head[3], HEADERS | DATA) && head[4] & END_STREAM != 0;
        if !is_request {
            continue;
        }
        match act(number) {
            Act::Answer => send(HEADERS, END_STREAM | END_HEADERS, number, OK)?,
            Act::Wait => (),
            Act::Begin => send(HEADERS, END_HEADERS, number, OK)?,
            Act::Crumble => {
                send(HEADERS, END_HEADERS, number, OK)?;
                (0..4000).try_for_each(|_| send(DATA, 0, number, &[b'y'; 20]))?;
                send(HEADERS, END_STREAM | END_HEADERS, 1, OK)?;
            }
            Act::Reset(code) => send(RST_STREAM, 0, number, &code.to_be_bytes())?,
            Act::Contradict => send(HEADERS, END_HEADERS, number, TWO_LENGTHS)?,
            Act::Babble => {
                send(HEADERS, 0, number, OK)?;
                // A header with a value of a million bytes.
                let mut head = vec![0, 1, b'x', 0x7f, 0xc1, 0x83, 0x3d];
                head.resize(10_000, b'y');
                while send(CONTINUATION, 0, number, &head).is_ok() {}
                return Ok(());
            }
            Act::Leave(reason) => {
                let taken_and_why = [1_u32.to_be_bytes(), reason.to_be_bytes()].concat();
                send(GOAWAY, 0, 0, &taken_and_why)?;
                return close(&mut stream);
            }
            Act::Close => return close(&mut stream),
        }
    }
}

/// Reads what still comes, for the kernel would throw away what was sent.
fn close(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_end(&mut Vec::new()).map(drop)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

pub fn gateway(upstream: &Frames) -> TestGateway {
    let url = format!("http://{}", upstream.address);
    TestGateway::with(&[&url], |server| server.workers = Workers::Fixed(1))
}

fn failures(gateway: &TestGateway) -> Vec<(&'static str, bool)> {
    let failures = gateway.failures.lock().unwrap();
    failures.iter().map(|(why, unsent)| (why.as_str(), *unsent)).collect()
}

/// The statuses of the answers to requests, one after the other. Without TLS, HTTP/2 is for gRPC only.
pub fn answers<const N: usize>(address: SocketAddr, requests: [&[&str]; N]) -> [String; N] {
    let url = format!("http://{address}/");
    requests.map(|request| {
        let grpc = ["--http2-prior-knowledge", "--header", "content-type: application/grpc"];
        let only_status = ["--output", "/dev/null", "--write-out", "%{http_code}", &url];
        curl(&[&grpc, request, &only_status].concat())
    })
}

pub const GET: &[&str] = &["--request", "GET"];
const POST: &[&str] = &["--data", "body"];

/// Does what it is told with the second stream of its first connection, and answers everything else.
macro_rules! at_second {
    ($act:expr) => {
        Frames::new(&[], |connection, stream| match (connection, stream) {
            (0, 3) => $act,
            _ => Act::Answer,
        })
    };
}

/// It was answered 502, and what it was charged was kept.
#[test]
fn what_was_sent_behind_the_last_request_that_an_upstream_took_was_not_sent() {
    // What it promises does not depend on why it goes.
    for upstream in [at_second!(Act::Leave(NO_ERROR)), at_second!(Act::Leave(ENHANCE_YOUR_CALM))] {
        let gateway = gateway(&upstream);
        assert_eq!(answers(gateway.address, [GET, GET]), ["200", "200"]);
        assert_eq!(upstream.seen(), [(0, 1), (0, 3), (1, 1)]);
    }

    // Its body is gone.
    for upstream in [at_second!(Act::Leave(NO_ERROR)), at_second!(Act::Leave(ENHANCE_YOUR_CALM))] {
        let gateway = gateway(&upstream);
        assert_eq!(answers(gateway.address, [GET, POST]), ["200", "502"]);
        assert_eq!(upstream.seen(), [(0, 1), (0, 3)]);
        assert_eq!(failures(&gateway), [("closed", true)]);
    }
}

#[test]
fn what_an_upstream_did_not_take_is_given_back() {
    for (act, outcome) in [(0, Outcome::GivenBack), (1, Outcome::GivenBack), (2, Outcome::Passed)] {
        let upstream = match act {
            0 => at_second!(Act::Leave(NO_ERROR)),
            1 => at_second!(Act::Reset(REFUSED_STREAM)),
            _ => at_second!(Act::Reset(INTERNAL_ERROR)),
        };
        let gateway = TestLaw::new(&format!(
            "
auth: {{ mode: none }}
upstreams: {{ api: {{ url: \"http://{}\" }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
",
            upstream.address
        ));
        answers(gateway.address, [GET, POST]);
        let outcomes: Vec<_> = gateway.records().into_iter().map(|each| each.outcome).collect();
        assert_eq!(outcomes, [Outcome::Passed, outcome]);
    }
}

#[test]
fn a_connection_that_closes_without_a_word_is_as_over_http1() {
    let upstream = at_second!(Act::Close);
    let gateway = gateway(&upstream);
    assert_eq!(answers(gateway.address, [GET, GET]), ["200", "200"]);
    assert_eq!(upstream.seen(), [(0, 1), (0, 3), (1, 1)]);

    let upstream = at_second!(Act::Close);
    let gateway = self::gateway(&upstream);
    assert_eq!(answers(gateway.address, [GET, POST]), ["200", "502"]);
    assert_eq!(failures(&gateway), [("closed", false)]);

    // A connection that never answered is not tried again by another.
    let upstream = Frames::new(&[], |_, _| Act::Close);
    let gateway = self::gateway(&upstream);
    assert_eq!(answers(gateway.address, [GET]), ["502"]);
    assert_eq!(upstream.seen(), [(0, 1)]);
}

#[test]
fn a_refused_stream_goes_over_another_connection_and_the_first_is_kept() {
    let upstream = at_second!(Act::Reset(REFUSED_STREAM));
    let gateway = gateway(&upstream);
    assert_eq!(answers(gateway.address, [GET; 3]), ["200"; 3]);
    assert_eq!(upstream.seen(), [(0, 1), (0, 3), (1, 1), (0, 5)]);

    // Who refuses everything is asked twice, and not over ever more connections.
    let upstream = Frames::new(&[], |_, _| Act::Reset(REFUSED_STREAM));
    let gateway = self::gateway(&upstream);
    assert_eq!(answers(gateway.address, [GET; 3]), ["502"; 3]);
    assert_eq!(upstream.seen(), [(0, 1), (1, 1), (0, 3), (1, 3), (0, 5), (1, 5)]);
}

#[test]
fn a_stream_that_broke_is_not_sent_again() {
    let upstream = at_second!(Act::Reset(INTERNAL_ERROR));
    let gateway = gateway(&upstream);
    assert_eq!(answers(gateway.address, [GET, GET]), ["200", "502"]);
    assert_eq!(upstream.seen(), [(0, 1), (0, 3)]);
}

/// They were sent again, over another connection each time, although they had been answered.
#[test]
fn an_answer_that_is_no_http_is_not_asked_for_again() {
    let upstream = at_second!(Act::Contradict);
    let gateway = gateway(&upstream);
    assert_eq!(answers(gateway.address, [GET; 3]), ["200", "502", "200"]);
    assert_eq!(failures(&gateway), [("bad_response", false)]);
    // The connection is as good as before.
    assert_eq!(upstream.seen(), [(0, 1), (0, 3), (0, 5)]);

    let upstream = at_second!(Act::Babble);
    let gateway = self::gateway(&upstream);
    assert_eq!(answers(gateway.address, [GET; 3]), ["200", "502", "200"]);
    assert_eq!(failures(&gateway), [("bad_response", false)]);
    assert_eq!(upstream.seen(), [(0, 1), (0, 3), (1, 1)]);
}

/// Whoever got such an answer to its request had the address left out for all others.
#[test]
fn an_address_that_says_anything_of_a_request_keeps_its_turn() {
    let acts: [fn(usize, u32) -> Act; 4] = [
        |_, _| Act::Contradict,
        |_, _| Act::Babble,
        |_, _| Act::Reset(INTERNAL_ERROR),
        |_, _| Act::Reset(REFUSED_STREAM),
    ];
    for (nth, act) in acts.into_iter().enumerate() {
        let (bad, good) = (Frames::new(&[], act), Frames::new(&[], |_, _| Act::Answer));
        let urls = [&bad, &good].map(|each| format!("http://{}", each.address));
        let gateway = TestGateway::with(&urls.each_ref().map(String::as_str), |server| {
            server.workers = Workers::Fixed(1);
        });
        let answers = answers(gateway.address, [POST; 4]);
        assert_eq!(answers, ["502", "200", "502", "200"], "act {nth}");
    }
}

/// They were answered 502, as if the upstream had closed the connection.
#[test]
fn a_body_that_is_its_callers_fault_is_told_as_that_and_its_connection_is_kept() {
    let upstream = Frames::new(&[], |_, _| Act::Answer);
    let url = format!("http://{}", upstream.address);
    let gateway = TestGateway::with(&[&url], |server| {
        server.workers = Workers::Fixed(1);
        server.caps.body_bytes = 100;
    });
    // It does not say how long it is.
    let body = Full::new(Bytes::from("y".repeat(101))).map_frame(|frame| frame);
    let request = Request::post("http://a/").header("content-type", "application/grpc");
    let request = request.body(body).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut sender = crate::http2::connect_with(gateway.address).await;
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    });
    assert_eq!(failures(&gateway), [("request_too_large", false)]);
    assert_eq!(answers(gateway.address, [GET]), ["200"]);
    assert_eq!(upstream.seen().iter().filter(|(connection, _)| *connection > 0).count(), 0);
}

/// `SETTINGS_MAX_CONCURRENT_STREAMS` is 1.
const ONE_STREAM: &[u8] = &[0, 3, 0, 0, 0, 1];

/// As many calls at once, which have all begun to be answered; they end with the runtime.
async fn endless(address: SocketAddr, calls: usize) -> impl Sized {
    let sender = crate::http2::connect(address).await;
    let call = |_| {
        let request = Request::get("http://a/").header("content-type", "application/grpc");
        let mut sender = sender.clone();
        tokio::spawn(sender.send_request(request.body(Full::new(Bytes::new())).unwrap()))
    };
    let calls: Vec<_> = (0..calls).map(call).collect();
    let mut begun = Vec::new();
    for call in calls {
        let response = call.await.unwrap().unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        begun.push(response);
    }
    (sender, begun)
}

/// Calls waited until they were too late behind streams that never ended, and a healthy address was left out.
#[test]
fn more_streams_than_an_upstream_allows_have_another_connection() {
    let upstream = Frames::new(ONE_STREAM, |connection, _| match connection {
        0 => Act::Begin,
        _ => Act::Answer,
    });
    let gateway = gateway(&upstream);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _endless = runtime.block_on(endless(gateway.address, 1));
    assert_eq!(answers(gateway.address, [GET, POST]), ["200", "200"]);
    assert_eq!(upstream.seen(), [(0, 1), (1, 1), (1, 3)]);
}

#[test]
fn who_comes_before_a_new_connection_is_heard_goes_by_what_was_allowed_before() {
    let upstream = Frames::new(ONE_STREAM, |_, _| Act::Begin);
    let gateway = gateway(&upstream);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _first = runtime.block_on(endless(gateway.address, 1));
    let _burst = runtime.block_on(endless(gateway.address, 5));
    let mut seen = upstream.seen();
    seen.sort_unstable();
    assert_eq!(seen, [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]);
}
