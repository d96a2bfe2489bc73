//! Which gateway is meant, and by which token: flags, then the environment, then the folder of the gateway itself.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tollgate_admin::AdminToken;
use tollgate_policy::shapes::{File, Server, Storage};
use tollgate_policy::{HttpUrl, load};

use super::args::At;
use super::secret::Secret;
use crate::admin_url::{self, AdminUrl, Told};
use crate::exit::Failure;
use crate::output::{read, tell};

/// Where a gateway's admin API is expected unless a flag says it.
const ADDRESS: &str = "TOLLGATE_ADMIN";

/// A gateway, and what is said where it does not answer.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) url: HttpUrl,
    /// Who it shows itself as, if its own folder or file told that. Else any name that this machine trusts will do.
    pub(crate) certificate: Option<PathBuf>,
    /// Who said that it is there.
    pub(crate) url_from: String,
    pub(crate) token: Secret,
    /// Who said that it is this token.
    pub(crate) token_from: String,
}

/// What is known of the gateway before anything is asked of it.
struct Local {
    folder: PathBuf,
    server: Option<(PathBuf, Server)>,
}

impl Gateway {
    pub(crate) fn find(at: &At) -> Result<Gateway, Failure> {
        let local = Local::of(at)?;
        let address = address(at, &local)?;
        let (token, token_from) = token(at, &local.folder, &address)?;
        let Address { url, from: url_from, certificate, .. } = address;
        Ok(Gateway { url, certificate, url_from, token, token_from })
    }
}

/// The data folder that the arguments mean.
pub(crate) fn folder(at: &At) -> Result<PathBuf, Failure> {
    Ok(Local::of(at)?.folder)
}

impl Local {
    fn of(at: &At) -> Result<Local, Failure> {
        let file = at.config.as_deref().map(settings).transpose()?;
        let of_file = file.as_ref().and_then(|file| file.storage.path.as_ref());
        let folder = at.data.clone().unwrap_or_else(|| {
            of_file.map_or_else(|| Storage::DEFAULT_PATH.into(), |path| path.as_str().into())
        });
        let server = at.config.clone().zip(file.map(|file| file.server));
        Ok(Local { folder, server })
    }
}

/// A configuration file, of which only the settings are looked at: whether the rest is right is the gateway's to say.
pub(crate) fn settings(path: &Path) -> Result<File, Failure> {
    let loaded = load(&path.display().to_string(), &read(path)?).map_err(|faults| {
        tell(&faults);
        Failure::BadConfiguration
    })?;
    Ok(loaded.value)
}

/// Where a gateway is, and who said so.
struct Address {
    url: HttpUrl,
    from: String,
    certificate: Option<PathBuf>,
    known_by: KnownBy,
}

/// How sure it is who listens there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KnownBy {
    /// Somebody gave the address.
    Gift,
    /// The folder's own gateway, which runs; or its file.
    Folder,
    /// Nobody: it is where one listens that was told nothing.
    Guess,
}

impl Address {
    fn given(url: HttpUrl, from: &str) -> Address {
        Address { url, from: from.to_owned(), certificate: None, known_by: KnownBy::Gift }
    }

    fn local(told: AdminUrl, from: String, known_by: KnownBy) -> Result<Address, Failure> {
        let AdminUrl { url: text, certificate } = told;
        Ok(Address { url: url(&text, &from)?, from, certificate, known_by })
    }
}

fn address(at: &At, local: &Local) -> Result<Address, Failure> {
    if let Some(url) = &at.admin {
        return Ok(Address::given(url.clone(), "--admin"));
    }
    if let Some(text) = variable(ADDRESS)? {
        return Ok(Address::given(url(&text, ADDRESS)?, ADDRESS));
    }
    match admin_url::find(&local.folder) {
        Ok(Told::Running(told)) => {
            let from = local.folder.display().to_string();
            return Address::local(told, from, KnownBy::Folder);
        }
        Ok(Told::Nobody) => {}
        Err(why) => {
            return Err(Failure::Failed(format!("cannot read {}: {why}", local.folder.display())));
        }
    }
    let (from, server, known_by) = match &local.server {
        Some((file, server)) => (file.display().to_string(), server.clone(), KnownBy::Folder),
        None => ("the default".to_owned(), Server::default(), KnownBy::Guess),
    };
    let listens = server.admin_listen.socket();
    if listens.port() == 0 {
        return Err(Failure::Failed(format!(
            "no gateway runs in {}, and {from} leaves it to the system where one listens: start it with `tollgate serve`, or \
             name its folder with --data",
            local.folder.display()
        )));
    }
    Address::local(AdminUrl::new(listens, server.admin_tls.as_ref()), from, known_by)
}

fn url(text: &str, from: &str) -> Result<HttpUrl, Failure> {
    text.parse().map_err(|why| Failure::Usage(format!("{from}: {why}")))
}

fn variable(name: &str) -> Result<Option<String>, Failure> {
    match env::var(name) {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(Failure::Usage(format!("{name} is not UTF-8"))),
    }
}

/// The token and who said so. The folder's is for the folder's own gateway: it is not carried to any other machine.
fn token(at: &At, folder: &Path, address: &Address) -> Result<(Secret, String), Failure> {
    let Address { url, known_by, .. } = address;
    if let Some(token) = &at.token {
        return given(token.clone(), "--token");
    }
    if let Some(file) = &at.token_file {
        let text = read(file)?;
        let text = str::from_utf8(&text)
            .map_err(|_| Failure::Failed(format!("{} holds no token", file.display())))?;
        return given(Secret::new(text), &file.display().to_string());
    }
    if let Some(text) = variable(AdminToken::VARIABLE)? {
        return given(Secret::new(&text), AdminToken::VARIABLE);
    }
    let file = folder.join(AdminToken::FILE);
    let from = file.display().to_string();
    if *known_by == KnownBy::Guess && file.exists() {
        // Whoever listens there may be anybody on this machine.
        return Err(Failure::Failed(format!(
            "no gateway runs in {}: start it with `tollgate serve`, name its file with --config or its folder with --data, or \
             say where it is with --admin",
            folder.display()
        )));
    }
    if *known_by == KnownBy::Gift && !names_this_machine(url) {
        return Err(Failure::Failed(format!(
            "there is no token for {url}: set {} or give --token-file (the one in {} is for the gateway of this machine)",
            AdminToken::VARIABLE,
            folder.display()
        )));
    }
    match fs::read_to_string(&file) {
        Ok(text) => given(Secret::new(&text), &from),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Err(Failure::Failed(format!(
            "there is no admin token: {from} is made by the first `tollgate serve`. Start that, name its folder with --data or \
             its file with --config, or set {}",
            AdminToken::VARIABLE
        ))),
        Err(why) => Err(Failure::Failed(format!(
            "cannot read {from}: {why}. Be the user that runs the gateway, or set {}",
            AdminToken::VARIABLE
        ))),
    }
}

fn given(token: Secret, from: &str) -> Result<(Secret, String), Failure> {
    if token.is_empty() {
        return Err(Failure::Usage(format!("{from} has an empty admin token")));
    }
    Ok((token, from.to_owned()))
}

fn names_this_machine(url: &HttpUrl) -> bool {
    let (host, _) = super::connect::host_and_port(url);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}
