//! Everything that goes wrong, as problem details.

use std::fmt;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tollgate_policy::compile::{BudgetExceeded, PolicyFaults};
use tollgate_policy::{Diagnostics, Severity};
use tollgate_storage::{StoreError, Unavailable};
use tollgate_wire::Problem;

use crate::data_plane::{NotReady, Notice};
use crate::live::NoSuch;

/// An answer that says what is wrong and what would be right.
#[derive(Debug)]
pub(crate) struct Fault(Box<Problem>);

/// Kinds of faults that a program may want to tell apart beyond their status.
const INVALID: &str = "urn:tollgate:invalid";
const BUDGET_EXCEEDED: &str = "urn:tollgate:budget-exceeded";
const NEEDS_RESTART: &str = "urn:tollgate:needs-restart";
const DECLARED_IN_FILE: &str = "urn:tollgate:declared-in-file";

impl Fault {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Fault {
        Fault(Box::new(Problem::new(status).detail(detail)))
    }

    pub(crate) fn unauthorized() -> Fault {
        let detail = "The admin token is needed: `Authorization: Bearer …`.";
        Fault::new(StatusCode::UNAUTHORIZED, detail)
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn not_found(what: &str) -> Fault {
        Fault::new(StatusCode::NOT_FOUND, format!("There is no {what}."))
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Fault {
        Fault::new(StatusCode::CONFLICT, detail)
    }

    /// One fault of a body that has the right shape.
    pub(crate) fn invalid(message: impl Into<String>, help: &str) -> Fault {
        let notice = Notice {
            file: None,
            line: None,
            column: None,
            severity: Severity::Error,
            message: message.into(),
            help: Some(help.to_owned()),
        };
        Fault::unusable(notice.message.clone(), &[notice])
    }

    /// What is wrong with a body or configuration, told as `notices`.
    pub(crate) fn faulty(found: &Diagnostics, notices: &[Notice]) -> Fault {
        let detail = match (found.errors(), notices) {
            (1, [only, ..]) if !found.may_hide_more() => only.message.clone(),
            (1, _) => "1 thing is wrong.".to_owned(),
            (many, _) => format!("{many} things are wrong."),
        };
        let more = if found.may_hide_more() { " More may be found when it is mended." } else { "" };
        Fault::unusable(detail + more, notices)
    }

    fn unusable(detail: String, faults: &[Notice]) -> Fault {
        Fault::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
            .map(|problem| problem.kind(INVALID).title("Invalid").member("faults", faults))
    }

    pub(crate) fn read_only(what: &str) -> Fault {
        let detail = format!(
            "{what} is declared in the configuration file: change it there, or by PUT /v1/config."
        );
        Fault::conflict(detail)
            .map(|problem| problem.kind(DECLARED_IN_FILE).title("Declared in the file"))
    }

    pub(crate) fn member(self, name: &str, value: impl serde::Serialize) -> Fault {
        self.map(|problem| problem.member(name, value))
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.0.status()
    }

    /// The problem details that it is answered with.
    pub(crate) fn body(&self) -> Value {
        self.0.body()
    }

    fn map(self, change: impl FnOnce(Problem) -> Problem) -> Fault {
        Fault(Box::new(change(*self.0)))
    }

    /// What is wrong with a policy that `change` would make. Budgets are conflicts, with their figures; where the change
    /// came by the API it stands in no file, and its faults are told without a place.
    fn of_policy(faults: &PolicyFaults, has_places: bool) -> Fault {
        let found = &faults.diagnostics;
        let notices = if has_places { errors_first(found) } else { errors(found) };
        let [first, ..] = &faults.budgets[..] else { return Fault::faulty(found, &notices) };
        let figures: Vec<Value> = faults.budgets.iter().map(figures).collect();
        Fault::conflict(first.to_string()).map(|problem| {
            problem
                .kind(BUDGET_EXCEEDED)
                .title("Budget exceeded")
                .member("budgets", figures)
                .member("faults", notices)
        })
    }

    /// Why a change by the API cannot be put into force.
    pub(crate) fn of_change(why: NotReady) -> Fault {
        match why {
            NotReady::Faults(faults) => Fault::of_policy(&faults, false),
            other => Fault::from(other),
        }
    }
}

/// What is wrong with a change that came by the API, without places: what deserves a look in the file did so before.
pub(crate) fn errors(found: &Diagnostics) -> Vec<Notice> {
    let all = Notice::all(found).into_iter().filter(|one| one.severity == Severity::Error);
    all.map(Notice::without_place).collect()
}

/// What is wrong with a file, and then what deserves a look.
fn errors_first(found: &Diagnostics) -> Vec<Notice> {
    let mut all = Notice::all(found);
    all.sort_by_key(|one| one.severity);
    all
}

fn figures(exceeded: &BudgetExceeded) -> Value {
    json!({
        "parent": exceeded.parent,
        "child": exceeded.child,
        "total": exceeded.total.tokens(),
        "window": exceeded.total.window().to_string(),
        "overcommit_ratio": exceeded.overcommit_ratio,
        "allocated": exceeded.allocated,
        "asked": exceeded.asked,
        "available": exceeded.available,
    })
}

impl From<Diagnostics> for Fault {
    fn from(faults: Diagnostics) -> Fault {
        Fault::faulty(&faults, &errors_first(&faults))
    }
}

impl From<NotReady> for Fault {
    fn from(why: NotReady) -> Fault {
        match why {
            NotReady::Faults(faults) => Fault::of_policy(&faults, true),
            NotReady::NeedsRestart(fields) => {
                let named = fields.join("`, `");
                Fault::conflict(format!(
                    "A change of `{named}` needs a restart: nothing was changed."
                ))
                .map(|problem| {
                    problem.kind(NEEDS_RESTART).title("Needs a restart").member("fields", fields)
                })
            }
            NotReady::NoFile => Fault::conflict(
                "There is no configuration file: start `tollgate serve --config FILE` to have one.",
            ),
            NotReady::Failed(why) => {
                tracing::error!("the control plane could not make a change: {why}");
                Fault::new(StatusCode::INTERNAL_SERVER_ERROR, why)
            }
        }
    }
}

impl From<NoSuch> for Fault {
    fn from(why: NoSuch) -> Fault {
        Fault::new(StatusCode::NOT_FOUND, why.0)
    }
}

impl From<StoreError> for Fault {
    fn from(why: StoreError) -> Fault {
        let status = match &why {
            StoreError::NotFound { .. } => StatusCode::NOT_FOUND,
            StoreError::Exists { .. }
            | StoreError::InUse { .. }
            | StoreError::NotCurrent { .. }
            | StoreError::Outdated
            | StoreError::Answered(_) => StatusCode::CONFLICT,
            StoreError::Stale { .. } => StatusCode::PRECONDITION_FAILED,
            StoreError::BadCursor => StatusCode::BAD_REQUEST,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        let fault = Fault::new(status, why.to_string());
        match why {
            StoreError::Stale { found, .. } => fault.member("etag", format!("\"{found}\"")),
            StoreError::InUse { keys, .. } => fault.member("keys", keys),
            StoreError::Unavailable(why) => {
                tracing::error!("the control plane cannot use its storage: {why}");
                fault
            }
            _ => fault,
        }
    }
}

impl From<Unavailable> for Fault {
    fn from(why: Unavailable) -> Fault {
        StoreError::from(why).into()
    }
}

impl fmt::Display for Fault {
    /// What is wrong, with every fault on a line of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.body();
        f.write_str(body["detail"].as_str().unwrap_or_default())?;
        for fault in body["faults"].as_array().into_iter().flatten() {
            let text = |name: &str| fault[name].as_str().unwrap_or_default().to_owned();
            let mark = if fault["severity"] == "warning" { "warning: " } else { "" };
            write!(
                f,
                "\n  {}:{}:{} {mark}{}",
                text("file"),
                fault["line"],
                fault["column"],
                text("message")
            )?;
        }
        Ok(())
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        self.0.http().map(Body::from)
    }
}
