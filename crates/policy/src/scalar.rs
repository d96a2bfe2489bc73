//! Which value an unquoted word is, by YAML 1.2's core schema.
//!
//! `no` and `on` are text there, and so is `2026-01-01`. A number is a whole number if its digits say so
//! exactly (`1.0`, `1e3`); nothing is rounded to become one.

use crate::node::Value;

/// The value of the unquoted word `text`.
pub(crate) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        _ => {}
    }
    number(text).unwrap_or_else(|| Value::Str(text.into()))
}

fn number(text: &str) -> Option<Value> {
    // Most words begin with a letter and need no further look.
    if !matches!(text.as_bytes().first(), Some(b'0'..=b'9' | b'-' | b'+' | b'.')) {
        return None;
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let is_number = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
            let number = || i64::from_str_radix(digits, radix).map_or(Value::Huge, Value::Int);
            return is_number.then(number);
        }
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Some(Value::Float(f64::INFINITY.copysign(if text.starts_with('-') {
            -1.0
        } else {
            1.0
        })));
    }
    let decimal = Decimal::read(unsigned)?;
    Some(match decimal.whole() {
        Some(magnitude) => {
            let signed = if text.starts_with('-') { -magnitude } else { magnitude };
            i64::try_from(signed).map_or(Value::Huge, Value::Int)
        }
        None if decimal.fraction.is_empty() && decimal.exponent == 0 => Value::Huge,
        None => Value::Float(text.parse().unwrap_or(f64::INFINITY)),
    })
}

/// `whole . fraction e exponent`.
struct Decimal<'a> {
    whole: &'a str,
    fraction: &'a str,
    exponent: i32,
}

impl<'a> Decimal<'a> {
    fn read(unsigned: &'a str) -> Option<Decimal<'a>> {
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent),
            None => (unsigned, "0"),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let power = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if whole.len() + fraction.len() == 0
            || power.is_empty()
            || !is_digits(whole)
            || !is_digits(fraction)
            || !is_digits(power)
        {
            return None;
        }
        // An exponent beyond 32 bits makes zero or infinity, as the largest does.
        let bound = if exponent.starts_with('-') { i32::MIN } else { i32::MAX };
        Some(Decimal { whole, fraction, exponent: exponent.parse().unwrap_or(bound) })
    }

    /// The number, if it is a whole one of less than 38 digits.
    fn whole(&self) -> Option<i128> {
        let fraction = self.fraction.trim_end_matches('0');
        let mut number: i128 = 0;
        for digit in self.whole.bytes().chain(fraction.bytes()) {
            number = number.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        }
        let mut power = i64::from(self.exponent) - i64::try_from(fraction.len()).ok()?;
        while power > 0 && number != 0 {
            number = number.checked_mul(10)?;
            power -= 1;
        }
        while power < 0 && number != 0 {
            if number % 10 != 0 {
                return None;
            }
            number /= 10;
            power += 1;
        }
        Some(number)
    }
}
