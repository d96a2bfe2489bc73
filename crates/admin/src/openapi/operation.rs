//! One operation of the API, with everything that it may be asked with and answer.

use serde_json::{Value, json};
use tollgate_storage::PageOf;

/// One operation of a path.
pub(super) struct Operation {
    pub(super) value: Value,
}

/// Statuses that any operation may answer with.
const ALWAYS: &[u16] = &[400, 401, 503];

impl Operation {
    pub(super) fn new(id: &str, summary: &str) -> Operation {
        let value =
            json!({ "operationId": id, "summary": summary, "parameters": [], "responses": {} });
        let mut operation = Operation { value };
        for status in ALWAYS {
            operation.problem(*status);
        }
        operation
    }

    pub(super) fn problem(&mut self, status: u16) {
        let schema = json!({ "$ref": "#/components/schemas/Problem" });
        self.value["responses"][status.to_string()] = json!({
            "description": words(status),
            "content": { "application/problem+json": { "schema": schema } },
        });
    }

    pub(super) fn problems(mut self, statuses: &[u16]) -> Operation {
        statuses.iter().for_each(|status| self.problem(*status));
        self
    }

    pub(super) fn parameter(
        mut self,
        place: &str,
        name: &str,
        schema: &Value,
        about: &str,
    ) -> Operation {
        let parameter = json!({
            "in": place, "name": name, "schema": schema, "description": about, "required": place == "path",
        });
        if let Some(all) = self.value["parameters"].as_array_mut() {
            all.push(parameter);
        }
        self
    }

    pub(super) fn path(self, name: &str) -> Operation {
        self.parameter("path", name, &json!({ "type": "string", "minLength": 1 }), "Which one.")
            .problems(&[404])
    }

    pub(super) fn query(self, name: &str, about: &str) -> Operation {
        self.parameter("query", name, &json!({ "type": "string" }), about)
    }

    pub(super) fn page(self) -> Operation {
        self.page_of(100, PageOf::MOST)
    }

    pub(super) fn page_of(self, default: usize, most: usize) -> Operation {
        let rows = json!({ "type": "integer", "minimum": 1, "maximum": most, "default": default });
        self.query("cursor", "What `next` of the page before said.").parameter(
            "query",
            "limit",
            &rows,
            "How many rows at most.",
        )
    }

    pub(super) fn header(self, name: &str, about: &str) -> Operation {
        let text =
            json!({ "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" });
        self.parameter("header", name, &text, about)
    }

    pub(super) fn idempotent(self) -> Operation {
        self.header(
            "Idempotency-Key",
            "The same request with the same key is done once; a replay tells no secret.",
        )
    }

    pub(super) fn if_match(self) -> Operation {
        self.header("If-Match", "The ETag that was read, several with commas between, or `*`.")
            .problems(&[412])
    }

    pub(super) fn body(mut self, schema: &Value) -> Operation {
        let content = json!({ "application/json": { "schema": schema } });
        self.value["requestBody"] = json!({ "required": true, "content": content });
        self.problems(&[413, 415, 422])
    }

    pub(super) fn answers(self, status: u16, kind: &str, schema: &Value) -> Operation {
        self.answers_with(status, &json!({ kind: { "schema": schema } }))
    }

    pub(super) fn answers_with(mut self, status: u16, content: &Value) -> Operation {
        self.value["responses"][status.to_string()] =
            json!({ "description": words(status), "content": content });
        self
    }

    pub(super) fn answers_nothing(mut self) -> Operation {
        self.value["responses"]["204"] = json!({ "description": words(204) });
        self
    }
}

fn words(status: u16) -> &'static str {
    let status = axum::http::StatusCode::from_u16(status).unwrap_or_default();
    status.canonical_reason().unwrap_or_default()
}
