//! Which requests are paced together.

use http::{HeaderMap, HeaderName, StatusCode, Uri};
use tollgate_client::{Ask, Pacers, Settings};

use crate::headers;

fn know(pacers: &Pacers, uri: &'static str, credentials: &HeaderMap) -> bool {
    !pacers.pacer(&Uri::from_static(uri), credentials).status().limits.is_empty()
}

#[tokio::test]
async fn each_server_and_key_has_a_pace_of_its_own() {
    let pacers = Pacers::new(Settings::new());
    let mine = headers(&[("x-api-key", "mine")]);
    let pacer = pacers.pacer(&Uri::from_static("https://api.example.com/a"), &mine);
    let permit = pacer.acquire(Ask::default()).await.unwrap();
    permit.heard(StatusCode::OK, &headers(&[("x-ratelimit-remaining", "5")]));

    let clone = pacers.clone();
    assert!(know(&clone, "https://api.example.com/another/path?q=1", &mine));
    assert!(!know(&clone, "https://other.example.com/a", &mine));
    assert!(!know(&clone, "https://api.example.com:8443/a", &mine));
    assert!(!know(&clone, "http://api.example.com/a", &mine));
    assert!(!know(&clone, "https://api.example.com/a", &headers(&[("x-api-key", "other")])));
    assert!(!know(
        &clone,
        "https://api.example.com/a",
        &headers(&[("authorization", "Bearer mine")])
    ));
}

#[tokio::test]
async fn a_server_is_the_same_however_it_is_written() {
    let pacers = Pacers::new(Settings::new());
    let pacer = pacers.pacer(&Uri::from_static("https://api.example.com/"), &HeaderMap::new());
    let permit = pacer.acquire(Ask::default()).await.unwrap();
    permit.heard(StatusCode::OK, &headers(&[("x-ratelimit-remaining", "5")]));
    let nobody = HeaderMap::new();
    for same in
        ["https://API.Example.com/", "https://api.example.com:443/", "HTTPS://api.example.com"]
    {
        assert!(know(&pacers, same, &nobody), "{same}");
    }
    for other in ["https://api.example.com:80/", "https://me:secret@api.example.com/"] {
        assert!(!know(&pacers, other, &nobody), "{other}");
    }
    // A request that names its server in a header only.
    let named = |host: &str| pacers.pacer(&Uri::from_static("/"), &headers(&[("host", host)]));
    let permit = named("api.example.com").acquire(Ask::default()).await.unwrap();
    permit.heard(StatusCode::OK, &headers(&[("x-ratelimit-remaining", "5")]));
    assert!(!named("API.example.com").status().limits.is_empty());
    assert!(named("other.example.com").status().limits.is_empty());
}

/// Two kinds of work whose limits have one name.
#[tokio::test(start_paused = true)]
async fn an_operation_that_is_exhausted_does_not_hold_up_the_others() {
    let pacers = Pacers::new(Settings::new());
    let uri = Uri::from_static("https://api.example.com/");
    let ask = |operation| Ask { operation, ..Ask::default() };
    let pacer = |operation| pacers.pacer_for(&uri, &HeaderMap::new(), ask(operation));
    for (operation, remaining) in [("core", "0"), ("search", "29")] {
        let permit = pacer(Some(operation)).acquire(Ask::default()).await.unwrap();
        let said = [
            ("x-ratelimit-limit", "30"),
            ("x-ratelimit-remaining", remaining),
            ("x-ratelimit-reset", "3600"),
        ];
        permit.heard(StatusCode::OK, &headers(&said));
    }
    assert!(pacer(Some("core")).acquire(Ask::default()).await.is_err());
    assert!(pacer(Some("search")).acquire(Ask::default()).await.is_ok());
    assert_eq!(pacer(Some("search")).status().limits[0].remaining, 28);
    assert!(pacer(None).status().limits.is_empty());
}

#[tokio::test]
async fn a_program_says_which_headers_tell_who_is_asking() {
    let name = HeaderName::from_static("x-acme-key");
    let pacers = Pacers::with_credentials(Settings::new(), [name]);
    let mine = headers(&[("x-acme-key", "mine"), ("authorization", "Signature 1")]);
    let uri = "https://api.example.com/";
    let pacer = pacers.pacer(&Uri::from_static(uri), &mine);
    let permit = pacer.acquire(Ask::default()).await.unwrap();
    permit.heard(StatusCode::OK, &headers(&[("x-ratelimit-remaining", "5")]));
    let signed_anew = headers(&[("x-acme-key", "mine"), ("authorization", "Signature 2")]);
    assert!(know(&pacers, uri, &signed_anew));
    assert!(!know(&pacers, uri, &headers(&[("x-acme-key", "other")])));
    assert!(!know(&pacers, uri, &HeaderMap::new()));
}

/// Of a hundred that are left the last twenty are spread over the hour: eighty go at once, whoever asks for them.
#[test]
fn clones_on_many_threads_take_together_what_is_left() {
    let pacers = Pacers::new(Settings::new());
    let uri = Uri::from_static("https://api.example.com/");
    let left = [
        ("x-ratelimit-limit", "100"),
        ("x-ratelimit-remaining", "100"),
        ("x-ratelimit-reset", "3600"),
    ];
    // After so many answers it is known well enough.
    for _ in 0..16 {
        let permit = pacers.pacer(&uri, &HeaderMap::new()).try_acquire(Ask::default()).unwrap();
        permit.heard(StatusCode::OK, &headers(&left));
    }
    let takes = |pacers: Pacers| {
        let pacer = || pacers.pacer(&uri, &HeaderMap::new());
        (0..50).filter_map(|_| pacer().try_acquire(Ask::default())).collect::<Vec<_>>()
    };
    let permits = std::thread::scope(|scope| {
        let threads = [(); 8].map(|()| scope.spawn(|| takes(pacers.clone())));
        threads.map(|thread| thread.join().unwrap())
    });
    let taken: usize = permits.iter().map(Vec::len).sum();
    assert!((80..=81).contains(&taken), "{taken}");
    let status = pacers.pacer(&uri, &HeaderMap::new()).status();
    assert_eq!((status.in_flight, status.limits[0].remaining), (taken as u64, 100 - taken as u64));
}
