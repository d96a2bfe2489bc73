//! `tollgate explain`: which limits a request meets by a file, or why a running gateway refused one.

use tollgate_policy::Question;

use crate::args::Explain;
use crate::cli;
use crate::exit::Failure;
use crate::output::{policy, print, print_json};

pub(crate) fn run(args: &Explain) -> Result<(), Failure> {
    if let Some(id) = &args.request_id {
        return cli::explain(&args.at, id);
    }
    let (Some(config), Some(tenant)) = (&args.at.config, &args.tenant) else {
        return Err(Failure::Usage(
            "say --config FILE and --tenant T, or --request-id ID".to_owned(),
        ));
    };
    let policy = policy(config)?;
    let question = Question {
        tenant,
        user: args.user.as_deref(),
        plan: args.plan.as_deref(),
        route: args.route.as_deref(),
    };
    let explained = policy.explain(&question).map_err(|why| Failure::Failed(why.to_string()))?;
    if args.at.json { print_json(&explained) } else { print(&explained.to_string()) }
}
