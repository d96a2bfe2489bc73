//! The description of the API (`OpenAPI` 3.1), put together of the shapes that requests are checked by and answers are made of.

mod operation;
mod paths;
mod schemas;

use serde_json::{Map, Value, json};

use paths::paths_of;
use schemas::{Schemas, problem};

/// The whole document.
pub(crate) fn openapi() -> Value {
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    for (path, operations) in paths_of(&mut schemas) {
        paths.insert(path.to_owned(), operations);
    }
    schemas.add("Problem".to_owned(), problem());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollgate admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Keys, tenants, plans, usage, limits and configuration of a Tollgate gateway.",
        },
        "security": [{ "admin": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "admin": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas.all,
        },
    })
}
