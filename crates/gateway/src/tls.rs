//! TLS: the certificates callers are shown, and whom we trust upstream.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;
use rustls::client::ClientConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls::{ALL_VERSIONS, RootCertStore};
use tollgate_policy::shapes::Tls;

/// One provider for the process: it holds tables that are worth sharing.
static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(ring::default_provider()));

const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// A certificate chain and its key, read from files and read again when told to.
pub struct Certificates {
    cert: PathBuf,
    key: PathBuf,
    shown: Arc<Shown>,
    config: Arc<ServerConfig>,
}

/// What new handshakes use.
#[derive(Debug)]
struct Shown(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl Certificates {
    /// Reads the files.
    pub fn read(tls: &Tls) -> Result<Arc<Certificates>, TlsError> {
        let (cert, key) = (tls.cert.as_path().to_owned(), tls.key.as_path().to_owned());
        let shown = Arc::new(Shown(ArcSwap::from_pointee(certified(&cert, &key)?)));
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&PROVIDER))
            .with_protocol_versions(ALL_VERSIONS)
            .map_err(TlsError::Rustls)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&shown) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![H2.to_vec(), HTTP_1_1.to_vec()];
        Ok(Arc::new(Certificates { cert, key, shown, config: Arc::new(config) }))
    }

    /// Reads the files again. New connections are shown what they hold now; if they are faulty, what they
    /// held before.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.shown.0.store(Arc::new(certified(&self.cert, &self.key)?));
        Ok(())
    }

    /// What a server takes that shows them, over HTTP/2 or HTTP/1.1.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("cert", &self.cert).finish_non_exhaustive()
    }
}

fn certified(cert: &PathBuf, key: &PathBuf) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(cert)?;
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| TlsError::File { path: key.clone(), why: error.to_string() })?;
    let signing = PROVIDER
        .key_provider
        .load_private_key(private)
        .map_err(|error| TlsError::File { path: key.clone(), why: error.to_string() })?;
    let certified = CertifiedKey::new(chain, signing);
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(certified)
        }
        Err(_) => Err(TlsError::Mismatch { cert: cert.clone(), key: key.clone() }),
    }
}

fn certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |why: String| TlsError::File { path: path.clone(), why };
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match certificates {
        Ok(chain) if chain.is_empty() => Err(wrong("it holds no certificate".to_owned())),
        Ok(chain) => Ok(chain),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// Whose certificates `https` upstreams may show.
#[derive(Clone, Debug)]
pub struct Trust(Arc<RootCertStore>);

impl Trust {
    /// Whom this machine trusts: a company's own authority is usually installed there. `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR` name other places.
    pub fn system() -> Result<Trust, TlsError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let why = found.errors.first().map(ToString::to_string);
            return Err(TlsError::NoRoots(why.unwrap_or_else(|| "none is installed".to_owned())));
        }
        Ok(Trust(Arc::new(roots)))
    }

    /// Only the certificates of a PEM file.
    pub fn only(path: impl Into<PathBuf>) -> Result<Trust, TlsError> {
        let path = path.into();
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&path)? {
            roots.add(certificate).map_err(TlsError::Rustls)?;
        }
        Ok(Trust(Arc::new(roots)))
    }

    pub(crate) fn client(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&PROVIDER))
            .with_protocol_versions(ALL_VERSIONS)
            .map_err(TlsError::Rustls)?
            .with_root_certificates(Arc::clone(&self.0))
            .with_no_client_auth();
        config.alpn_protocols = vec![H2.to_vec(), HTTP_1_1.to_vec()];
        Ok(Arc::new(config))
    }
}

/// As `config`, for a connection that must be HTTP/1.1.
pub(crate) fn http1_only(config: &ClientConfig) -> Arc<ClientConfig> {
    let mut config = config.clone();
    config.alpn_protocols = vec![HTTP_1_1.to_vec()];
    Arc::new(config)
}

/// Whether the peers agreed on HTTP/2.
pub(crate) fn is_h2(alpn: Option<&[u8]>) -> bool {
    alpn == Some(H2)
}

/// Why TLS cannot be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be used.
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The key is not the certificate's.
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// A host that no certificate can name.
    Name(String),
    /// This machine trusts nobody.
    NoRoots(String),
    /// TLS itself objects.
    Rustls(rustls::Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::File { path, why } => write!(f, "cannot use {}: {why}", path.display()),
            TlsError::Mismatch { cert, key } => write!(
                f,
                "the key in {} is not that of the certificate in {}",
                key.display(),
                cert.display()
            ),
            TlsError::Name(host) => write!(f, "no certificate can be for the host {host:?}"),
            TlsError::NoRoots(why) => write!(
                f,
                "no certificates of authorities for https upstreams ({why}): \
                 install the package ca-certificates, or set SSL_CERT_FILE"
            ),
            TlsError::Rustls(error) => write!(f, "TLS: {error}"),
        }
    }
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TlsError::Rustls(error) => Some(error),
            _ => None,
        }
    }
}
