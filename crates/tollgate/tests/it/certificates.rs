//! Certificates that are renewed while it runs, as cert-manager does it: a link is pointed elsewhere.

use std::path::Path;
use std::process::{Command, Stdio};

use rcgen::{CertificateParams, KeyPair};

use crate::support::{SERVER, Tollgate, Upstream, eventually};

/// A certificate and its key, as PEM.
pub fn pair() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// The certificate that a new connection is shown, as PEM without its line breaks.
fn shown(address: &str) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", address, "-servername", "localhost"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let begin = text.find("-----BEGIN").unwrap_or_else(|| panic!("{output:?}"));
    let end = text.find("-----END CERTIFICATE-----").unwrap();
    plain(&text[begin..end])
}

fn plain(pem: &str) -> String {
    pem.split("-----END").next().unwrap().split_whitespace().collect()
}

fn write(folder: &Path, (cert, key): (&str, &str)) {
    std::fs::create_dir(folder).unwrap();
    std::fs::write(folder.join("tls.crt"), cert).unwrap();
    std::fs::write(folder.join("tls.key"), key).unwrap();
}

#[test]
fn renewed_certificates_are_shown_and_broken_ones_are_not() {
    let upstream = Upstream::new("", "ok");
    let secret = tempfile::tempdir().unwrap();
    let point = |name: &str| {
        let new = secret.path().join("new-link");
        std::os::unix::fs::symlink(name, &new).unwrap();
        std::fs::rename(new, secret.path().join("current")).unwrap();
    };
    let (one, two) = (pair(), pair());
    write(&secret.path().join("one"), (&one.0, &one.1));
    write(&secret.path().join("two"), (&two.0, &two.1));
    write(&secret.path().join("broken"), (&two.0, &one.1));
    point("one");
    let current = secret.path().join("current");
    let tls =
        format!(", tls: {{ cert: \"{0}/tls.crt\", key: \"{0}/tls.key\" }} }}", current.display());
    let text = format!("upstreams: {{ api: {{ url: \"http://{}\" }} }}\n", upstream.address);
    let gateway = Tollgate::start_with_server(&SERVER.replace(" }", &tls), &text);
    assert_eq!(shown(&gateway.address), plain(&one.0));

    point("broken");
    gateway.wait_for("the new certificates are not used");
    assert_eq!(shown(&gateway.address), plain(&one.0));
    point("two");
    gateway.wait_for("the certificates were read again");
    assert_eq!(shown(&gateway.address), plain(&two.0));

    // Written over in their place, one after the other.
    std::fs::write(current.join("tls.crt"), &one.0).unwrap();
    std::fs::write(current.join("tls.key"), &one.1).unwrap();
    eventually("they are shown", || shown(&gateway.address) == plain(&one.0));
    gateway.stop();
}
