//! Values that are kept for good.
//!
//! A value that is a slice of shared bytes has a count, and each response goes up and down with it: two locked instructions a header. What the
//! limits of a policy are, every response tells in the same few words. So these are never freed, and need no count. How many there can be
//! is bounded: whoever changes policies for ever goes on with values that are counted.

use std::collections::BTreeSet;
use std::sync::Mutex;

use http::HeaderValue;

/// Values that a process keeps at most.
const MOST: usize = 1024;

/// What is longer is told by few.
const LONGEST: usize = 128;

static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// The same value without a count, if it can be kept. Nobody waits for it.
pub(crate) fn lasting(value: &HeaderValue) -> Option<HeaderValue> {
    let text = value.to_str().ok().filter(|text| text.len() <= LONGEST)?;
    let mut kept = KEPT.try_lock().ok()?;
    let text = match kept.get(text) {
        Some(text) => *text,
        None if kept.len() < MOST => {
            let text: &'static str = Box::leak(text.into());
            kept.insert(text);
            text
        }
        None => return None,
    };
    Some(HeaderValue::from_static(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_stays_within_bounds() {
        let value = |text: &str| HeaderValue::from_str(text).expect("plain text");
        let mut kept = 0;
        for n in 0..3 * MOST {
            let value = value(&format!("\"user-second\";q={n}"));
            if let Some(same) = lasting(&value) {
                assert_eq!(same, value);
                kept += 1;
            }
        }
        assert!((1..=MOST).contains(&kept), "{kept}");
        assert!(lasting(&value(&"7".repeat(LONGEST + 1))).is_none());
        assert!(lasting(&HeaderValue::from_bytes(b"\xff").expect("opaque")).is_none());
    }
}
