//! HTTP/1.1 as upstreams speak it: well, badly, early, in small pieces, or not to the end.

use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::mpsc;

use crate::support::{Exchange, Raw, Served, TestGateway, curl, eventually, get, header};
use tollgate_policy::shapes::Workers;

fn gateway(upstream: &Served) -> TestGateway {
    TestGateway::with(&[&upstream.url()], |server| server.workers = Workers::Fixed(1))
}

/// Answers every request with these bytes, and keeps the connection open.
fn says(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Served {
    Served::new(move |exchange: &mut Exchange| {
        exchange.write(bytes.as_ref());
        true
    })
}

#[test]
fn a_connection_is_used_again_after_a_response_that_leaves_it_clean_and_no_other() {
    let rows: &[(&str, &str, bool)] = &[
        ("GET", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", true),
        ("GET", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", true),
        ("GET", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", true),
        ("GET", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: y\r\n\r\n", true),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n", true),
        ("GET", "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", true),
        ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", true),
        ("HEAD", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", true),
        ("GET", "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n", true),
        ("GET", "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", false),
        ("GET", "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", false),
        ("GET", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi and more", false),
        ("GET", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nmore", false),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\nmore", false),
        ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nmore", false),
    ];
    for (method, answer, is_kept) in rows {
        let upstream = says(*answer);
        let gateway = gateway(&upstream);
        for _ in 0..3 {
            let request = format!("{method} / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
            let seen = Raw::connect(gateway.address).write(request).rest();
            let status = answer.split(' ').nth(1).unwrap();
            assert!(seen.starts_with(&format!("HTTP/1.1 {status}")), "{answer:?}: {seen:?}");
            assert!(!seen.contains("more"), "{answer:?}: {seen:?}");
            assert_eq!(seen.contains("hi"), answer.contains("hi"), "{answer:?}: {seen:?}");
        }
        assert_eq!(upstream.connections(), if *is_kept { 1 } else { 3 }, "{answer:?}");
    }
}

#[test]
fn a_body_without_a_length_ends_with_the_connection() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        exchange.write("HTTP/1.1 200 OK\r\nx-one: 1\r\n\r\nall ");
        exchange.write("of it");
        false
    });
    let gateway = gateway(&upstream);
    assert_eq!(curl(&[&gateway.url("/")]), "all of it");
    assert_eq!(curl(&["--http2-prior-knowledge", &gateway.url("/")]), "all of it");
    assert_eq!(upstream.connections(), 2);
}

#[test]
fn responses_in_the_smallest_pieces_are_the_same() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        let answer = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 Fine\r\nx-one: 1\r\n\
                      transfer-encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nx-sum: 2\r\n\r\n";
        for byte in answer.as_bytes().chunks(1) {
            exchange.write(byte);
            std::thread::yield_now();
        }
        true
    });
    let gateway = gateway(&upstream);
    for _ in 0..5 {
        let mut caller = Raw::connect(gateway.address);
        let head = caller.write("GET / HTTP/1.1\r\nhost: a\r\nte: trailers\r\n\r\n").head();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert_eq!((header(&head, "x-one"), header(&head, "link")), (Some("1"), None));
        caller.read_until("0\r\n\r\n");
        assert_eq!(curl(&[&gateway.url("/")]), "hello!");
    }
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn a_response_that_could_be_read_in_two_ways_is_502() {
    let with = |lines: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\nhello");
    let rows = [
        with("content-length: 5\r\ncontent-length: 6"),
        with("content-length: +5"),
        with("content-length: 5\r\ntransfer-encoding: chunked"),
        with("transfer-encoding: gzip, chunked"),
        with("transfer-encoding: chunked\r\nx: 1\r\n 2"),
        with("content-length: 5\r\nx: 1\r2"),
        with("content-length: 5\r\nx: 1\0"),
        with("content-length: 5\r\nx : 1"),
        with(&format!("content-length: 5\r\n{}", vec!["x: 1"; 200].join("\r\n"))),
        with(&format!("content-length: 5\r\nx: {}", "y".repeat(70_000))),
        with("transfer-encoding: chunked"),
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n".to_owned(),
    ];
    for row in rows {
        let upstream = says(row.clone());
        let gateway = gateway(&upstream);
        let (head, _) = get(gateway.address, "/");
        assert!(head.starts_with("HTTP/1.1 502"), "{:?}: {head}", &row[..row.len().min(100)]);
        let failures = gateway.failures.lock().unwrap().clone();
        assert_eq!((failures[0].0.as_str(), failures[0].1), ("bad_response", false));
        assert_eq!(upstream.heads().len(), 1, "never sent twice");
    }
}

#[test]
fn a_body_that_turns_out_to_be_none_is_broken_off() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let upstream = Served::new(move |exchange: &mut Exchange| {
        exchange.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n");
        wait.lock().unwrap().recv().unwrap();
        exchange.write("+5\r\nhello\r\n0\r\n\r\n");
        true
    });
    let gateway = gateway(&upstream);
    let mut caller = Raw::connect(gateway.address);
    caller.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n").read_until("hello");
    go.send(()).unwrap();
    assert!(!caller.rest().contains("0\r\n\r\n"));
}

#[test]
fn headers_that_name_others_do_not_unsay_what_the_gateway_says() {
    let upstream = Served::echo();
    let gateway = gateway(&upstream);
    let request = "GET / HTTP/1.1\r\nhost: a\r\nconnection: x-forwarded-for, x-forwarded-proto, x-own\r\n\
                   x-own: 1\r\nx-forwarded-for: 6.6.6.6\r\nx-forwarded-proto: gopher\r\n\
                   x-forwarded-host: evil\r\n\r\n";
    let (_, seen) = Raw::connect(gateway.address).write(request).response();
    let lines = |name: &str| seen.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(header(&seen, "x-own"), None);
    assert_eq!(header(&seen, "x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(header(&seen, "x-forwarded-proto"), Some("http"));
    assert_eq!(header(&seen, "x-forwarded-host"), Some("a"));
    assert_eq!(lines("x-forwarded-"), 3, "{seen}");
}

#[test]
fn bodies_of_unknown_length_go_on_in_chunks_whatever_the_method() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        assert_eq!(header(&exchange.head, "content-length"), None);
        assert_eq!(header(&exchange.head, "transfer-encoding"), Some("chunked"));
        let body = exchange.lines();
        exchange.ok(&body);
        true
    });
    let gateway = gateway(&upstream);
    for method in ["POST", "GET", "DELETE"] {
        let request = format!(
            "{method} / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        );
        let seen = Raw::connect(gateway.address).write(request).response().1;
        assert_eq!(seen, "5\r\nhello\r\n0\r\n\r\n", "{method}");
    }
}

#[test]
fn trailers_pass_as_announced_but_not_what_only_the_gateway_may_say() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        let body = exchange.lines();
        exchange.ok(&body);
        true
    });
    let gateway = gateway(&upstream);
    let request = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\
                   trailer: x-sum, x-tollgate-tenant, x-forwarded-for, content-length\r\n\r\n\
                   2\r\nhi\r\n0\r\nx-sum: 1\r\nx-tollgate-tenant: evil\r\nx-forwarded-for: 6.6.6.6\r\n\
                   x-other: 1\r\n\r\n";
    let seen = Raw::connect(gateway.address).write(request).response().1;
    assert!(seen.ends_with("0\r\nx-sum: 1\r\n\r\n"), "{seen:?}");
}

#[test]
fn an_early_answer_streams_while_the_body_is_still_sent() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        exchange.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        for _ in 0..50 {
            let mut word = [0; 4];
            exchange.reader.read_exact(&mut word).unwrap();
            exchange.write("4\r\n");
            exchange.write(word);
            exchange.write("\r\n");
        }
        exchange.write("0\r\n\r\n");
        true
    });
    let gateway = gateway(&upstream);
    for _ in 0..2 {
        let mut caller = Raw::connect(gateway.address);
        caller.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 200\r\n\r\n");
        assert!(caller.head().starts_with("HTTP/1.1 200"));
        for n in 0..50 {
            let word = format!("{n:04}");
            caller.write(&word).read_until(&word);
        }
        caller.read_until("0\r\n\r\n");
    }
    assert_eq!(upstream.connections(), 1, "both were complete");
}

#[test]
fn an_early_refusal_of_a_large_body_reaches_the_caller() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        exchange
            .write("HTTP/1.1 413 Too Large\r\ncontent-length: 5\r\nconnection: close\r\n\r\nlarge");
        // Keeps open long enough for the answer to be read before the connection is reset.
        let mut some = [0; 1 << 16];
        for _ in 0..16 {
            let _ = exchange.reader.read(&mut some);
        }
        false
    });
    let gateway = gateway(&upstream);
    let mut caller = Raw::connect(gateway.address);
    caller.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000000\r\n\r\n");
    let chunk = vec![b'x'; 1 << 16];
    let mut uploader = caller.0.try_clone().unwrap();
    let uploading = std::thread::spawn(move || while uploader.write_all(&chunk).is_ok() {});
    assert!(caller.head().starts_with("HTTP/1.1 413"));
    caller.read_until("large");
    drop(caller.0.shutdown(std::net::Shutdown::Both));
    uploading.join().unwrap();
}

#[test]
fn an_upstream_that_reads_slowly_gets_all_of_it() {
    const SIZE: usize = 20_000_000;
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let upstream = Served::new(move |exchange: &mut Exchange| {
        wait.lock().unwrap().recv().unwrap();
        let mut body = Vec::new();
        if header(&exchange.head, "content-length").is_some() {
            body = exchange.body();
        } else {
            loop {
                let mut line = String::new();
                std::io::BufRead::read_line(&mut exchange.reader, &mut line).unwrap();
                let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
                let mut chunk = vec![0; size + 2];
                exchange.reader.read_exact(&mut chunk).unwrap();
                if size == 0 {
                    break;
                }
                body.extend_from_slice(&chunk[..size]);
            }
        }
        let is_right = body.len() == SIZE
            && body.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8);
        exchange.ok(if is_right { "right" } else { "wrong" });
        true
    });
    let gateway = gateway(&upstream);
    let body: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
    for framing in ["content-length: 20000000", "transfer-encoding: chunked"] {
        let mut caller = Raw::connect(gateway.address);
        caller.write(format!("POST / HTTP/1.1\r\nhost: a\r\n{framing}\r\n\r\n"));
        let mut uploader = Raw(caller.0.try_clone().unwrap());
        let (body, is_chunked) = (body.clone(), framing.contains("chunked"));
        let uploading = std::thread::spawn(move || {
            if !is_chunked {
                uploader.write(&body);
                return;
            }
            for chunk in body.chunks(100_000) {
                uploader.write(format!("{:x}\r\n", chunk.len())).write(chunk).write("\r\n");
            }
            uploader.write("0\r\n\r\n");
        });
        eventually("the upstream has the head", || !upstream.heads().is_empty());
        // The caller's bytes fill every buffer on the way before one of them is read.
        std::thread::sleep(std::time::Duration::from_millis(200));
        go.send(()).unwrap();
        assert_eq!(caller.response().1, "right", "{framing}");
        uploading.join().unwrap();
    }
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn a_large_answer_arrives_unchanged() {
    const SIZE: usize = 5_000_000;
    let upstream = Served::new(|exchange: &mut Exchange| {
        let body: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
        if exchange.head.contains("/length") {
            exchange.write(format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n"));
            exchange.write(&body);
        } else {
            exchange.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            for chunk in body.chunks(77_777) {
                exchange
                    .write([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
            }
            exchange.write("0\r\n\r\n");
        }
        true
    });
    let gateway = gateway(&upstream);
    for path in ["/length", "/chunked"] {
        for protocol in ["--http1.1", "--http2-prior-knowledge"] {
            let output = std::process::Command::new("curl")
                .args(["--silent", protocol, &gateway.url(path)])
                .output()
                .unwrap();
            assert_eq!(output.stdout.len(), SIZE, "{path} {protocol}");
            let is_right =
                output.stdout.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8);
            assert!(is_right, "{path} {protocol}");
        }
    }
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn a_request_that_is_sent_again_is_the_same() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        if exchange.nth > 0 {
            return false;
        }
        let head = exchange.head.clone();
        exchange.ok(&head);
        true
    });
    let url = format!("{}/base", upstream.url());
    let gateway = TestGateway::with(&[&url], |server| server.workers = Workers::Fixed(1));
    get(gateway.address, "/warm");
    let request =
        "GET /twice?a=b HTTP/1.1\r\nhost: a\r\nx-one: 1\r\nconnection: x-two\r\nx-two: 2\r\n\r\n";
    let (_, seen) = Raw::connect(gateway.address).write(request).response();
    assert!(seen.starts_with("GET /base/twice?a=b HTTP/1.1\r\n"), "{seen}");
    assert_eq!((header(&seen, "x-one"), header(&seen, "x-two")), (Some("1"), None));
    let heads = upstream.heads();
    let twice: Vec<_> = heads.iter().filter(|head| head.contains("/twice")).collect();
    assert_eq!(twice.len(), 2);
    assert_eq!(twice[0], twice[1]);
}

#[test]
fn connections_that_were_closed_while_idle_cost_no_request_however_many() {
    let (go, wait) = mpsc::channel::<()>();
    let (close, closed) = mpsc::channel::<()>();
    let (wait, close) = (Mutex::new(wait), Mutex::new(close));
    let upstream = Served::new(move |exchange: &mut Exchange| {
        exchange.body();
        if exchange.head.contains("/together") {
            wait.lock().unwrap().recv().unwrap();
            exchange.ok("fine");
            exchange.reader.get_mut().shutdown(std::net::Shutdown::Both).unwrap();
            close.lock().unwrap().send(()).unwrap();
            return false;
        }
        exchange.ok("fine");
        true
    });
    let gateway = gateway(&upstream);
    let mut callers: Vec<_> = (0..8).map(|_| Raw::connect(gateway.address)).collect();
    for caller in &mut callers {
        caller.write("GET /together HTTP/1.1\r\nhost: a\r\n\r\n");
    }
    eventually("all are there", || upstream.heads().len() == 8);
    (0..8).for_each(|_| go.send(()).unwrap());
    for caller in &mut callers {
        assert_eq!(caller.response().1, "fine");
    }
    (0..8).for_each(|_| closed.recv().unwrap());
    // A body that was begun could not be sent twice.
    let request = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbody";
    let (head, _) = Raw::connect(gateway.address).write(request).response();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(gateway.failures.lock().unwrap().is_empty());
}
