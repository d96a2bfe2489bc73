//! `If-Match`: what a change may replace, so that nobody overwrites what he has not seen.

use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, StatusCode};

use crate::fault::Fault;

/// What must be there before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IfMatch {
    /// Something, at whatever version.
    Whatever,
    /// One of these versions.
    Tags(Vec<String>),
}

impl IfMatch {
    /// What the headers say, if they do (RFC 9110, 13.1.1).
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<IfMatch>, Fault> {
        let wrong = |_| Fault::bad_request("`If-Match` is `*` or the ETags that were answered.");
        let lines = headers.get_all(IF_MATCH).iter().map(|line| line.to_str().map_err(wrong));
        let lines = lines.collect::<Result<Vec<&str>, Fault>>()?;
        Ok((!lines.is_empty()).then(|| IfMatch::read(&lines.join(","))))
    }

    fn read(text: &str) -> IfMatch {
        if text.trim() == "*" {
            return IfMatch::Whatever;
        }
        let mut tags = Vec::new();
        let mut left = text;
        loop {
            left = left.trim_start_matches([' ', '\t', ',']);
            if left.is_empty() {
                return IfMatch::Tags(tags);
            }
            let is_weak = left.starts_with("W/");
            left = left.strip_prefix("W/").unwrap_or(left);
            // A tag may hold commas. One without its quotes is what a person wrote.
            let (tag, rest) = match left.strip_prefix('"') {
                Some(inner) => inner.split_once('"').unwrap_or((inner, "")),
                None => left.split_once(',').unwrap_or((left, "")),
            };
            // A weak one does not say that it is the same byte by byte, so it never matches here.
            if !is_weak {
                tags.push(tag.trim().to_owned());
            }
            left = rest;
        }
    }

    /// What must be of this version.
    pub(crate) fn tag(version: String) -> IfMatch {
        IfMatch::Tags(vec![version])
    }

    /// Whether something of this version may be replaced.
    pub(crate) fn allows(&self, version: &str) -> bool {
        match self {
            IfMatch::Whatever => true,
            IfMatch::Tags(tags) => tags.iter().any(|tag| tag == version),
        }
    }

    /// Refuses to replace something of this version, unless that is allowed.
    pub(crate) fn check(&self, version: &str) -> Result<(), Fault> {
        if self.allows(version) {
            return Ok(());
        }
        let detail = "It has changed since that version: read it again.";
        let fault = Fault::new(StatusCode::PRECONDITION_FAILED, detail);
        Err(fault.member("etag", format!("\"{version}\"")))
    }
}

/// A replacement must say what it replaces.
pub(crate) fn must_match() -> Fault {
    let detail =
        "Say what you replace: `If-Match: ` with the ETag you read, or `*` for whatever is there.";
    Fault::new(StatusCode::PRECONDITION_REQUIRED, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_allows_each_of_its_tags_and_no_weak_one() {
        let rows = [
            ("\"v3\"", true),
            ("v3", true),
            ("\"v2\", \"v3\"", true),
            ("W/\"v2\" ,\"v3\"", true),
            (" , \"v3\",", true),
            ("*", true),
            ("\"v2\",\"v4\"", false),
            ("W/\"v3\"", false),
            // One tag, of which a part looks like another.
            ("\"v2,v3\"", false),
            ("\"v3", true),
            ("\"v33\"", false),
            ("", false),
        ];
        for (text, is_allowed) in rows {
            assert_eq!(IfMatch::read(text).allows("v3"), is_allowed, "{text}");
        }
    }

    #[test]
    fn several_lines_are_one_list() {
        let mut headers = HeaderMap::new();
        assert_eq!(IfMatch::of(&headers).ok(), Some(None));
        headers.append(IF_MATCH, "\"a\"".parse().unwrap());
        headers.append(IF_MATCH, "\"b\"".parse().unwrap());
        let both = IfMatch::Tags(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(IfMatch::of(&headers).ok(), Some(Some(both)));
    }
}
