//! What nobody may read in a log: keys of callers, and what is written before the `@` of a URL.
//!
//! A file that is wrong is quoted where it is wrong, and logs are read by more people than files are. Every character of a secret
//! is shown as one `*`, so that places stay where they are.

use std::borrow::Cow;
use std::ops::Range;

/// What stands for one character of a secret.
pub(crate) const HIDDEN: char = '*';

/// So many characters of a text are looked at, of which far fewer are ever shown: it may have megabytes.
const REACH: usize = 1000;

/// The beginning of `text`, its secrets hidden, and whether that is all of it; at most `shown` characters.
pub(crate) fn beginning(text: &str, shown: usize) -> (String, bool) {
    let end = |of: &str, count| of.char_indices().nth(count).map(|(byte, _)| byte);
    let looked_at = end(text, REACH).map_or(text, |end| &text[..end]);
    let mut masked = masked(looked_at).into_owned();
    let cut = end(&masked, shown);
    if let Some(cut) = cut {
        masked.truncate(cut);
    }
    (masked, cut.is_none())
}

/// `text`, its secrets hidden.
pub(crate) fn masked(text: &str) -> Cow<'_, str> {
    let secrets = secrets(text);
    if secrets.is_empty() {
        return text.into();
    }
    let is_secret = |at: usize| secrets.iter().any(|secret| secret.contains(&at));
    text.char_indices().map(|(at, c)| if is_secret(at) { HIDDEN } else { c }).collect()
}

/// Where the secrets of `text` are, in bytes.
fn secrets(text: &str) -> Vec<Range<usize>> {
    let logins = text.match_indices("://").filter_map(|(at, _)| login(text, at));
    let keys = text.match_indices("tg_").filter_map(|(at, _)| key(text, at));
    logins.chain(keys).collect()
}

/// What stands between the `://` at `at` and the last `@` of the same value.
fn login(text: &str, at: usize) -> Option<Range<usize>> {
    let (before, rest) = (&text[..at], &text[at + 3..]);
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let value = match before.trim_end_matches(is_scheme).chars().next_back() {
        Some(quote @ ('"' | '\'')) => &rest[..closing(rest, quote)],
        // Plain text ends where a list or an object goes on; but a password may have a comma in it.
        _ => match rest.split([',', '}', ']']).next() {
            Some(value) if value.contains('@') || is_host(value) => value,
            _ => rest,
        },
    };
    value.rfind('@').filter(|&end| end > 0).map(|end| at + 3..at + 3 + end)
}

/// Whether `value` begins with a host, and perhaps a port, rather than with a name and a password.
fn is_host(value: &str) -> bool {
    let authority = value.split('/').next().unwrap_or_default().trim_end();
    authority.rsplit_once(':').is_none_or(|(host, port)| {
        !host.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Where the text in quotes ends whose rest this is.
fn closing(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices() {
        if c == quote && !is_escaped {
            return at;
        }
        is_escaped = quote == '"' && c == '\\' && !is_escaped;
    }
    rest.len()
}

/// What follows `tg_live_` or the like at `at`.
fn key(text: &str, at: usize) -> Option<Range<usize>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let word = &text[at..];
    let word = &word[..word.find(|c| !is_part(c)).unwrap_or(word.len())];
    let kind = word[3..].find('_')?;
    let begin = 3 + kind + 1;
    (begin < word.len()).then(|| at + begin..at + word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_the_rest_is_not() {
        for (written, shown) in [
            ("tg_live_abc def", "tg_live_*** def"),
            ("[\"tg_admin_a-b_c\"]", "[\"tg_admin_*****\"]"),
            ("tg_x", "tg_x"),
            ("url: redis://:pw@h:1, mode: x", "url: redis://***@h:1, mode: x"),
            ("url: redis://u:p w@h", "url: redis://*****@h"),
            ("url: redis://u:p,w@h", "url: redis://*****@h"),
            (
                "{\"a\":\"redis://u:p\\\"é@h\",\"b\":\"c@d\"}",
                "{\"a\":\"redis://******@h\",\"b\":\"c@d\"}",
            ),
            ("'http://a@b@c'", "'http://***@c'"),
            ("{ a: http://h:80/p, b: x@y }", "{ a: http://h:80/p, b: x@y }"),
        ] {
            assert_eq!(masked(written), shown);
            assert_eq!(masked(written).chars().count(), written.chars().count());
        }
    }
}
