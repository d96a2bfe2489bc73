//! Where the configuration comes from: a file, or what is built in.

use std::path::{Path, PathBuf};

use tollgate_gateway::Running as Gateway;
use tollgate_policy::compile::{Made, Policy};
use tollgate_policy::{ApiKey, HttpUrl, ListenAddress, Loaded, load, shapes};

use super::{echo, failed};
use crate::args::Serve;
use crate::exit::Failure;
use crate::output::{read, tell};

/// Where the configuration comes from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A file, with an upstream of the command line's where it has none.
    File { path: PathBuf, upstream: Option<HttpUrl>, listen: Listen },
    /// No file: one upstream, one tenant, one key.
    BuiltIn {
        upstream: HttpUrl,
        key: ApiKey,
        listen: Listen,
        /// The upstream itself, if that is built in too.
        echo: Option<Gateway>,
    },
}

/// Addresses of the command line's, which go before the file's.
#[derive(Clone, Debug)]
pub(crate) struct Listen {
    data: Option<ListenAddress>,
    admin: Option<ListenAddress>,
}

impl Source {
    pub(crate) fn choose(args: &Serve) -> Result<Source, Failure> {
        let listen = Listen { data: args.listen, admin: args.admin_listen };
        if let Some(path) = &args.config {
            let (path, upstream) = (path.clone(), args.upstream.clone());
            return Ok(Source::File { path, upstream, listen });
        }
        let key = ApiKey::mint(getrandom::fill).map_err(failed)?;
        if let Some(upstream) = &args.upstream {
            return Ok(Source::BuiltIn { upstream: upstream.clone(), key, listen, echo: None });
        }
        let echo = echo::start().map_err(failed)?;
        let upstream = format!("http://{}", echo.address()).parse().map_err(failed)?;
        Ok(Source::BuiltIn { upstream, key, listen, echo: Some(echo) })
    }

    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Source::File { path, .. } => Some(path),
            Source::BuiltIn { .. } => None,
        }
    }

    /// Reads and compiles it; what is wrong with it is said on standard error.
    pub(crate) fn policy(&self) -> Result<Policy, Failure> {
        let mut loaded = match self {
            Source::File { path, upstream, .. } => {
                let loaded = load(&path.display().to_string(), &read(path)?);
                let loaded = loaded.map_err(|faults| bad(&faults))?;
                match upstream {
                    Some(url) => with_upstream(loaded, url)?,
                    None => loaded,
                }
            }
            Source::BuiltIn { upstream, key, .. } => {
                let text = built_in(upstream, key);
                load("built in", text.as_bytes()).map_err(|faults| bad(&faults))?
            }
        };
        let (Source::File { listen, .. } | Source::BuiltIn { listen, .. }) = self;
        let server = &mut loaded.value.server;
        if let Some(address) = &listen.data {
            server.listen = *address;
        }
        if let Some(address) = &listen.admin {
            server.admin_listen = *address;
        }
        let policy =
            Policy::compile(loaded, Made::default()).map_err(|faults| bad(&faults.diagnostics))?;
        tell(policy.warnings());
        can_serve(policy.settings())?;
        Ok(policy)
    }
}

/// What a file may ask for and this gateway does not do yet. Counting alone where nodes should count together would admit
/// too much, so it does not start.
fn can_serve(settings: &shapes::File) -> Result<(), Failure> {
    let asked = match settings {
        file if file.rate_limit_sync.enabled => "`rate_limit_sync`",
        file if file.storage.redis => "`storage: { redis: true }`",
        _ => return Ok(()),
    };
    let message =
        format!("the gateway does not serve {asked} yet: leave it out, and each node counts alone");
    Err(Failure::Failed(message))
}

fn bad(faults: &tollgate_policy::Diagnostics) -> Failure {
    tell(faults);
    Failure::BadConfiguration
}

/// The configuration of somebody who has none: everything to one upstream, one tenant with one key, and the
/// built-in limits of clients and tenants.
fn built_in(upstream: &HttpUrl, key: &ApiKey) -> String {
    format!(
        "upstreams: {{ api: {{ url: \"{upstream}\" }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
tenants: [ {{ id: demo }} ]
keys: [ {{ id: demo, tenant: demo, user: demo, sha256: {} }} ]
",
        key.sha256()
    )
}

/// A file that names no upstream, with the command line's.
fn with_upstream(mut loaded: Loaded, url: &HttpUrl) -> Result<Loaded, Failure> {
    if !loaded.value.upstreams.is_empty() {
        return Err(Failure::Failed(
            "--upstream is for a file without `upstreams`: leave one of them out".to_owned(),
        ));
    }
    let text = format!(
        "upstreams: {{ api: {{ url: \"{url}\" }} }}\nroutes: [ {{ path: \"/*\", upstream: api }} ]\n"
    );
    let shapes::File { upstreams, routes, .. } =
        load("--upstream", text.as_bytes()).map_err(|faults| bad(&faults))?.value;
    loaded.value.upstreams = upstreams;
    if loaded.value.routes.is_empty() {
        loaded.value.routes = routes;
    }
    Ok(loaded)
}
