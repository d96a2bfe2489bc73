//! Where the configuration comes from: a file, or what is built in.

use std::path::{Path, PathBuf};

use tollgate_admin::NotReady;
use tollgate_gateway::Running as Gateway;
use tollgate_policy::compile::PolicyFaults;
use tollgate_policy::{
    ApiKey, Diagnostic, Diagnostics, HttpUrl, ListenAddress, Loaded, load, shapes,
};

use super::{echo, failed};
use crate::args::Serve;
use crate::exit::Failure;
use crate::output::read;

/// Where the configuration comes from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A file, with an upstream of the command line's where it has none.
    File { path: PathBuf, upstream: Option<HttpUrl>, listen: Listen },
    /// No file: one upstream, one tenant, and a key that is made at each start and stored nowhere, so that none pile up.
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
    admin_exposed: bool,
}

impl Source {
    pub(crate) fn choose(args: &Serve) -> Result<Source, Failure> {
        let (data, admin, admin_exposed) = (args.listen, args.admin_listen, args.admin_exposed);
        let listen = Listen { data, admin, admin_exposed };
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

    /// What diagnostics call it.
    pub(crate) fn name(&self) -> String {
        self.file().map_or_else(|| "built in".to_owned(), |path| path.display().to_string())
    }

    /// Its text.
    pub(crate) fn read(&self) -> Result<Vec<u8>, Failure> {
        match self {
            Source::File { path, .. } => read(path),
            Source::BuiltIn { upstream, key, .. } => Ok(built_in(upstream, key).into_bytes()),
        }
    }

    /// What a text of it says, with what the command line says besides.
    pub(crate) fn load(&self, text: &[u8]) -> Result<Loaded, NotReady> {
        let mut loaded = load(&self.name(), text).map_err(bad)?;
        let (Source::File { listen, .. } | Source::BuiltIn { listen, .. }) = self;
        if let Source::File { upstream: Some(url), .. } = self {
            loaded = with_upstream(loaded, url)?;
        }
        let server = &mut loaded.value.server;
        if let Some(address) = &listen.data {
            server.listen = *address;
        }
        if let Some(address) = &listen.admin {
            server.admin_listen = *address;
        }
        server.admin_exposed |= listen.admin_exposed;
        Ok(loaded)
    }
}

/// A text that has not even the shape of a configuration.
fn bad(diagnostics: Diagnostics) -> NotReady {
    NotReady::Faults(Box::new(PolicyFaults { diagnostics, budgets: Vec::new() }))
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
fn with_upstream(mut loaded: Loaded, url: &HttpUrl) -> Result<Loaded, NotReady> {
    if !loaded.value.upstreams.is_empty() {
        let place = loaded.document.span_of(&tollgate_policy::Path::root().key("upstreams"));
        let mut diagnostics = Diagnostics::new(loaded.document.source().clone());
        let fault = "`--upstream` is for a file without `upstreams`";
        diagnostics.push(Diagnostic::error(place, fault).with_help("leave one of them out"));
        return Err(bad(diagnostics));
    }
    let text = format!(
        "upstreams: {{ api: {{ url: \"{url}\" }} }}\nroutes: [ {{ path: \"/*\", upstream: api }} ]\n"
    );
    let shapes::File { upstreams, routes, .. } =
        load("--upstream", text.as_bytes()).map_err(bad)?.value;
    loaded.value.upstreams = upstreams;
    if loaded.value.routes.is_empty() {
        loaded.value.routes = routes;
    }
    Ok(loaded)
}
