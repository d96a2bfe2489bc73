//! A gateway that counts with others.

use std::path::Path;
use std::thread;
use std::time::Duration;

use tollgate_policy::Sha256;

use super::server::Server;
use crate::gateway::proxies::{KEY, Proxy, free_port, shipped};

/// Starts one on core 0 that forwards everything to a port of this machine; `limits` are its plan `pro` and its tenants, of
/// which `acme` is the caller.
pub(super) fn gateway(
    (name, limits): (&str, &str),
    folder: &Path,
    (server, backend): (&Server, u16),
) -> Result<Proxy, String> {
    let (port, admin) = (free_port()?, free_port()?);
    let data = folder.join(name);
    let text = format!(
        "server: {{ listen: 127.0.0.1:{port}, admin_listen: 127.0.0.1:{admin}, workers: 1 }}
storage: {{ path: {data:?} }}
redis: {{ url: \"{}\", timeout_ms: 1000 }}
rate_limit_sync: {{ enabled: true }}
upstreams: {{ api: {{ url: \"http://127.0.0.1:{backend}\" }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
keys: [ {{ tenant: acme, user: ci, sha256: {} }} ]
{limits}",
        server.url(),
        Sha256::of(KEY.as_bytes())
    );
    let file = folder.join(format!("{name}.yaml"));
    std::fs::write(&file, text).map_err(|error| error.to_string())?;
    let tollgate = shipped()?;
    let words = [tollgate, "serve".into(), "--config".into(), file.to_string_lossy().into_owned()];
    let gateway = Proxy::program(&words, port)?;
    // It counts in Redis as soon as it has found it.
    thread::sleep(Duration::from_secs(1));
    Ok(gateway)
}
