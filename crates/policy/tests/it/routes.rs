//! Paths have one spelling, and the most specific route wins.

use proptest::prelude::*;
use tollgate_policy::routes::{BadPath, Matcher, RouteKey, Taken, normalise};

#[test]
fn every_spelling_becomes_the_plain_path() {
    let rows = [
        ("/", "/"),
        ("/v1/chat", "/v1/chat"),
        ("/v1/chat/", "/v1/chat/"),
        ("//v1///chat", "/v1/chat"),
        ("/v1/./chat", "/v1/chat"),
        ("/v1/x/../chat", "/v1/chat"),
        ("/v1/%2e%2E/v1/chat", "/v1/chat"),
        ("/../../v1/chat", "/v1/chat"),
        ("/v1/chat/.", "/v1/chat/"),
        ("/v1/chat/x/..", "/v1/chat/"),
        ("/%76%31/ch%61t", "/v1/chat"),
        ("/..", "/"),
        ("/a%2fb", "/a%2Fb"),
        ("/a%2F..%2Fb", "/a%2F..%2Fb"),
        ("/a%20b", "/a%20b"),
        ("/%7Euser", "/~user"),
        ("/a%25b", "/a%25b"),
        ("/a%252Fb", "/a%252Fb"),
        ("/.hidden", "/.hidden"),
        ("/...", "/..."),
        ("/ü", "/%C3%BC"),
    ];
    for (written, plain) in rows {
        assert_eq!(normalise(written).as_deref(), Ok(plain), "{written}");
    }
}

#[test]
fn what_no_honest_client_sends_is_refused() {
    let rows = [
        ("", BadPath::NotAbsolute),
        ("v1", BadPath::NotAbsolute),
        ("*", BadPath::NotAbsolute),
        ("/%00", BadPath::Forbidden),
        ("/a%5Cb", BadPath::Forbidden),
        ("/a%5cb", BadPath::Forbidden),
        ("/a\\b", BadPath::Forbidden),
        ("/a\0b", BadPath::Forbidden),
        ("/%", BadPath::BadEncoding),
        ("/%4", BadPath::BadEncoding),
        ("/%zz", BadPath::BadEncoding),
        ("/%+1", BadPath::BadEncoding),
    ];
    for (written, fault) in rows {
        assert_eq!(normalise(written), Err(fault), "{written}");
    }
}

/// path, methods, hosts
const ROUTES: &[(&str, &[&str], &[&str])] = &[
    ("/*", &[], &[]),
    ("/v1/chat/completions", &["POST"], &[]),
    ("/v1/{model}/completions", &[], &[]),
    ("/v1/chat/*", &[], &[]),
    ("/v1/chat/completions", &[], &["beta.example.com"]),
    ("/health", &["GET", "HEAD"], &[]),
    ("/users/{id}", &[], &[]),
    ("/users/{id}/keys/{key}", &["DELETE"], &[]),
    ("/users/me", &["GET"], &[]),
    ("/users/@self", &[], &[]),
    ("/users/%2a", &[], &[]),
    ("/a%3ab", &[], &[]),
];

fn matcher() -> Matcher {
    let mut matcher = Matcher::new();
    for (number, (path, methods, hosts)) in ROUTES.iter().enumerate() {
        matcher.add(number, RouteKey { path, methods, hosts }).unwrap();
    }
    matcher
}

#[test]
fn the_most_specific_route_wins() {
    let rows = [
        ("a", "POST", "/v1/chat/completions", Some(1)),
        ("a", "GET", "/v1/chat/completions", Some(3)),
        ("beta.example.com", "POST", "/v1/chat/completions", Some(4)),
        ("BETA.example.com", "GET", "/v1/chat/completions", Some(4)),
        ("a", "POST", "/v1/chat/completions/", Some(1)),
        ("a", "POST", "/v1/chat", Some(3)),
        ("a", "POST", "/v1/chat/", Some(3)),
        ("a", "POST", "/v1/chat/other/deep", Some(3)),
        ("a", "POST", "/v1/llama/completions", Some(2)),
        ("a", "POST", "/v1/llama/other", Some(0)),
        ("a", "HEAD", "/health", Some(5)),
        ("a", "POST", "/health", Some(0)),
        ("a", "GET", "/users/me", Some(8)),
        ("a", "HEAD", "/users/me", Some(8)),
        ("a", "PUT", "/users/me", Some(6)),
        ("a", "DELETE", "/users/7/keys/8", Some(7)),
        ("a", "GET", "/users/7/keys/8", Some(0)),
        ("a", "GET", "/", Some(0)),
        ("a", "POST", "/v1/chat%2Fcompletions", Some(0)),
        ("a", "GET", "/users/@self", Some(9)),
        ("a", "GET", "/users/%40self", Some(9)),
        ("a", "GET", "/users/%2540self", Some(6)),
        ("a", "GET", "/users/%40self%", Some(6)),
        ("a", "GET", "/users/*", Some(10)),
        ("a", "GET", "/users/%2A", Some(10)),
        ("a", "GET", "/a:b", Some(11)),
        ("a", "GET", "/a%3Ab", Some(11)),
    ];
    let matcher = matcher();
    for (host, method, path, expected) in rows {
        assert_eq!(matcher.find(host, method, path), expected, "{method} {host}{path}");
    }
    assert_eq!(Matcher::new().find("a", "GET", "/"), None);
}

#[test]
fn a_route_that_names_head_goes_before_the_one_that_names_get() {
    let mut matcher = Matcher::new();
    let mut add = |number, methods: &[&str], hosts: &[&str]| {
        matcher.add(number, RouteKey { path: "/file", methods, hosts }).unwrap();
    };
    add(0, &["GET"], &[]);
    add(1, &["HEAD"], &[]);
    add(2, &[], &[]);
    add(3, &["GET"], &["b"]);
    for (host, method, expected) in
        [("a", "HEAD", 1), ("a", "GET", 0), ("a", "PUT", 2), ("b", "HEAD", 3), ("b", "PUT", 2)]
    {
        assert_eq!(matcher.find(host, method, "/file"), Some(expected), "{method} {host}");
    }
}

#[test]
fn two_routes_for_the_same_requests_are_refused() {
    let mut matcher = matcher();
    let mut add =
        |path, methods: &[&str], hosts: &[&str]| matcher.add(99, RouteKey { path, methods, hosts });
    assert_eq!(add("/v1/chat/completions", &["PUT", "POST"], &[]), Err(Taken { by: 1 }));
    assert_eq!(add("/v1/chat/completions/", &["POST"], &[]), Err(Taken { by: 1 }));
    assert_eq!(add("/v1/ch%61t/completions", &["POST"], &[]), Err(Taken { by: 1 }));
    assert_eq!(add("/users/{name}", &[], &[]), Err(Taken { by: 6 }));
    assert_eq!(add("/v1/chat/completions", &[], &["Beta.Example.com"]), Err(Taken { by: 4 }));
    assert_eq!(add("/v1/chat/completions", &["GET"], &[]), Ok(()));
}

/// How specific a route is for a path, segment by segment; `None` if it is not for it.
fn specificity(route: &str, path: &str) -> Option<Vec<u8>> {
    let segments = |text: &str| -> Vec<String> {
        text.split('/').filter(|s| !s.is_empty()).map(ToOwned::to_owned).collect()
    };
    let (route, path_segments) = (segments(route), segments(path));
    let mut kinds = Vec::new();
    for (n, segment) in route.iter().enumerate() {
        if segment == "*" {
            return Some([kinds, vec![0]].concat());
        }
        let found = path_segments.get(n)?;
        kinds.push(match segment.starts_with('{') {
            true => 1,
            false if segment == found => 2,
            false => return None,
        });
    }
    (route.len() == path_segments.len()).then(|| [kinds, vec![3]].concat())
}

proptest! {
    #[test]
    fn a_normal_path_is_its_own_spelling(path in "/[ -~é]{0,40}") {
        if let Ok(normal) = normalise(&path) {
            prop_assert_eq!(normalise(&normal).unwrap(), normal.clone());
            prop_assert!(normal.starts_with('/') && !normal.contains("//"));
            prop_assert!(!normal.split('/').any(|segment| segment == "." || segment == ".."));
        }
    }

    #[test]
    fn no_bytes_panic(path in ".{0,60}") {
        let _ = normalise(&path);
    }

    /// However a path is spelled, it reaches the route of the plain one.
    #[test]
    fn no_spelling_reaches_another_route(
        segments in proptest::collection::vec("[a-z0-9._~-]{1,6}", 1..5),
        tricks in proptest::collection::vec((0usize..6, any::<bool>()), 60)
    ) {
        prop_assume!(!segments.iter().any(|s| s == "." || s == ".."));
        let plain = format!("/{}", segments.join("/"));
        let mut tricks = tricks.into_iter().cycle();
        let mut spelled = String::new();
        for segment in &segments {
            spelled.push_str(match tricks.next().unwrap().0 {
                0 => "//",
                1 => "/./",
                2 => "/x/../",
                3 => "/%2e/",
                4 => "/y%7A/%2E./",
                _ => "/",
            });
            for c in segment.bytes() {
                match tricks.next().unwrap() {
                    (0 | 1, true) => spelled.push_str(&format!("%{c:02X}")),
                    (0 | 1, false) => spelled.push_str(&format!("%{c:02x}")),
                    _ => spelled.push(c as char),
                }
            }
        }
        prop_assert_eq!(normalise(&spelled).unwrap(), plain.as_str());
    }

    /// Also where it is forwarded as it is spelled, because a server may tell the spellings apart.
    #[test]
    fn no_encoding_reaches_another_route(
        segments in proptest::collection::vec("[a-z0-9:@!$&'()*+,;=.~\"<>^`{|}\\[\\]-]{2,6}", 1..4),
        encoded: [bool; 20],
    ) {
        prop_assume!(!segments.iter().any(|segment| segment == ".."));
        let spell = |is_encoded: &dyn Fn(usize) -> bool| {
            let spelled = segments.join("/").bytes().enumerate().map(|(at, byte)| match byte {
                b'/' => "/".to_owned(),
                _ if is_encoded(at) => format!("%{byte:02x}"),
                _ => char::from(byte).to_string(),
            }).collect::<String>();
            format!("/{spelled}")
        };
        let mut matcher = Matcher::new();
        let [all, wild] = [spell(&|_| true), "/*".to_owned()];
        for (number, path) in [&all, &wild].into_iter().enumerate() {
            matcher.add(number, RouteKey { path, methods: &[], hosts: &[] }).unwrap();
        }
        let path = spell(&|at| encoded[at % encoded.len()]);
        let path = normalise(&path).unwrap();
        prop_assert_eq!(matcher.find("h", "GET", &path), Some(0), "{} as {}", all, path);
    }

    /// Against looking through all routes and comparing how specific each is.
    #[test]
    fn the_matcher_agrees_with_a_look_through_all_routes(
        routes in proptest::collection::vec(
            (proptest::collection::vec(prop_oneof![Just("a"), Just("b"), Just("{p}")], 0..4), any::<bool>()), 1..12
        ),
        path in proptest::collection::vec(prop_oneof![Just("a"), Just("b"), Just("c")], 0..5),
        slash: bool
    ) {
        let mut matcher = Matcher::new();
        let mut known = Vec::new();
        for (number, (segments, wild)) in routes.iter().enumerate() {
            let mut route = format!("/{}", segments.join("/"));
            if *wild {
                route = format!("{}/*", route.trim_end_matches('/'));
            }
            if matcher.add(number, RouteKey { path: &route, methods: &[], hosts: &[] }).is_ok() {
                known.push((number, route));
            }
        }
        let mut path = format!("/{}", path.join("/"));
        if slash && path != "/" {
            path.push('/');
        }
        let best = known.iter().filter_map(|(n, route)| Some((specificity(route, &path)?, *n))).max();
        prop_assert_eq!(matcher.find("h", "GET", &path), best.map(|(_, n)| n), "{} in {:?}", path, known);
    }
}
