//! Text that means something: what each type accepts, and what not.

use std::fmt::Display;
use std::str::FromStr;

use tollgate_policy::{
    AccessLog, Cidr, FilePath, HeaderName, Host, HttpUrl, Instant, Label, ListenAddress, Method,
    RedisUrl, RoutePath, Sha256, TenantId, UserName, ZoneName,
};

/// `right` are accepted and written as they were read, `wrong` are refused with advice.
fn check<T: FromStr + Display>(right: &[&str], wrong: &[&str])
where
    T::Err: Display,
{
    for text in right {
        let value: T = text.parse().unwrap_or_else(|error: T::Err| panic!("{error}"));
        assert_eq!(value.to_string(), *text);
    }
    for text in wrong {
        match text.parse::<T>() {
            Ok(value) => panic!("{text:?} was read as {value}"),
            Err(error) => assert!(error.to_string().starts_with("found \""), "{error}"),
        }
    }
}

#[test]
fn names() {
    let longest = "x".repeat(128);
    check::<TenantId>(
        &["a", "acme.co_1-x", &longest],
        &["", "a b", "ä", "a/b", &format!("{longest}x")],
    );
    check::<UserName>(
        &["ci", "ann@example.com", &longest],
        &["", "a b", "ä", "a\n", &format!("{longest}x")],
    );
    check::<Label>(
        &["The build", "ä", &"ä".repeat(128)],
        &["", "a\nb", "\u{7f}", &"ä".repeat(129)],
    );
}

#[test]
fn digests() {
    let hex = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    check::<Sha256>(
        &[hex],
        &["", &hex[1..], &format!("{hex}0"), &hex.replace('9', "g"), &"ä".repeat(32)],
    );
    assert_eq!(hex.to_uppercase().parse::<Sha256>().unwrap().to_string(), hex);
}

#[test]
fn addresses() {
    check::<ListenAddress>(
        &["127.0.0.1:8080", "[::]:0"],
        &["", ":80", "localhost:80", "1.2.3.4", "1.2.3.4:70000"],
    );
    check::<Cidr>(
        &["10.0.0.0/8", "0.0.0.0/0", "192.0.2.1/32", "fd00::/8", "::/0"],
        &[
            "",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "::/129",
            "x/8",
            "10.0.0.0/256",
        ],
    );
    assert_eq!("192.0.2.1".parse::<Cidr>().unwrap().prefix(), 32);
    let network: Cidr = "10.0.0.0/8".parse().unwrap();
    assert!(network.contains("10.255.0.1".parse().unwrap()));
    assert!(!network.contains("11.0.0.1".parse().unwrap()));
    assert!(!"::/0".parse::<Cidr>().unwrap().contains("10.0.0.1".parse().unwrap()));
}

#[test]
fn urls_and_hosts() {
    check::<HttpUrl>(
        &["http://a", "https://a.example:8443/v1/", "http://[::1]:80", "http://my_service:3000"],
        &[
            "",
            "a",
            "ftp://a",
            "http://",
            "http://a:0",
            "http://a:99999",
            "http://u:p@a",
            "http://a/?q",
            "http://a b",
            "http://a#",
            "http://a?x",
            "http://[::1",
            "http://1.2.3",
            "HTTP://a",
        ],
    );
    let url: HttpUrl = "https://a:1/v1/".parse().unwrap();
    assert_eq!((url.is_https(), url.authority(), url.path()), (true, "a:1", "/v1"));
    check::<Host>(
        &["a", "api.example.com", "[::1]", "10.0.0.1"],
        &["", "a:80", "*.a", "a..b", "300.1.1.1", "::1", &"a".repeat(64)],
    );
    check::<RedisUrl>(
        &["redis://127.0.0.1:6379", "rediss://u:p@cache.example/3", "redis://:secret@h:1/"],
        &["", "http://a", "redis://", "redis://a/x", "redis://a:x", "redis://a/1/2"],
    );
    let url: RedisUrl = "redis://u:secret@h:1".parse().unwrap();
    assert_eq!(format!("{url:?}"), "RedisUrl(redis://…@h:1)");
}

#[test]
fn times() {
    check::<ZoneName>(
        &["UTC", "Europe/Vienna", "Etc/GMT+5"],
        &["", "Mars", "Europe/", "../UTC", "Etc/Unknown"],
    );
    check::<Instant>(
        &["2027-01-31T00:00:00Z", "2027-01-31T00:00:00.5Z", "2261-12-31T23:59:59Z"],
        &[
            "",
            "2027-01-31",
            // Nanoseconds of storages end there, and another moment must not be meant.
            "2262-01-01T00:00:00Z",
            "2262-01-01T00:00:00+23:59",
            // As they are written in UTC they would not be read again.
            "2261-12-31T23:59:59-00:01",
            "0000-01-01T00:00:59+00:01",
            "9999-12-31T23:59:59Z",
            "2027-01-31T00:00:00",
            "2027-02-30T00:00:00Z",
            "2027-01-31 00:00:00Z",
            "2027-01-31T00:00:00Z[UTC]",
            "2027-01-31T00:00:00.Z",
            "2027-01-31T00:00:0ä",
        ],
    );
    let shifted: Instant = "2027-01-31T01:00:00+01:00".parse().unwrap();
    assert_eq!(shifted.to_string(), "2027-01-31T00:00:00Z");
}

#[test]
fn requests() {
    check::<Method>(&["GET", "M-SEARCH"], &["", "get", "GET ", "-X", "G1"]);
    check::<HeaderName>(&["x-api-key"], &["", "x api", "x:y", "ä"]);
    check::<RoutePath>(
        &[
            "/",
            "/*",
            "/v1/",
            "/v1//x",
            "/v1/{id}/x%20y",
            "/{id}/*",
            "/a.b/...",
            "/%2A",
            "/%7Bid%7D",
            "/a%2fb",
            "/@me",
            "/x:run",
            "/a'b\"c<d>e^f`g|h~i[j]k",
        ],
        &[
            "",
            "v1",
            "/a?b",
            "/a#b",
            "/a b",
            "/ä",
            "/users/*/avatar",
            "/a*",
            "/*a",
            "/*/",
            "/**",
            "/a/*/*",
            "/{id}.png",
            "/a{id}",
            "/{a}{b}",
            "/{id",
            "/id}",
            "/{",
            "/{}",
            "/{*}",
            "/{id:[0-9]+}",
            "/{a/b}",
            "/a/../b",
            "/a/.",
            "/%2E%2e/b",
            "/%zz",
            "/%",
            "/%00",
            "/a\\b",
            "/%5c",
        ],
    );
    check::<FilePath>(&["./a b", "/var/x"], &["", "a\0b", "a\n"]);
    check::<AccessLog>(&["none", "stdout", "/var/log/x"], &["", "a\n"]);
}

/// Balances are called by it: a name that was right stays, and other letters are no other name.
#[test]
fn a_time_zone_has_its_own_letters_however_it_is_written() {
    let names: Vec<String> = jiff::tz::db().available().map(|name| name.to_string()).collect();
    let zones = names.iter().filter_map(|name| Some((name, name.parse::<ZoneName>().ok()?)));
    let mut count = 0;
    for (name, zone) in zones {
        assert_eq!(zone.as_str(), name);
        assert_eq!(name.to_ascii_lowercase().parse::<ZoneName>().unwrap(), zone);
        assert_eq!(name.to_ascii_uppercase().parse::<ZoneName>().unwrap(), zone);
        count += 1;
    }
    assert!(count > 300, "{count} of {names:?}");
    assert_eq!("utc".parse::<ZoneName>().unwrap(), ZoneName::default());
}
