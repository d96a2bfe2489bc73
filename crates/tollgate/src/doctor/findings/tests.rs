//! States that no server can be brought into for a test: old versions, long ways, clocks that are wrong.

use super::*;

const TIMEOUT: Duration = Duration::from_millis(50);

/// A primary of this version.
fn server(version: &str) -> Server {
    let info = [("redis_version", version), ("role", "master")];
    let info = info.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Server { name: "127.0.0.1:6379".to_owned(), info: info.into(), ..Server::default() }
}

/// What is said of a server about one subject: how bad it is, what was found and what to do.
fn said(server: Server, subject: &str) -> (Level, String, String) {
    let facts = Facts { servers: vec![server], ..Facts::default() };
    let findings = judge(&facts, &shapes::Redis::default(), Purpose::unknown(TIMEOUT));
    let mut of_it = findings.into_iter().filter(|finding| finding.subject == subject);
    let Finding { level, found, advice, .. } = of_it.next().expect("something is said of it");
    assert!(of_it.next().is_none(), "it is said once");
    (level, found, advice.unwrap_or_default())
}

#[test]
fn a_version_without_what_scripts_use_is_wrong() {
    for (version, level) in [
        ("7.0.15", Level::Good),
        ("8.2.0", Level::Good),
        ("10.0", Level::Good),
        ("6.2.14", Level::Wrong),
        ("2.8", Level::Wrong),
        ("unstable", Level::Wrong),
    ] {
        let (is, found, advice) = said(server(version), "version");
        assert_eq!((is, found), (level, format!("Redis {version}")));
        assert_eq!(advice.contains("version 7 or later"), level == Level::Wrong, "{advice}");
    }
    let mut valkey = server("7.2.4");
    valkey.info.insert("valkey_version".to_owned(), "9.1.0".to_owned());
    assert_eq!(said(valkey, "version").1, "Valkey 9.1.0");
    let (level, found, _) = said(server(""), "version");
    assert_eq!((level, found.as_str()), (Level::Warning, "it does not say what it is"));
}

/// Two hundred round trips, of which so many are slow.
fn pings(usual: u64, slow: u64, how_many: usize) -> Vec<Duration> {
    let nth = |nth| Duration::from_millis(if nth < 200 - how_many { usual } else { slow });
    (0..200).map(nth).collect()
}

#[test]
fn round_trips_are_judged_by_how_long_calls_may_take() {
    let judged = |pings| said(Server { pings, ..server("7.0") }, "latency");
    assert_eq!(judged(pings(1, 2, 10)).0, Level::Good);
    assert_eq!(judged(pings(1, 500, 1)).0, Level::Good, "one in two hundred");
    // Half of what calls may take, for one in a hundred.
    let (level, found, advice) = judged(pings(1, 25, 3));
    assert_eq!(level, Level::Warning);
    assert!(found.contains("takes 1.0ms, one in a hundred 25.0ms"), "{found}");
    assert!(advice.contains("`timeout_ms`, 50 ms"), "{advice}");
    assert_eq!(judged(pings(1, 24, 3)).0, Level::Good);
    let (level, _, advice) = judged(pings(50, 60, 3));
    assert_eq!(level, Level::Wrong);
    assert!(advice.contains("most calls would take longer than `timeout_ms`, 50 ms"), "{advice}");
    assert_eq!(judged(pings(49, 49, 0)).0, Level::Warning);
    let nothing = judge(
        &Facts { servers: vec![server("7.0")], ..Facts::default() },
        &shapes::Redis::default(),
        Purpose::unknown(TIMEOUT),
    );
    assert!(nothing.iter().all(|finding| finding.subject != "latency"), "nothing was measured");
}

#[test]
fn a_clock_is_judged_by_what_is_certain_of_its_offset() {
    let judged = |offset: f64, uncertain: u64| {
        let clock = Some((offset, Duration::from_millis(uncertain)));
        said(Server { clock, ..server("7.0") }, "clock")
    };
    for (offset, uncertain, level) in [
        (0.0, 1, Level::Good),
        (0.09, 0, Level::Good),
        (-0.09, 0, Level::Good),
        (0.2, 1, Level::Warning),
        (-0.9, 1, Level::Warning),
        (1.2, 1, Level::Wrong),
        (-3600.0, 1, Level::Wrong),
        // A long way: the answer may have been on it for as long.
        (0.5, 450, Level::Good),
        (1.2, 500, Level::Warning),
    ] {
        let (is, found, advice) = judged(offset, uncertain);
        assert_eq!(is, level, "{offset} ± {uncertain}: {found}");
        assert_eq!(advice.contains("NTP"), level != Level::Good, "{advice}");
    }
    assert_eq!(judged(1.5, 0).1, "1.5 s ahead of this machine's");
    assert_eq!(judged(-90.0, 0).1, "90.0 s behind this machine's");
}
