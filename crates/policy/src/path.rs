//! Where a value stands in the tree, by names and numbers.

use std::borrow::Cow;
use std::fmt;

/// One step down the tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// To the field of that name.
    Key(Cow<'static, str>),
    /// To the item of that number, from 0.
    Index(usize),
}

/// The way from the root to a value: `tenants[3].rate_limit.burst`.
///
/// ```
/// use tollgate_policy::Path;
///
/// let path = Path::root().key("tenants").index(3).key("rate_limit");
/// assert_eq!(path.to_string(), "tenants[3].rate_limit");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path(Vec<Segment>);

impl Path {
    /// The root itself.
    pub const fn root() -> Path {
        Path(Vec::new())
    }

    /// On to the field called `name`.
    #[must_use]
    pub fn key(mut self, name: impl Into<Cow<'static, str>>) -> Path {
        self.0.push(Segment::Key(name.into()));
        self
    }

    /// On to the item number `index`, from 0.
    #[must_use]
    pub fn index(mut self, index: usize) -> Path {
        self.0.push(Segment::Index(index));
        self
    }

    /// The steps, from the root.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// The path of steps given from the value up to the root, as an error collects them.
    pub(crate) fn from_leaf(mut steps: Vec<Segment>) -> Path {
        steps.reverse();
        Path(steps)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Key(name) if place == 0 => write!(f, "{name}")?,
                Segment::Key(name) => write!(f, ".{name}")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
