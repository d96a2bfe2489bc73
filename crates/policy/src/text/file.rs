//! Places in the file system.

use std::fmt;
use std::path::Path;

use schemars::JsonSchema;

use super::{Right, Text, own_text, text_value};

/// A path, from where the program was started unless it begins with `/`.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(extend("format" = Self::FORMAT, "pattern" = Self::PATTERN))]
pub struct FilePath(Box<str>);

impl FilePath {
    /// As a path.
    pub fn as_path(&self) -> &Path {
        Path::new(&*self.0)
    }
}

impl Text for FilePath {
    const FORMAT: &'static str = "file-path";
    const PATTERN: &'static str = r"^[^\x00-\x1f\x7f-\x9f]+$";

    fn read(text: &str) -> Result<FilePath, Right> {
        if text.is_empty() || text.chars().any(char::is_control) {
            Err("write a path".into())
        } else {
            Ok(FilePath(text.into()))
        }
    }
}

own_text!(FilePath);

/// Where a line for every request goes: `none`, `stdout`, or a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AccessLog {
    /// Nowhere.
    #[default]
    None,
    /// To the standard output.
    Stdout,
    /// To the end of a file.
    File(FilePath),
}

impl Text for AccessLog {
    const FORMAT: &'static str = "access-log";
    const PATTERN: &'static str = FilePath::PATTERN;

    fn read(text: &str) -> Result<AccessLog, Right> {
        match text {
            "none" => Ok(AccessLog::None),
            "stdout" => Ok(AccessLog::Stdout),
            path => match FilePath::read(path) {
                Ok(path) => Ok(AccessLog::File(path)),
                Err(_) => Err("write `none`, `stdout` or a path".into()),
            },
        }
    }
}

impl fmt::Display for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AccessLog::None => "none",
            AccessLog::Stdout => "stdout",
            AccessLog::File(path) => path.as_str(),
        })
    }
}

text_value!(AccessLog);

impl JsonSchema for AccessLog {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AccessLog".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Where a line for every request goes: `none`, `stdout`, or a path.",
            "type": "string",
            "format": Self::FORMAT,
            "pattern": Self::PATTERN,
        })
    }
}
