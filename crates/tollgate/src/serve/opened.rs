//! What a configuration names beside its policy: certificates and the access log, opened before anything of it is in force.

use std::io;
use std::sync::Arc;

use tollgate_admin::NotReady;
use tollgate_gateway::{Certificates, Settings, TlsError};
use tollgate_policy::compile::PolicyFaults;
use tollgate_policy::shapes::{Server, Tls};
use tollgate_policy::{Diagnostic, Diagnostics, Path};

use super::access_log::{AccessLog, Sink, destination};
use super::source::Source;

/// What a file says beside its policy, opened and not yet in use.
pub(super) struct Opened {
    pub(super) settings: Settings,
    pub(super) sink: Option<Arc<Sink>>,
}

/// Why something could not be opened.
#[derive(Debug)]
pub(super) enum NotOpened {
    /// What a field names cannot be used: a fault of the configuration.
    Field { path: Path, why: String, help: &'static str },
    /// The system failed.
    System(io::Error),
}

impl Opened {
    /// Lines of the access log go where they went, or to a new file of that name.
    pub(super) fn of(server: &Server, log: &AccessLog) -> Result<Opened, NotOpened> {
        let settings = Settings::new(server);
        let settings = match certificates(server.tls.as_ref(), "tls")? {
            Some(certificates) => settings.certificates(certificates),
            None => settings,
        };
        let out = destination(&server.access_log).map_err(|why| match is_misnamed(&why) {
            true => NotOpened::Field {
                path: Path::root().key("server").key("access_log"),
                why: format!("cannot write {}: {why}", server.access_log),
                help: "name a file in a folder that is there and that the gateway may write to",
            },
            false => NotOpened::System(io::Error::new(
                why.kind(),
                format!("cannot write {}: {why}", server.access_log),
            )),
        })?;
        let sink = out.map(|out| log.write_to(out)).transpose().map_err(NotOpened::System)?;
        Ok(Opened { settings, sink })
    }
}

/// Whether another name would be right. A full disk or too many open files pass, and whoever watches over the gateway may start it again.
fn is_misnamed(why: &io::Error) -> bool {
    use io::ErrorKind::{
        InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem,
    };
    matches!(
        why.kind(),
        NotFound
            | PermissionDenied
            | IsADirectory
            | NotADirectory
            | ReadOnlyFilesystem
            | InvalidInput
    )
}

impl NotOpened {
    /// As it is told of the text that names it.
    pub(super) fn told(self, source: &Source, text: &[u8]) -> NotReady {
        let (path, why, help) = match self {
            NotOpened::Field { path, why, help } => (path, why, help),
            NotOpened::System(why) => return NotReady::Failed(why.to_string()),
        };
        // It was read before; it is read again to find the field, because few configurations come here.
        let document = match source.load(text) {
            Ok(loaded) => loaded.document,
            Err(why) => return why,
        };
        let mut diagnostics = Diagnostics::new(document.source().clone());
        let fault = Diagnostic::error(document.span_of(&path), format!("`{path}`: {why}"));
        diagnostics.push(fault.with_help(help));
        NotReady::Faults(Box::new(PolicyFaults { diagnostics, budgets: Vec::new() }))
    }
}

/// The certificates that a section of `server` names.
pub(super) fn certificates(
    tls: Option<&Tls>,
    section: &'static str,
) -> Result<Option<Arc<Certificates>>, NotOpened> {
    let Some(tls) = tls else { return Ok(None) };
    let unusable = |why: TlsError| NotOpened::Field {
        path: tls_path((tls, section), &why),
        why: why.to_string(),
        help: "name PEM files that the gateway may read: a certificate chain and its private key",
    };
    Certificates::read(tls).map(Some).map_err(unusable)
}

/// The field by which a certificate cannot be used.
fn tls_path((tls, section): (&Tls, &'static str), why: &TlsError) -> Path {
    let both = Path::root().key("server").key(section);
    match why {
        TlsError::File { path, .. } if path == tls.cert.as_path() => both.key("cert"),
        TlsError::File { path, .. } if path == tls.key.as_path() => both.key("key"),
        _ => both,
    }
}
