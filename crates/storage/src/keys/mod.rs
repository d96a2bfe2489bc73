//! API keys: what is stored of each, and the snapshot that requests look in.

mod entry;
mod snapshot;
mod stored;

pub use entry::KeyEntry;
pub use snapshot::{FoundKey, KeyLoader, KeySnapshot};
pub use stored::{KeyDraft, KeyTerms, MintError, StoredKey};
