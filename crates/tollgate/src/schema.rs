//! `tollgate schema`: the JSON Schema of the configuration file.

use crate::exit::Failure;
use crate::output::print_json;

pub(crate) fn run() -> Result<(), Failure> {
    print_json(&tollgate_policy::schema())
}
