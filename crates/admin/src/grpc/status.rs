//! Faults as gRPC tells them: a code, what is wrong in words, and details that a program can read.

use axum::http::StatusCode;
use serde_json::Value;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::fault::Fault;

/// The most bytes of details. They travel in a header, and stock clients read no more than 8 KiB of headers.
const MOST: usize = 4096;

impl From<&Fault> for Status {
    fn from(fault: &Fault) -> Status {
        let body = fault.body();
        let code = code(fault.status());
        let message = fault.to_string();
        let mut details = Details::default();
        match code {
            Code::InvalidArgument => details.faults(&body),
            Code::FailedPrecondition => details.preconditions(&body),
            _ => {}
        }
        Status::with_error_details(code, shortened(message), details.told)
    }
}

impl From<Fault> for Status {
    fn from(fault: Fault) -> Status {
        Status::from(&fault)
    }
}

fn code(status: StatusCode) -> Code {
    match status.as_u16() {
        400 | 422 => Code::InvalidArgument,
        401 => Code::Unauthenticated,
        404 => Code::NotFound,
        409 => Code::FailedPrecondition,
        // Whoever read, changed and wrote is to begin again.
        412 => Code::Aborted,
        503 => Code::Unavailable,
        _ => Code::Internal,
    }
}

/// The first of it, at the end of a line where there is one.
fn shortened(message: String) -> String {
    const LONGEST: usize = 1024;
    if message.len() <= LONGEST {
        return message;
    }
    let end = (0..=LONGEST).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
    let whole = message[..end].rfind('\n').filter(|end| *end > 0).unwrap_or(end);
    format!("{}\n  …", &message[..whole])
}

#[derive(Default)]
struct Details {
    told: ErrorDetails,
    bytes: usize,
}

impl Details {
    /// Every fault by its place, as long as there is room.
    fn faults(&mut self, body: &Value) {
        let faults = body["faults"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (number, fault) in faults.iter().enumerate() {
            let (place, text) = (place(fault), described(fault));
            if !self.has_room(&[&place, &text]) {
                let left = format!(
                    "{} more: `tollgate check` and PUT /v1/config list all of them",
                    faults.len() - number
                );
                self.told.add_bad_request_violation("", left);
                return;
            }
            self.told.add_bad_request_violation(place, text);
        }
    }

    /// What stands in the way: fields, budgets, or keys.
    fn preconditions(&mut self, body: &Value) {
        let detail = body["detail"].as_str().unwrap_or_default();
        let mut add = |kind: &str, subject: &str, text: &str| {
            if self.has_room(&[kind, subject, text]) {
                self.told.add_precondition_failure_violation(kind, subject, text);
            }
        };
        for field in body["fields"].as_array().into_iter().flatten() {
            add("NEEDS_RESTART", field.as_str().unwrap_or_default(), detail);
        }
        for budget in body["budgets"].as_array().into_iter().flatten() {
            let subject = format!("tenant:{}", budget["parent"].as_str().unwrap_or_default());
            add("BUDGET_EXCEEDED", &subject, &budget.to_string());
        }
        if let Some(keys) = body["keys"].as_u64() {
            add("KEYS_IN_USE", &format!("{keys} keys"), detail);
        }
    }

    fn has_room(&mut self, texts: &[&str]) -> bool {
        self.bytes += texts.iter().map(|text| text.len() + 8).sum::<usize>();
        self.bytes <= MOST
    }
}

fn place(fault: &Value) -> String {
    let Some(file) = fault["file"].as_str() else { return String::new() };
    format!("{file}:{}:{}", fault["line"], fault["column"])
}

fn described(fault: &Value) -> String {
    let text = |name: &str| fault[name].as_str();
    let mark = if text("severity") == Some("warning") { "warning: " } else { "" };
    let message = format!("{mark}{}", text("message").unwrap_or_default());
    text("help").map_or_else(|| message.clone(), |help| format!("{message}: {help}"))
}
