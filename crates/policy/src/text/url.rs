//! Where upstreams and Redis are.

use std::net::{IpAddr, Ipv6Addr};

use schemars::JsonSchema;

use super::{Right, Text, own_text};

/// The name or address of a host, without a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(extend("format" = Self::FORMAT, "pattern" = Self::PATTERN))]
pub struct Host(Box<str>);

impl Text for Host {
    const FORMAT: &'static str = "host";
    const PATTERN: &'static str =
        r"^([A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?|\[[0-9A-Fa-f:.]+\])$";

    fn read(text: &str) -> Result<Host, Right> {
        if is_host(text) {
            return Ok(Host(text.to_ascii_lowercase().into()));
        }
        Err(match text.rsplit_once(':') {
            Some((host, port)) if is_host(host) && is_port(port) => {
                format!("a host has no port here: write `{host}`").into()
            }
            _ => "write the name or address of a host, such as `api.example.com`".into(),
        })
    }
}

fn is_host(text: &str) -> bool {
    if let Some(address) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let is_right = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_right);
    let name = text.strip_suffix('.').unwrap_or(text);
    // Digits and dots alone are meant as an address, and must be one.
    let is_numeric = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    name.len() <= 253
        && name.split('.').all(is_label)
        && (!is_numeric || text.parse::<IpAddr>().is_ok())
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

/// The host and port of `authority` are right.
fn is_authority(authority: &str) -> bool {
    let address_end = authority.find(']').map_or(0, |at| at + 1);
    match authority[address_end..].rfind(':') {
        Some(colon) => {
            let (host, port) = authority.split_at(address_end + colon);
            is_host(host) && is_port(&port[1..])
        }
        None => is_host(authority),
    }
}

/// Where an upstream is: `http://` or `https://`, a host, a port if it is not the usual one, and perhaps a path
/// that stands before every request's own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(extend("format" = Self::FORMAT, "pattern" = Self::PATTERN))]
pub struct HttpUrl(Box<str>);

impl HttpUrl {
    /// Whether it is `https`.
    pub fn is_https(&self) -> bool {
        self.0.starts_with("https:")
    }

    /// The host, and the port if one is written.
    pub fn authority(&self) -> &str {
        self.parts().0
    }

    /// What stands before every request's own path; empty if nothing does.
    pub fn path(&self) -> &str {
        self.parts().1.trim_end_matches('/')
    }

    fn parts(&self) -> (&str, &str) {
        let (_, rest) = self.0.split_once("://").unwrap_or_default();
        rest.split_at(rest.find('/').unwrap_or(rest.len()))
    }
}

impl Text for HttpUrl {
    const FORMAT: &'static str = "http-url";
    const PATTERN: &'static str = "^https?://[A-Za-z0-9._:\\[\\]-]+(/[!\"$->@-~]*)?$";

    fn read(text: &str) -> Result<HttpUrl, Right> {
        let Some(("http" | "https", rest)) = text.split_once("://") else {
            return Err(
                "write a URL such as `http://127.0.0.1:3000` or `https://api.example.com`".into()
            );
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err("leave out the user and password: they are not sent".into());
        }
        if !is_authority(authority) {
            return Err("write a host, and a port from 1 to 65535 if any, after `://`".into());
        }
        let is_right = |byte: u8| byte.is_ascii_graphic() && byte != b'?' && byte != b'#';
        if !path.bytes().all(is_right) {
            return Err("leave out what begins with `?` or `#`, and percent-encode the rest".into());
        }
        Ok(HttpUrl(text.into()))
    }
}

/// Where Redis or Valkey is: `redis://`, or `rediss://` with TLS.
#[derive(Clone, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(extend("format" = Self::FORMAT, "pattern" = Self::PATTERN))]
pub struct RedisUrl(Box<str>);

impl Text for RedisUrl {
    const FORMAT: &'static str = "redis-url";
    const PATTERN: &'static str = "^rediss?://[!\"$-.0->@-~]+(/[0-9]{0,5})?$";

    fn read(text: &str) -> Result<RedisUrl, Right> {
        let wrong =
            || "write a URL such as `redis://127.0.0.1:6379`, or `rediss://…` with TLS".into();
        let Some(("redis" | "rediss", rest)) = text.split_once("://") else { return Err(wrong()) };
        let (server, database) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let login = server.rfind('@').map_or(0, |at| at + 1);
        let is_visible = server.bytes().all(|b| b.is_ascii_graphic() && b != b'?' && b != b'#');
        let number = database.strip_prefix('/').unwrap_or_default();
        let is_database = number.len() <= 5 && number.bytes().all(|b| b.is_ascii_digit());
        if is_visible && is_database && is_authority(&server[login..]) {
            Ok(RedisUrl(text.into()))
        } else {
            Err(wrong())
        }
    }
}

/// Without the password.
impl std::fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = self.0.find("://").map_or(0, |at| at + 3);
        let server = self.0.rfind('@').map_or(scheme, |at| at + 1);
        let login = if server > scheme { "…@" } else { "" };
        write!(f, "RedisUrl({}{login}{})", &self.0[..scheme], &self.0[server..])
    }
}

own_text!(Host, HttpUrl, RedisUrl);
