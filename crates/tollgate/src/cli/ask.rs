//! A request to the admin API.

use std::fmt::Write;
use std::path::Path;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, IF_MATCH};
use http::{HeaderName, Method};
use serde_json::Value;

use crate::exit::Failure;
use crate::output::read;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A request, without the token.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    /// Path and query, as they are sent.
    pub(crate) target: String,
    pub(crate) headers: Vec<(HeaderName, String)>,
    pub(crate) body: Bytes,
    /// What a fault calls the body.
    pub(crate) body_name: String,
}

impl Ask {
    pub(crate) fn new(method: Method, path: &str) -> Ask {
        let (headers, body) = (Vec::new(), Bytes::new());
        Ask { method, target: path.to_owned(), headers, body, body_name: "body".to_owned() }
    }

    pub(crate) fn get(path: &str) -> Ask {
        Ask::new(Method::GET, path)
    }

    /// A further segment of the path. Its own slashes do not divide it.
    pub(crate) fn segment(mut self, text: &str) -> Ask {
        self.target.push('/');
        encode(&mut self.target, text);
        self
    }

    /// A parameter behind the `?`, if there is one.
    pub(crate) fn query(mut self, name: &str, value: Option<&str>) -> Ask {
        if let Some(value) = value {
            let mark = if self.target.contains('?') { '&' } else { '?' };
            let _ = write!(self.target, "{mark}{name}=");
            encode(&mut self.target, value);
        }
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Ask {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn accept(self, kind: &str) -> Ask {
        self.header(ACCEPT, kind)
    }

    pub(crate) fn if_match(self, tag: &str) -> Ask {
        self.header(IF_MATCH, tag)
    }

    pub(crate) fn idempotent(self, key: Option<&str>) -> Ask {
        match key {
            Some(key) => self.header(IDEMPOTENCY_KEY, key),
            None => self,
        }
    }

    pub(crate) fn json(mut self, body: &Value) -> Ask {
        self.body = body.to_string().into();
        self.header(CONTENT_TYPE, "application/json")
    }

    /// A body as a person wrote it. JSON is YAML too, so nobody needs to say which.
    pub(crate) fn file(mut self, path: &Path) -> Result<Ask, Failure> {
        self.body = read(path)?.into();
        let is_input = path == Path::new("-");
        self.body_name = if is_input { "stdin".to_owned() } else { path.display().to_string() };
        Ok(self.header(CONTENT_TYPE, "application/yaml"))
    }
}

/// All but letters, digits and `-._~`, by their bytes.
fn encode(into: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            into.push(char::from(byte));
        } else {
            let _ = write!(into, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_into_a_path_stays_in_its_place() {
        let ask = Ask::get("/v1/keys").segment("../a b?c").query("tenant", Some("x&y=é"));
        assert_eq!(ask.target, "/v1/keys/..%2Fa%20b%3Fc?tenant=x%26y%3D%C3%A9");
    }
}
