//! What nobody knows of a file because something in its shape is wrong.
//!
//! Where a field is faulty the rest of the file is looked at without it. What would only be wrong because the field is not
//! there is not told: the fault that took it away is told already.

use std::collections::HashMap;

use crate::source::Span;

/// Fields that are missing because what stands there is wrong.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    /// Their names, by where the object stands that lacks them.
    fields: HashMap<(u32, u32), Vec<Box<str>>>,
}

impl Doubts {
    /// What `object` says in `field` is not known, or not all of it.
    pub(crate) fn add(&mut self, object: Span, field: &str) {
        let fields = self.fields.entry((object.start, object.end)).or_default();
        if !fields.iter().any(|known| **known == *field) {
            fields.push(field.into());
        }
    }

    /// Whether it is unknown what `object` says in `field`.
    pub(crate) fn has(&self, object: Span, field: &str) -> bool {
        let fields = self.fields.get(&(object.start, object.end));
        fields.is_some_and(|fields| fields.iter().any(|known| **known == *field))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}
