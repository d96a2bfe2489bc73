//! The two messages of gRPC's error model that a refusal carries, to and from bytes: `google.rpc.Status` with a
//! `google.rpc.RetryInfo` inside. Five fields in all, so they are written by hand instead of by a code generator.

use std::time::Duration;

const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// Lengths and numbers are kept in one byte of tag: field number times 8 plus the wire type.
const VARINT: u8 = 0;
const LENGTH: u8 = 2;

/// Writes a status; with a delay, it holds a `RetryInfo`.
pub(crate) fn status(code: u8, message: &str, retry_delay: Option<Duration>) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 80);
    number(&mut out, 1, u64::from(code));
    bytes(&mut out, 2, message.as_bytes());
    if let Some(delay) = retry_delay {
        let (mut duration, mut info, mut any) = (Vec::new(), Vec::new(), Vec::new());
        number(&mut duration, 1, delay.as_secs());
        number(&mut duration, 2, u64::from(delay.subsec_nanos()));
        bytes(&mut info, 1, &duration);
        bytes(&mut any, 1, RETRY_INFO.as_bytes());
        bytes(&mut any, 2, &info);
        bytes(&mut out, 3, &any);
    }
    out
}

/// The delay of the `RetryInfo` inside a status; `None` for anything that is not one.
pub(crate) fn retry_delay(status: &[u8]) -> Option<Duration> {
    fields(status).filter(|(tag, _)| *tag == 3).find_map(|(_, any)| {
        let any = any.bytes()?;
        let kind = last(any, 1)?.bytes()?;
        if !kind.ends_with(b"google.rpc.RetryInfo") {
            return None;
        }
        let duration = last(last(any, 2)?.bytes()?, 1)?.bytes()?;
        let part = |field| last(duration, field).map_or(Some(0), Field::number);
        let (secs, nanos) = (part(1)?, part(2)?);
        // Negative parts are huge here, and no delay.
        let nanos = u32::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
        i64::try_from(secs).ok()?;
        Some(Duration::new(secs, nanos))
    })
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Zero is what an absent field means.
fn number(out: &mut Vec<u8>, field: u8, value: u64) {
    if value > 0 {
        out.push(field << 3 | VARINT);
        varint(out, value);
    }
}

fn bytes(out: &mut Vec<u8>, field: u8, value: &[u8]) {
    out.push(field << 3 | LENGTH);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

#[derive(Clone, Copy, Debug)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a fixed width, which none of ours is.
    Other,
}

impl<'a> Field<'a> {
    fn bytes(self) -> Option<&'a [u8]> {
        if let Field::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    fn number(self) -> Option<u64> {
        if let Field::Number(number) = self { Some(number) } else { None }
    }
}

/// The fields of a message with their numbers, up to the first that is malformed.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u64, Field<'_>)> {
    std::iter::from_fn(move || {
        let tag = take_varint(&mut rest)?;
        let field = match tag & 7 {
            0 => Field::Number(take_varint(&mut rest)?),
            1 => take(&mut rest, 8).map(|_| Field::Other)?,
            2 => {
                let length = usize::try_from(take_varint(&mut rest)?).ok()?;
                Field::Bytes(take(&mut rest, length)?)
            }
            5 => take(&mut rest, 4).map(|_| Field::Other)?,
            _ => return None,
        };
        Some((tag >> 3, field))
    })
}

/// A field that occurs twice means the second.
fn last(message: &[u8], number: u64) -> Option<Field<'_>> {
    fields(message).filter(|(tag, _)| *tag == number).last().map(|(_, field)| field)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, left) = rest.split_first()?;
        *rest = left;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
