//! A slow or dead server costs a call at most its timeout once; then calls fail at once until it is back.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_engine::{Limit, Rate};
use tollgate_redis::{Charge, Figures, Settings, Strict, Unavailable};

use crate::ports::Port;
use crate::proxy::Proxy;
use crate::servers::{Brand, Server, on_both, run, until};

const TIMEOUT: Duration = Duration::from_millis(50);

/// How much later than its timeout a call may come back on a busy machine. 200 calls that wait one after the other take twice as long.
const LATE: Duration = Duration::from_secs(5);

fn start(server: &Server) -> Strict {
    Strict::start(Settings::new(&server.url()).unwrap().timeout(TIMEOUT))
}

fn bucket() -> Figures {
    let limit = Limit::token_bucket(Rate::per_day(1)).burst(1000).build().unwrap();
    Figures::of(&limit).unwrap()
}

async fn take(strict: &Strict) -> Result<u64, Unavailable> {
    let limit = bucket();
    let answer = strict.take(&[Charge::new("one", &limit)]).await?;
    Ok(answer.decisions().next().unwrap().standing.remaining)
}

/// Takes until it succeeds again, and tells what is left then.
async fn take_again(strict: &Strict) -> u64 {
    for _ in 0..100 {
        strict.up().await;
        if let Ok(left) = take(strict).await {
            return left;
        }
    }
    panic!("it never came back");
}

fn unreachable_at_start(_: Brand) {
    run(async {
        let nobody = Port::take();
        let url = format!("redis://{}", nobody.address());
        let strict = Strict::start(Settings::new(&url).unwrap());
        assert_eq!(take(&strict).await, Err(Unavailable::Open));
    });
}

fn a_killed_server_fails_calls_at_once_and_is_found_again(brand: Brand) {
    let mut server = Server::start(brand);
    run(async {
        // Far more than calls may take: it is not by waiting that they find out.
        let settings = Settings::new(&server.url()).unwrap().timeout(4 * LATE);
        let strict = Strict::start(settings);
        assert_eq!(take_again(&strict).await, 999);
        server.kill();
        let begin = Instant::now();
        assert!(take(&strict).await.is_err());
        until("the breaker opens", || !strict.is_up()).await;
        assert!(begin.elapsed() < LATE, "{:?}", begin.elapsed());
        for _ in 0..1000 {
            assert_eq!(take(&strict).await, Err(Unavailable::Open));
        }
        assert!(server.try_start());
        assert_eq!(take_again(&strict).await, 999, "it kept nothing: one more capacity");
        assert!(strict.times_opened() >= 1);
    });
}

fn a_paused_server_costs_the_timeout_once(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let strict = start(&server);
        take_again(&strict).await;
        server.freeze();
        let begin = Instant::now();
        let callers: Vec<_> = (0..200)
            .map(|_| {
                let strict = strict.clone();
                tokio::spawn(async move { take(&strict).await })
            })
            .collect();
        for caller in callers {
            let refused = caller.await.unwrap().unwrap_err();
            assert!(refused.may_have_run() || refused == Unavailable::Open, "{refused}");
        }
        assert!(begin.elapsed() < TIMEOUT + LATE, "{:?}", begin.elapsed());
        let begin = Instant::now();
        assert_eq!(take(&strict).await, Err(Unavailable::Open));
        assert!(begin.elapsed() < LATE, "{:?}", begin.elapsed());
        server.thaw();
        take_again(&strict).await;
    });
}

/// Calls that were lost on their way may have run, so none is repeated: what is charged never exceeds what was asked.
fn a_lost_call_is_not_repeated(brand: Brand) {
    let server = Server::start(brand);
    run(async {
        let strict = start(&server);
        take_again(&strict).await;
        let mut asked = 1;
        for _ in 0..8 {
            let callers: Vec<_> = (0..80)
                .map(|_| {
                    let strict = strict.clone();
                    tokio::spawn(async move { take(&strict).await })
                })
                .collect();
            asked += callers.len() as u64;
            let _: redis::Value =
                server.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            for caller in callers {
                let _ = caller.await.unwrap();
            }
            strict.up().await;
        }
        let left = take_again(&strict).await;
        assert!(
            left >= 1000u64.saturating_sub(asked + 101),
            "{left} left of 1000 after {asked} calls"
        );
    });
}

/// A server that has forgotten its scripts under load is told them once, and is not thought dead for it.
fn forgotten_scripts_are_sent_once(brand: Brand) {
    let server = Server::start(brand);
    let proxy = Proxy::to(server.port());
    run(async {
        let settings = Settings::new(&proxy.url()).unwrap().timeout(Duration::from_secs(8));
        let strict = Strict::start(settings);
        assert_eq!(take_again(&strict).await, 999);
        // One by one it would be thirteen seconds for each pipeline.
        proxy.delay(Duration::from_millis(100));
        server.ask::<()>(&["SCRIPT", "FLUSH"]);
        let callers: Vec<_> = (0..300)
            .map(|_| {
                let strict = strict.clone();
                tokio::spawn(async move { take(&strict).await })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap().unwrap();
        }
        assert_eq!(strict.times_opened(), 0);
        proxy.delay(Duration::ZERO);
        assert_eq!(take(&strict).await, Ok(698), "each was charged once");
    });
}

fn an_acl_user_is_let_in(brand: Brand) {
    let server = Server::start(brand);
    let may =
        ["on", ">secret", "~tollgate:*", "+@scripting", "+@hash", "+@keyspace", "+time", "+ping"];
    server.ask::<String>(&[&["ACL", "SETUSER", "gate"][..], &may].concat());
    run(async {
        let url = format!("redis://gate:secret@127.0.0.1:{}", server.port());
        let strict = Strict::start(Settings::new(&url).unwrap().timeout(Duration::from_secs(5)));
        strict.up().await;
        let limit = bucket();
        assert!(strict.take(&[Charge::new("tollgate:a", &limit)]).await.is_ok());
        let refused = strict.take(&[Charge::new("other", &limit)]).await.unwrap_err();
        assert!(refused.to_string().contains("NoPerm"), "{refused}");
    });
}

on_both! {
    unreachable => unreachable_at_start;
    killed => a_killed_server_fails_calls_at_once_and_is_found_again;
    paused => a_paused_server_costs_the_timeout_once;
    lost_calls => a_lost_call_is_not_repeated;
    forgotten => forgotten_scripts_are_sent_once;
    acl_user => an_acl_user_is_let_in;
}
