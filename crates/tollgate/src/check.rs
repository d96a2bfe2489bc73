//! `tollgate check`: everything that is wrong with a file, at once.

use tollgate_policy::compile::Policy;
use tollgate_policy::{Diagnostic, Diagnostics, Path, load};

use crate::args::Check;
use crate::exit::Failure;
use crate::output::{print, read, tell};
use crate::serve::check_admin;

pub(crate) fn run(args: &Check) -> Result<(), Failure> {
    let text = read(&args.file)?;
    let name = args.file.display().to_string();
    let compiled = Policy::of(&name, &text);
    let found = match &compiled {
        Ok(policy) => &warnings(policy, (&name, &text)),
        Err(faults) => &faults.diagnostics,
    };
    if args.json {
        let lines = found.records().map(|record| serde_json::json!(record).to_string() + "\n");
        print(&lines.collect::<String>())?;
    } else {
        tell(found);
        print(&summary(&name, &compiled, found))?;
    }
    compiled.map(drop).map_err(|_| Failure::BadConfiguration)
}

/// What deserves a look, also where only `serve` looks at it: how it is started may make it right.
fn warnings(policy: &Policy, (name, text): (&str, &[u8])) -> Diagnostics {
    let mut found = policy.warnings().clone();
    if let Err(why) = check_admin(&policy.settings().server)
        && let Ok(loaded) = load(name, text)
    {
        let at = Path::root().key("server").key("admin_listen");
        let warning = Diagnostic::warning(loaded.document.span_of(&at), why.to_string());
        found.push(warning.with_help(
            "write `admin_exposed: true` beside it, or start it by `tollgate serve --admin-exposed`: it does not start otherwise",
        ));
    }
    found
}

fn summary<E>(name: &str, compiled: &Result<Policy, E>, found: &Diagnostics) -> String {
    match compiled {
        Err(_) => {
            let errors = counted(found.errors(), "error");
            let warnings = match found.warnings() {
                0 => String::new(),
                some => format!(", {}", counted(some, "warning")),
            };
            format!("{name}: not usable, {errors}{warnings}\n")
        }
        Ok(policy) => format!(
            "{name}: good. {}, {}, {}, {}, {}\n",
            counted(policy.tenants().all().len(), "tenant"),
            counted(policy.plans().len(), "plan"),
            counted(policy.routes().len(), "route"),
            counted(policy.keys().len(), "key"),
            counted(found.len(), "warning"),
        ),
    }
}

fn counted(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
