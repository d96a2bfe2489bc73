//! Which route a request takes: one spelling of each path, and the most specific route for it.

mod matcher;
mod spelling;

pub use matcher::{Matcher, RouteKey, Taken};
pub use spelling::{BadPath, normalise};
