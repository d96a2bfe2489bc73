//! Addresses that take requests and do not answer them.

use crate::support::{Exchange, Raw, Served, TestGateway, get, upstream};
use tollgate_gateway::{Trust, Upstream};
use tollgate_policy::shapes::Workers;

/// How long is waited for an answer where there is one that does not come. The others come within it on a busy machine as well.
const IMPATIENT: u64 = 3000;

/// A gateway with one worker that waits so many milliseconds for an answer.
fn waits(urls: &[&str], response_timeout_ms: u64) -> TestGateway {
    let mut shape = upstream(urls);
    shape.response_timeout_ms = response_timeout_ms;
    let upstream = Upstream::new(&shape, Trust::system).unwrap();
    TestGateway::of(upstream, |server| server.workers = Workers::Fixed(1), None)
}

#[test]
fn an_address_that_hangs_or_closes_loses_its_turn() {
    let hangs = Served::new(|_: &mut Exchange| {
        std::thread::park();
        false
    });
    let closes = Served::new(|_: &mut Exchange| false);
    for (bad, status, patience) in [(&hangs, "504", IMPATIENT), (&closes, "502", 30_000)] {
        let good = Served::echo();
        let gateway = waits(&[&bad.url(), &good.url()], patience);
        let mut failed = 0;
        for _ in 0..40 {
            let (head, _) = get(gateway.address, "/");
            if !head.starts_with("HTTP/1.1 200") {
                assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
                failed += 1;
            }
        }
        // It is tried again now and then; with its turn kept it would have been twenty.
        assert!((1..10).contains(&failed), "{status}: {failed} failed");
    }
}

#[test]
fn an_address_alone_is_never_left_out() {
    let upstream = Served::new(|exchange: &mut Exchange| {
        if exchange.head.contains("/slow") {
            std::thread::park();
        }
        exchange.ok("fine");
        true
    });
    let gateway = waits(&[&upstream.url()], IMPATIENT);
    for _ in 0..3 {
        assert!(get(gateway.address, "/slow").0.starts_with("HTTP/1.1 504"));
        assert_eq!(get(gateway.address, "/").1, "fine");
    }
}

#[test]
fn a_slow_caller_is_not_its_upstreams_fault() {
    let (one, two) = (Served::echo(), Served::echo());
    let gateway = {
        let mut shape = upstream(&[&one.url(), &two.url()]);
        shape.response_timeout_ms = IMPATIENT;
        let upstream = Upstream::new(&shape, Trust::system).unwrap();
        let change = |server: &mut tollgate_policy::shapes::Server| {
            server.workers = Workers::Fixed(1);
            server.caps.body_timeout_ms = 2 * IMPATIENT;
        };
        TestGateway::of(upstream, change, None)
    };
    let request = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf";
    let head = Raw::connect(gateway.address).write(request).head();
    assert!(head.starts_with("HTTP/1.1 408"), "{head}");
    // Turns go on as before: the next is the second's, the one after it the first's.
    for _ in 0..2 {
        assert!(get(gateway.address, "/").0.starts_with("HTTP/1.1 200"));
    }
    assert_eq!((one.heads().len(), two.heads().len()), (2, 1));
}
