//! What a counter is called in Redis.

use std::fmt::Write;

use sha2::{Digest, Sha256};
use tollgate_core::{Scope, Span};

/// The longest identifier that is written as it is.
const LONGEST: usize = 128;

/// `<prefix>:ratelimit:<scope>:<limit>/<identifier>:<span>`, the key of one counter.
///
/// Whoever sends the identifier must not choose where in a cluster it is counted, nor end it early: one with braces,
/// colons, slashes, blanks or unprintable characters, or longer than 128 bytes, is written as `sha256-` and the first 128
/// bits of its hash.
///
/// ```
/// use tollgate_core::{Scope, Span};
/// use tollgate_redis::CounterKey;
///
/// let key = CounterKey { prefix: "tollgate", scope: Scope::User, limit: "plan-free", span: Span::Second };
/// assert_eq!(key.of("alice"), "tollgate:ratelimit:user:plan-free/alice:second");
/// assert_eq!(key.of("{tag}"), "tollgate:ratelimit:user:plan-free/sha256-5ae20b1c830f1111fee635aa2cd68546:second");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterKey<'a> {
    /// What all keys begin with.
    pub prefix: &'a str,
    /// Whose requests share the counter.
    pub scope: Scope,
    /// Where the limit stands.
    pub limit: &'a str,
    /// What it is counted in.
    pub span: Span,
}

impl CounterKey<'_> {
    /// The key of `identifier`'s counter.
    pub fn of(&self, identifier: &str) -> String {
        let CounterKey { prefix, scope, limit, span } = self;
        let mut key = format!("{prefix}:ratelimit:{}:", scope.name());
        push(&mut key, limit, |byte| byte == b'{' || byte == b'}');
        key.push('/');
        push(&mut key, identifier, |byte| b"{}:/".contains(&byte));
        key.push(':');
        key.push_str(span.name());
        key
    }
}

fn push(key: &mut String, part: &str, is_unsafe: impl Fn(u8) -> bool) {
    if part.len() <= LONGEST && part.bytes().all(|byte| byte.is_ascii_graphic() && !is_unsafe(byte))
    {
        return key.push_str(part);
    }
    key.push_str("sha256-");
    for byte in &Sha256::digest(part)[..16] {
        let _ = write!(key, "{byte:02x}");
    }
}
