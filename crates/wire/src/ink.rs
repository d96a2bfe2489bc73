//! What a refusal is written with: onto a page, or into a form that keeps where each figure stands.

use tollgate_core::PolicyName;

use crate::json;
use crate::moment;
use crate::page::Page;

/// A figure of a refusal that may be another in the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Seconds to wait.
    Secs,
    /// What remains of the reported limit.
    Remaining,
}

pub(crate) trait Ink {
    fn text(&mut self, text: &str);

    /// Text of somebody else's, as a part of a JSON string.
    fn escaped(&mut self, text: &str);

    fn name(&mut self, name: PolicyName);

    /// A number that stays the same as long as the limits do.
    fn number(&mut self, number: u64);

    fn figure(&mut self, which: Figure, value: u64);

    /// When the reported limit is reset, by seconds since the epoch.
    fn reset(&mut self, secs: u64);

    /// The request's id, as a part of a JSON string.
    fn request_id(&mut self, id: &str);
}

impl Ink for Page {
    fn text(&mut self, text: &str) {
        Page::text(self, text);
    }

    fn escaped(&mut self, text: &str) {
        json::escaped(self, text);
    }

    fn name(&mut self, name: PolicyName) {
        Page::name(self, name);
    }

    fn number(&mut self, number: u64) {
        Page::number(self, number);
    }

    fn figure(&mut self, _: Figure, value: u64) {
        Page::number(self, value);
    }

    fn reset(&mut self, secs: u64) {
        moment::write(self, secs);
    }

    fn request_id(&mut self, id: &str) {
        json::escaped(self, id);
    }
}
