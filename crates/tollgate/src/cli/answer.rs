//! What the admin API answered.

use std::fmt::Write;

use bytes::Bytes;
use http::HeaderMap;
use http::header::ETAG;
use serde_json::Value;

use super::table::plain;
use crate::exit::Failure;

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// What a fault calls the body that was sent.
    pub(crate) body_name: String,
    /// Who answered.
    pub(crate) url: String,
}

impl Answer {
    pub(crate) fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body as text.
    pub(crate) fn text(&self) -> Result<&str, Failure> {
        str::from_utf8(&self.body).map_err(|_| self.strange())
    }

    /// The body as JSON; nothing of an empty one.
    pub(crate) fn json(&self) -> Result<Value, Failure> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body).map_err(|_| self.strange())
    }

    /// The version of what was answered.
    pub(crate) fn etag(&self) -> Option<&str> {
        self.header(ETAG.as_str())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn strange(&self) -> Failure {
        Failure::Failed(self.in_words())
    }

    /// Whether it is a problem of this type.
    pub(crate) fn is_of(&self, kind: &str) -> bool {
        serde_json::from_slice::<Value>(&self.body).is_ok_and(|problem| problem["type"] == kind)
    }

    /// What is wrong, with every fault on a line of its own.
    pub(crate) fn in_words(&self) -> String {
        match serde_json::from_slice::<Value>(&self.body) {
            Ok(problem) if problem["detail"].is_string() => words(&problem, &self.body_name),
            _ => format!(
                "{} answered {} and not as the admin API does: is it the gateway's `admin_listen`?",
                self.url, self.status
            ),
        }
    }
}

/// A problem, as a person would tell it.
fn words(problem: &Value, body_name: &str) -> String {
    let detail = text(problem, "detail");
    let none = Vec::new();
    let faults = problem["faults"].as_array().unwrap_or(&none);
    if let [fault] = &faults[..]
        && text(fault, "message") == detail
    {
        return told(fault, body_name, "\n  ");
    }
    let mut all = detail;
    for fault in faults {
        // A file that is refused is told with its warnings.
        let mark = if fault["severity"] == "warning" { "warning: " } else { "" };
        let _ = write!(all, "\n  {mark}{}", told(fault, body_name, "\n    "));
    }
    all
}

/// Place, message and what would be right.
fn told(fault: &Value, body_name: &str, indent: &str) -> String {
    let mut all = String::new();
    let file = match text(fault, "file").as_str() {
        "body" => plain(body_name),
        file => file.to_owned(),
    };
    // A body made of flags has no lines that anybody wrote.
    if !file.is_empty() && file != "body" {
        let _ = write!(all, "{file}:{}:{}: ", fault["line"], fault["column"]);
    }
    all.push_str(&text(fault, "message"));
    if fault["help"].is_string() {
        let _ = write!(all, "{indent}help: {}", text(fault, "help"));
    }
    all
}

/// Warnings that came with a good answer, on standard error.
pub(crate) fn warn(answer: &Value) {
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        eprintln!("warning: {}", told(warning, "body", "\n  "));
    }
}

fn text(value: &Value, name: &str) -> String {
    plain(value[name].as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_fault_is_told_with_its_place_and_what_would_be_right() {
        let problem = json!({ "detail": "2 things are wrong.", "faults": [
            { "file": "body", "line": 2, "column": 3, "message": "unknown field `x`", "help": "write `y`" },
            { "message": "there is no plan `z`", "severity": "error" },
            { "message": "nobody goes there", "severity": "warning" },
        ]});
        assert_eq!(
            words(&problem, "acme.yaml"),
            "2 things are wrong.\n  acme.yaml:2:3: unknown field `x`\n    help: write `y`\n  there is no plan `z`\n  \
             warning: nobody goes there"
        );
    }

    #[test]
    fn one_fault_is_told_once() {
        let fault = json!({ "message": "there is no plan `z`", "help": "create it" });
        let problem = json!({ "detail": "there is no plan `z`", "faults": [fault] });
        assert_eq!(words(&problem, "body"), "there is no plan `z`\n  help: create it");
    }
}
