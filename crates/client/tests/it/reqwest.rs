//! The middleware in a real reqwest client, against a real socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tollgate_client::{Ask, PaceMiddleware, Pacers, Settings, TooLong};

/// Answers each request of each connection with the next of these heads, the last one from then on.
async fn server(heads: &[&str]) -> (String, Arc<AtomicUsize>) {
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = Arc::new(AtomicUsize::new(0));
    let count = served.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = Vec::new();
            while !seen.ends_with(b"\r\n\r\n") {
                seen.push(stream.read_u8().await.unwrap());
            }
            let head = &heads[count.fetch_add(1, SeqCst).min(heads.len() - 1)];
            let answer = format!("{head}connection: close\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    (format!("http://{address}/"), served)
}

fn client(pacers: &Pacers) -> ClientWithMiddleware {
    let plain = reqwest::Client::builder().no_proxy().build().unwrap();
    ClientBuilder::new(plain).with(PaceMiddleware::new(pacers.clone())).build()
}

#[tokio::test]
async fn a_refused_request_is_sent_again_when_the_server_said() {
    let (url, served) = server(&[
        "HTTP/1.1 429 Too Many Requests\r\nretry-after-ms: 30\r\n",
        "HTTP/1.1 200 OK\r\nratelimit: \"a\";r=7;t=1\r\n",
    ])
    .await;
    let pacers = Pacers::new(Settings::new());
    let response = client(&pacers).get(&url).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(served.load(SeqCst), 2);
    let uri = url.parse().unwrap();
    assert_eq!(pacers.pacer(&uri, &http::HeaderMap::new()).status().limits[0].remaining, 7);
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_an_error_of_its_own_type() {
    let (url, served) = server(&["HTTP/1.1 429 Too Many Requests\r\nretry-after: 60\r\n"]).await;
    let client = client(&Pacers::new(Settings::new().max_wait(Duration::from_secs(1))));
    assert_eq!(client.get(&url).send().await.unwrap().status(), 429);
    let error = client.get(&url).send().await.unwrap_err();
    let reqwest_middleware::Error::Middleware(error) = error else { panic!("{error}") };
    let too_long: &TooLong = error.downcast_ref().unwrap();
    assert!(too_long.wait() > Duration::from_secs(50));
    assert_eq!(served.load(SeqCst), 1);
}

const OK: &str = "HTTP/1.1 200 OK\r\n";

#[tokio::test]
async fn what_may_have_been_done_is_not_sent_again_nor_what_the_server_wants_no_more() {
    const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nretry-after-ms: 20\r\n";
    const NEVER: &str = "HTTP/1.1 429 Too Many Requests\r\nx-should-retry: false\r\n";
    let pacers = Pacers::new(Settings::new());
    let (url, served) = server(&[BUSY, OK]).await;
    assert_eq!(client(&pacers).post(&url).send().await.unwrap().status(), 503);
    assert_eq!(served.load(SeqCst), 1);
    let (url, served) = server(&[BUSY, OK]).await;
    assert_eq!(client(&pacers).get(&url).send().await.unwrap().status(), 200);
    assert_eq!(served.load(SeqCst), 2);
    let (url, served) = server(&[NEVER, OK]).await;
    assert_eq!(client(&pacers).get(&url).send().await.unwrap().status(), 429);
    assert_eq!(served.load(SeqCst), 1);
}

#[tokio::test]
async fn retries_end_with_their_budget() {
    let (url, served) = server(&["HTTP/1.1 502 Bad Gateway\r\n"]).await;
    let client = client(&Pacers::new(Settings::new().retry_ratio(0.0)));
    for _ in 0..4 {
        assert_eq!(client.get(&url).send().await.unwrap().status(), 502);
    }
    // Five at first, and no more.
    assert_eq!(served.load(SeqCst), 4 + 5);
}

#[tokio::test]
async fn what_a_request_asks_for_is_found_in_its_extensions() {
    let (url, _) = server(&["HTTP/1.1 200 OK\r\nratelimit: \"a\";r=7;t=3600\r\n"]).await;
    let pacers = Pacers::new(Settings::new());
    let ask = Ask { operation: Some("search"), ..Ask::default() };
    let client = client(&pacers);
    client.get(&url).with_extension(ask).send().await.unwrap();
    let dear = client.get(&url).with_extension(Ask { cost: 8, ..ask }).send().await;
    assert!(matches!(dear, Err(reqwest_middleware::Error::Middleware(_))), "{dear:?}");
    let status =
        |ask| pacers.pacer_for(&url.parse().unwrap(), &http::HeaderMap::new(), ask).status();
    assert_eq!(status(ask).limits[0].remaining, 7);
    assert!(status(Ask::default()).limits.is_empty());
}

/// It answers once and is gone.
#[tokio::test]
async fn a_connection_that_cannot_be_made_is_charged_to_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let once = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\n") {
            seen.push(stream.read_u8().await.unwrap());
        }
        let head = "HTTP/1.1 200 OK\r\nx-ratelimit-limit: 60\r\nx-ratelimit-remaining: 59\r\n\
                    x-ratelimit-reset: 3600\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    });
    let pacers = Pacers::new(Settings::new());
    let client = client(&pacers);
    assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
    once.await.unwrap();
    for _ in 0..70 {
        let error = client.get(&url).send().await.unwrap_err();
        assert!(error.is_connect(), "{error}");
    }
    let status = pacers.pacer(&url.parse().unwrap(), &http::HeaderMap::new()).status();
    assert_eq!((status.in_flight, status.limits[0].remaining), (0, 59));
}

#[tokio::test]
async fn what_another_origin_answers_is_not_taken_for_what_the_server_said() {
    for status in ["429 Too Many Requests", "502 Bad Gateway"] {
        let refusal =
            format!("HTTP/1.1 {status}\r\nretry-after: 1\r\nratelimit: \"a\";r=0;t=60\r\n");
        let (elsewhere, answered) = server(&[&refusal]).await;
        let found = format!("HTTP/1.1 302 Found\r\nlocation: {elsewhere}\r\n");
        let (url, served) = server(&[&found]).await;
        let pacers = Pacers::new(Settings::new());
        let response = client(&pacers).get(&url).send().await.unwrap();
        assert_eq!(response.url().as_str(), elsewhere);
        assert_eq!((served.load(SeqCst), answered.load(SeqCst)), (1, 1), "{status}");
        let known = pacers.pacer(&url.parse().unwrap(), &http::HeaderMap::new()).status();
        assert_eq!((known.limits.len(), known.next_in, known.in_flight), (0, Duration::ZERO, 0));
    }
}

/// From one path to another it is the same server that answers.
#[tokio::test]
async fn what_the_same_origin_answers_elsewhere_is_heard() {
    const LEFT: &str = "HTTP/1.1 200 OK\r\nratelimit: \"a\";r=7;t=60\r\n";
    let (url, served) = server(&["HTTP/1.1 302 Found\r\nlocation: /there\r\n", LEFT]).await;
    let pacers = Pacers::new(Settings::new());
    client(&pacers).get(&url).send().await.unwrap();
    let known = pacers.pacer(&url.parse().unwrap(), &http::HeaderMap::new()).status();
    assert_eq!((served.load(SeqCst), known.limits[0].remaining), (2, 7));
}

/// A server that leads everything to `elsewhere`, its path kept or not.
async fn leading_to(elsewhere: &str) -> (String, Arc<AtomicUsize>) {
    server(&[&format!("HTTP/1.1 302 Found\r\nlocation: {elsewhere}\r\n")]).await
}

fn at(pacers: &Pacers, url: &str, headers: &http::HeaderMap) -> tollgate_client::Status {
    pacers.pacer(&url.parse().unwrap(), headers).status()
}

#[tokio::test]
async fn where_a_server_leads_the_answer_is_heard_under_what_was_taken_along() {
    let (there, _) = server(&["HTTP/1.1 200 OK\r\nratelimit: \"a\";r=7;t=60\r\n"]).await;
    let (url, _) = leading_to(&there).await;
    let pacers = Pacers::new(Settings::new());
    let request = client(&pacers).get(&url).header("x-api-key", "k").header("authorization", "a");
    assert_eq!(request.send().await.unwrap().status(), 200);
    // reqwest does not tell others of an `Authorization`.
    let taken = crate::headers(&[("x-api-key", "k")]);
    let status = at(&pacers, &there, &taken);
    assert_eq!((status.limits[0].remaining, status.in_flight), (7, 0));
    assert_eq!(at(&pacers, &url, &taken).in_flight, 0);
    let sent = crate::headers(&[("x-api-key", "k"), ("authorization", "a")]);
    assert!(at(&pacers, &there, &sent).limits.is_empty());
    assert!(at(&pacers, &url, &sent).limits.is_empty());
}

#[tokio::test]
async fn where_a_server_leads_the_next_request_waits_for_what_both_allow() {
    const WAIT: &str = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 60\r\n";
    for path in ["", "elsewhere"] {
        let (there, answered) = server(&[WAIT]).await;
        let (url, served) = leading_to(&format!("{there}{path}")).await;
        let pacers = Pacers::new(Settings::new().max_wait(Duration::from_secs(1)));
        let client = client(&pacers);
        assert_eq!(client.get(&url).send().await.unwrap().status(), 429);
        let again = client.get(&url).send().await;
        if path.is_empty() {
            let Err(reqwest_middleware::Error::Middleware(error)) = again else { panic!("sent") };
            let too_long: &TooLong = error.downcast_ref().unwrap();
            assert!(too_long.wait() > Duration::from_secs(50));
            assert_eq!((served.load(SeqCst), answered.load(SeqCst)), (1, 1));
        } else {
            // Only a page has moved: the server's other pages may be its own.
            assert_eq!((served.load(SeqCst), answered.load(SeqCst)), (2, 2));
        }
        let nobody = http::HeaderMap::new();
        assert_eq!(
            (at(&pacers, &url, &nobody).in_flight, at(&pacers, &there, &nobody).in_flight),
            (0, 0)
        );
    }
}

#[tokio::test]
async fn a_server_that_answers_itself_again_leads_nowhere() {
    let left = "HTTP/1.1 200 OK\r\nratelimit: \"a\";r=99;t=60\r\nratelimit-policy: \"a\";q=100\r\n";
    let (there, answered) = server(&[left]).await;
    let found = format!("HTTP/1.1 302 Found\r\nlocation: {there}\r\n");
    let (url, served) = server(&[&found, OK]).await;
    let pacers = Pacers::new(Settings::new().max_wait(Duration::from_secs(1)));
    let client = client(&pacers);
    for _ in 0..4 {
        assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
    }
    assert_eq!((served.load(SeqCst), answered.load(SeqCst)), (4, 1));
    let status = at(&pacers, &there, &http::HeaderMap::new());
    // What had leave of it was not sent there.
    assert_eq!((status.limits[0].remaining, status.in_flight), (99, 0));
}

/// A server that leads to another, and does not any more: it answers with this.
async fn having_led(there: &str, now: &str) -> (String, Arc<AtomicUsize>) {
    server(&[&format!("HTTP/1.1 302 Found\r\nlocation: {there}\r\n"), now]).await
}

/// Another request to it is refused.
async fn is_to_be_left_alone(pacers: &Pacers, url: &str, seconds: &str) {
    let pacer = pacers.pacer(&url.parse().unwrap(), &http::HeaderMap::new());
    let permit = pacer.acquire(Ask::default()).await.unwrap();
    let refused = http::StatusCode::TOO_MANY_REQUESTS;
    permit.heard(refused, &crate::headers(&[("retry-after", seconds)]));
}

async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn an_answer_is_not_lost_because_where_it_leads_has_to_be_waited_for() {
    let (there, _) = server(&[OK]).await;
    // Long enough for what happens before it is over, and not too long to be waited for.
    let in_trouble = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 8\r\n";
    let (url, served) = having_led(&there, in_trouble).await;
    let pacers = Pacers::new(Settings::new().max_wait(Duration::from_secs(10)));
    let client = client(&pacers);
    assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
    let second = tokio::spawn(client.get(&url).send());
    until(|| served.load(SeqCst) == 2).await;
    is_to_be_left_alone(&pacers, &there, "60").await;
    assert_eq!(second.await.unwrap().unwrap().status(), 503);
    assert_eq!(served.load(SeqCst), 2);
}

#[tokio::test]
async fn nobody_is_asked_who_wants_to_be_left_alone_since_leave_was_given() {
    let (there, _) = server(&[OK]).await;
    let (url, served) = having_led(&there, OK).await;
    let pacers = Pacers::new(Settings::new().max_wait(Duration::from_secs(10)));
    let client = client(&pacers);
    assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
    // As above.
    is_to_be_left_alone(&pacers, &there, "8").await;
    let second = tokio::spawn(client.get(&url).send());
    until(|| at(&pacers, &url, &http::HeaderMap::new()).in_flight == 1).await;
    is_to_be_left_alone(&pacers, &url, "60").await;
    let error = second.await.unwrap().unwrap_err();
    let reqwest_middleware::Error::Middleware(error) = error else { panic!("{error}") };
    assert!(error.downcast_ref::<TooLong>().unwrap().wait() > Duration::from_secs(50));
    assert_eq!(served.load(SeqCst), 1);
    let in_flight = [&url, &there].map(|url| at(&pacers, url, &http::HeaderMap::new()).in_flight);
    assert_eq!(in_flight, [0, 0]);
}
