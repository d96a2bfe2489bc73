//! Keys have one form, and a mistyped one is known without a lookup.

use std::convert::Infallible;

use tollgate_policy::{ApiKey, fill_base62};

/// Made by another program (zlib's CRC32): from none to three digits of padding.
const KEYS: [(&str, &str); 4] = [
    (
        "tg_live_dGlMoiyrlfxX1rTnyFf3vA7N19h7YV",
        "cc025ced0102471b5e621559fc2c63dc126a7ff7e139c9aebec80e9d403ca75e",
    ),
    (
        "tg_live_LrD8kay8evoQ6ARN93sQI9Tx0xrwRr",
        "e381054821bf41d4581c6dea9152280ea2b926189c992db0d08c6ac9ca9b98b7",
    ),
    (
        "tg_live_dJWOWUYjiPSoqbxxiZg3Y9pQ00lDLx",
        "da077bd36b9519ed271adc0b368b716302173140982b3a9e3e500a7740d05027",
    ),
    (
        "tg_live_zxLxY7v90lpsB0ffCxU7Ilva000Tl0",
        "6e1a6c9f523670ead9be1d20b7774907e269bb0f2e688d6d79791a410e40edbe",
    ),
];

fn mint(mut step: u64) -> ApiKey {
    let fill = |bytes: &mut [u8]| {
        for byte in bytes {
            step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (step >> 56) as u8;
        }
        Ok::<(), Infallible>(())
    };
    ApiKey::mint(fill).unwrap()
}

#[test]
fn keys_made_elsewhere_are_read_and_have_the_digest_others_compute() {
    for (text, digest) in KEYS {
        let key = ApiKey::read(text.as_bytes()).unwrap();
        assert_eq!(key.as_str(), text);
        assert_eq!(key.sha256().to_string(), digest);
        assert_eq!(key.display_prefix(), &text[..12]);
    }
}

#[test]
fn every_change_of_a_single_character_is_detected() {
    for (text, _) in KEYS {
        for at in 0..text.len() {
            for byte in 0..=u8::MAX {
                let mut typed = text.as_bytes().to_vec();
                typed[at] = byte;
                let is_the_key = byte == text.as_bytes()[at];
                assert_eq!(ApiKey::read(&typed).is_some(), is_the_key, "{at}: {byte}");
            }
        }
    }
}

#[test]
fn neighbours_swapped_and_missing_or_added_characters_are_detected() {
    for (text, _) in KEYS {
        for at in 1..text.len() {
            let mut typed = text.as_bytes().to_vec();
            typed.swap(at - 1, at);
            let is_the_key = typed == text.as_bytes();
            assert_eq!(ApiKey::read(&typed).is_some(), is_the_key);
            assert!(ApiKey::read(&text.as_bytes()[..at]).is_none());
        }
        assert!(ApiKey::read(format!("{text}0").as_bytes()).is_none());
        assert!(ApiKey::read(format!(" {text}").as_bytes()).is_none());
    }
    assert!(ApiKey::read(b"").is_none());
}

#[test]
fn minted_keys_are_read_again_and_differ() {
    let keys: Vec<ApiKey> = (0..1000).map(mint).collect();
    for key in &keys {
        assert_eq!(ApiKey::read(key.as_str().as_bytes()).as_ref(), Some(key));
    }
    let mut texts: Vec<&str> = keys.iter().map(ApiKey::as_str).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), keys.len());
}

#[test]
fn every_character_is_as_likely_as_another() {
    // Each of the 256 values of a byte once: 62 of 64 are kept, four times.
    let mut next = 0u8;
    let mut digits = [0; 62 * 4];
    let fill = |bytes: &mut [u8]| {
        for byte in bytes {
            *byte = next;
            next = next.wrapping_add(1);
        }
        Ok::<(), Infallible>(())
    };
    fill_base62(&mut digits, fill).unwrap();
    for digit in (b'0'..=b'9').chain(b'A'..=b'Z').chain(b'a'..=b'z') {
        assert_eq!(digits.iter().filter(|d| **d == digit).count(), 4, "{}", digit as char);
    }
}

#[test]
fn a_failing_source_of_randomness_makes_no_key() {
    assert_eq!(ApiKey::mint(|_| Err("no entropy")), Err("no entropy"));
}

#[test]
fn a_key_does_not_show_in_debug_output() {
    let shown = format!("{:?}", ApiKey::read(KEYS[0].0.as_bytes()).unwrap());
    assert_eq!(shown, "ApiKey(tg_live_dGlM…)");
}
