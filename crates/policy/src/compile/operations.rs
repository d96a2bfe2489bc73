//! Operations: the kinds of work that routes name and plans limit.

use std::collections::{HashMap, HashSet};

use crate::path::Path;
use crate::shapes::File;
use crate::text::OperationName;
use crate::words::nearest;

use super::faults::Faults;

/// All operations that routes or plans name, numbered.
#[derive(Debug)]
pub(crate) struct Operations<'f> {
    numbers: HashMap<&'f str, usize>,
    of_routes: HashSet<&'f str>,
    /// Without routes it is a program that names operations, and nothing is known of which.
    has_routes: bool,
}

impl<'f> Operations<'f> {
    pub(crate) fn of(file: &'f File) -> Operations<'f> {
        let of_routes: HashSet<&str> = file
            .routes
            .iter()
            .filter_map(|route| route.operation.as_ref().map(OperationName::as_str))
            .collect();
        let of_plans = file.plans.values().flat_map(|plan| plan.operations.keys());
        let mut numbers = HashMap::new();
        for operation in of_plans.map(OperationName::as_str).chain(of_routes.iter().copied()) {
            let next = numbers.len();
            numbers.entry(operation).or_insert(next);
        }
        Operations { numbers, of_routes, has_routes: !file.routes.is_empty() }
    }

    /// Tells of an operation of a plan that no route has.
    pub(crate) fn expect_route(
        &self,
        operation: &OperationName,
        path: &Path,
        faults: &mut Faults<'_>,
    ) {
        let name = operation.as_str();
        if !self.has_routes || self.of_routes.contains(name) {
            return;
        }
        let near = nearest(name, self.of_routes.iter().copied());
        let near = near.map_or_else(String::new, |near| format!(", did you mean `{near}`?"));
        faults.warning(
            path,
            format!("no route has the operation `{name}`{near}"),
            "write `operation` on the routes it is meant for",
        );
    }

    /// Every name with its number.
    pub(crate) fn into_numbers(self) -> foldhash::HashMap<Box<str>, u32> {
        self.numbers.into_iter().map(|(name, number)| (name.into(), number as u32)).collect()
    }

    pub(crate) fn number(&self, operation: &OperationName) -> Option<usize> {
        self.numbers.get(operation.as_str()).copied()
    }
}
