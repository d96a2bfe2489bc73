//! A limit's place in words, to be carried along.

use std::fmt;
use std::sync::Arc;

/// Nearly all are short, and a request's verdict has it twice: so a short one is copied, which takes no allocation, and of which
/// threads share no counter.
#[derive(Clone)]
pub(crate) enum Source {
    Short { length: u8, text: [u8; SHORT] },
    Long(Arc<str>),
}

const SHORT: usize = 30;

impl Source {
    pub(crate) fn of(words: &str) -> Source {
        let mut text = [0; SHORT];
        match text.get_mut(..words.len()) {
            Some(room) => {
                room.copy_from_slice(words.as_bytes());
                Source::Short { length: words.len() as u8, text }
            }
            None => Source::Long(words.into()),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        match self {
            Source::Short { length, text } => {
                std::str::from_utf8(&text[..usize::from(*length)]).unwrap_or_default()
            }
            Source::Long(text) => text,
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_ones_are_what_they_were() {
        for words in
            ["", "plan:free", &"ä".repeat(15), &"x".repeat(30), &"x".repeat(31), &"ä".repeat(200)]
        {
            assert_eq!(Source::of(words).clone().as_str(), words);
        }
    }
}
