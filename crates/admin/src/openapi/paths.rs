//! What can be asked, path by path.

use schemars::JsonSchema;
use serde_json::{Value, json};
use tollgate_policy::shapes::{File, Tenant};
use tollgate_storage::UsageQuery;

use super::operation::Operation;
use super::schemas::Schemas;
use crate::api::{
    EntryTold, InForceTold, KeyChange, KeyPatch, KeyTold, LimitsTold, NewKey, ObjectTold, PlanBody,
    ResetAsked, Rotation, UsageTold,
};
use crate::refusals::RefusedRequest;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

fn methods<const N: usize>(operations: [(&str, Operation); N]) -> Value {
    let pairs = operations.into_iter().map(|(method, one)| (method.to_owned(), one.value));
    Value::Object(pairs.collect())
}

/// Every path with its operations.
pub(super) fn paths_of(schemas: &mut Schemas) -> Vec<(&'static str, Value)> {
    let mut paths = keys(schemas);
    paths.extend(objects::<Tenant>(
        schemas,
        ["tenant", "Tenant", "/v1/tenants", "/v1/tenants/{id}"],
    ));
    paths
        .extend(objects::<PlanBody>(schemas, ["plan", "NamedPlan", "/v1/plans", "/v1/plans/{id}"]));
    paths.extend(others(schemas));
    paths
}

fn keys(schemas: &mut Schemas) -> Vec<(&'static str, Value)> {
    let key = schemas.of::<KeyTold>("KeyTold");
    let page = schemas.page("Keys", &key);
    let (new, change) = (schemas.of::<NewKey>("NewKey"), schemas.of::<KeyChange>("KeyChange"));
    let (patch, rotation) =
        (schemas.of::<KeyPatch>("KeyPatch"), schemas.of::<Rotation>("Rotation"));
    let one = |id: &str, summary: &str| Operation::new(id, summary).path("id");
    let list =
        Operation::new("listKeys", "The file's keys, then the API's in the order of their issue.")
            .page();
    vec![
        (
            "/v1/keys",
            methods([
                ("get", list.query("tenant", "Only this tenant's.").answers(200, JSON, &page)),
                (
                    "post",
                    Operation::new("issueKey", "Issues a key; `key` is told here and never again.")
                        .idempotent()
                        .body(&new)
                        .problems(&[409])
                        .answers(201, JSON, &key),
                ),
            ]),
        ),
        (
            "/v1/keys/{id}",
            methods([
                ("get", one("readKey", "A key.").answers(200, JSON, &key)),
                (
                    "put",
                    one("replaceKey", "Gives a key other terms, all of them.")
                        .if_match()
                        .body(&change)
                        .problems(&[409, 428])
                        .answers(200, JSON, &key),
                ),
                (
                    "patch",
                    one(
                        "changeKey",
                        "Gives a key other terms where they are said; `null` takes one away.",
                    )
                    .if_match()
                    .body(&patch)
                    .problems(&[409])
                    .answers(200, JSON, &key),
                ),
                (
                    "delete",
                    one("revokeKey", "Ends a key at once.")
                        .if_match()
                        .problems(&[409])
                        .answers_nothing(),
                ),
            ]),
        ),
        (
            "/v1/keys/{id}/rotate",
            methods([(
                "post",
                one(
                    "rotateKey",
                    "Issues a successor, by whose plan and limit the old key works for the grace.",
                )
                .idempotent()
                .body(&rotation)
                .problems(&[409])
                .answers(201, JSON, &key),
            )]),
        ),
    ]
}

/// Tenants and plans have the same operations.
fn objects<T: JsonSchema>(
    schemas: &mut Schemas,
    [what, name, all, one]: [&'static str; 4],
) -> Vec<(&'static str, Value)> {
    let shape = schemas.of::<T>(name);
    let told = schemas.of::<ObjectTold<T>>(&format!("{name}Told"));
    let page = schemas.page(&format!("{name}s"), &told);
    let operation =
        |does: &str, summary: String| Operation::new(&format!("{does}{name}"), &summary);
    let list = Operation::new(&format!("list{name}s"), &format!("Every {what}, the file's too."));
    vec![
        (
            all,
            methods([
                ("get", list.page().answers(200, JSON, &page)),
                (
                    "post",
                    operation("create", format!("Makes a {what}."))
                        .idempotent()
                        .body(&shape)
                        .problems(&[409])
                        .answers(201, JSON, &told),
                ),
            ]),
        ),
        (
            one,
            methods([
                (
                    "get",
                    operation("read", format!("A {what}.")).path("id").answers(200, JSON, &told),
                ),
                (
                    "put",
                    operation("replace", format!("Replaces a {what} of the API's."))
                        .path("id")
                        .if_match()
                        .body(&shape)
                        .problems(&[409, 428])
                        .answers(200, JSON, &told),
                ),
                (
                    "delete",
                    operation("delete", format!("Removes a {what} that nothing uses."))
                        .path("id")
                        .if_match()
                        .problems(&[409, 422])
                        .answers_nothing(),
                ),
            ]),
        ),
    ]
}

fn others(schemas: &mut Schemas) -> Vec<(&'static str, Value)> {
    let usage = schemas.of::<UsageTold>("UsageTold");
    let limits = schemas.of::<LimitsTold>("LiveLimits");
    let reset = schemas.of::<ResetAsked>("Reset");
    let entry = schemas.of::<EntryTold>("AuditEntry");
    let audit = schemas.page("Audit", &entry);
    let refusal = schemas.of::<RefusedRequest>("RefusedRequest");
    let in_force = schemas.of::<InForceTold>("InForce");
    let text = json!({ "type": "string" });
    let config = schemas.of::<File>("File");
    let mut put = Operation::new(
        "replaceConfig",
        "Rewrites the file and puts it into force; a bad one changes nothing.",
    )
    .if_match()
    .body(&config)
    .problems(&[409, 428, 500])
    .answers(200, JSON, &in_force);
    put.value["requestBody"]["content"] = json!({ YAML: { "schema": config } });
    vec![
        (
            "/v1/usage",
            methods([(
                "get",
                Operation::new(
                    "readUsage",
                    "What was used, by tenant and whatever it is grouped by. CSV says `next` in its header Next-Cursor.",
                )
                .query("tenant", "Only this tenant's.")
                .query("key", "Only this key's.")
                .query("from", "The first day, as 2027-01-31; 30 days if left out.")
                .query("to", "The last day; today if left out.")
                .query("group_by", "Any of tenant, key, route, plan, day, with commas between.")
                .page_of(UsageQuery::ROWS, UsageQuery::ROWS)
                .answers_with(
                    200,
                    &json!({ JSON: { "schema": usage }, "text/csv": { "schema": text } }),
                ),
            )]),
        ),
        (
            "/v1/limits",
            methods([(
                "get",
                Operation::new("readLimits", "The live counters of a tenant, a user or a key.")
                    .query("tenant", "Whose; it must be said.")
                    .query("user", "Which user.")
                    .query("key", "Which key, by id.")
                    .query("plan", "By which plan; the key's or tenant's if left out.")
                    .query("route", "Method and path: POST /v1/x.")
                    .query("ip", "From which address.")
                    .problems(&[404])
                    .answers(200, JSON, &limits),
            )]),
        ),
        (
            "/v1/limits/reset",
            methods([(
                "post",
                Operation::new("resetLimit", "Makes one counter new again.")
                    .idempotent()
                    .body(&reset)
                    .problems(&[404])
                    .answers_nothing(),
            )]),
        ),
        (
            "/v1/audit",
            methods([(
                "get",
                Operation::new("listAudit", "Who changed what, newest first.")
                    .page()
                    .answers(200, JSON, &audit),
            )]),
        ),
        (
            "/v1/refusals/{id}",
            methods([(
                "get",
                Operation::new("readRefusal", "Why a request was refused, by its X-Request-Id.")
                    .path("id")
                    .answers(200, JSON, &refusal),
            )]),
        ),
        (
            "/v1/config",
            methods([
                (
                    "get",
                    Operation::new("readConfig", "The configuration in force, as it is written.")
                        .answers(200, YAML, &config),
                ),
                ("put", put),
            ]),
        ),
        (
            "/v1/config/reload",
            methods([(
                "post",
                Operation::new("reloadConfig", "Reads the file again and puts it into force.")
                    .idempotent()
                    .problems(&[409, 422, 500])
                    .answers(200, JSON, &in_force),
            )]),
        ),
    ]
}
