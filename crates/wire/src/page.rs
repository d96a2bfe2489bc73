//! Text as it is written.

use std::ops::Range;

use tollgate_core::PolicyName;

/// The text of one response, as it is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page(Vec<u8>);

impl Page {
    pub(crate) fn with_capacity(bytes: usize) -> Page {
        Page(Vec::with_capacity(bytes))
    }

    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    #[inline]
    pub(crate) fn text(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    #[inline]
    pub(crate) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Writes a number, and tells where it stands.
    #[inline]
    pub(crate) fn figure(&mut self, number: u64) -> Range<usize> {
        let start = self.end();
        self.number(number);
        start..self.end()
    }

    /// Writes again what stands there.
    #[inline]
    pub(crate) fn again(&mut self, place: Range<usize>) {
        self.0.extend_from_within(place);
    }

    pub(crate) fn name(&mut self, name: PolicyName) {
        self.text(name.scope().name());
        self.text("-");
        self.text(name.span().name());
        if name.ordinal() > 1 {
            self.text("-");
            self.number(u64::from(name.ordinal()));
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    /// The end so far: where the next text begins.
    pub(crate) fn end(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}
