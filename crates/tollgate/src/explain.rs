//! `tollgate explain`: which limits a request meets.

use tollgate_policy::Question;

use crate::args::Explain;
use crate::exit::Failure;
use crate::output::{policy, print, print_json};

pub(crate) fn run(args: &Explain) -> Result<(), Failure> {
    let policy = policy(&args.config)?;
    let question = Question {
        tenant: &args.tenant,
        user: args.user.as_deref(),
        plan: args.plan.as_deref(),
        route: args.route.as_deref(),
    };
    let explained = policy.explain(&question).map_err(|why| Failure::Failed(why.to_string()))?;
    if args.json { print_json(&explained) } else { print(&explained.to_string()) }
}
