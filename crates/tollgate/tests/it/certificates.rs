//! Certificates: those that are renewed while it runs, as cert-manager does it (a link is pointed elsewhere), and the admin
//! API's, by which commands beside the gateway know it.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use rcgen::{CertificateParams, KeyPair};

use crate::cli::Run;
use crate::support::{SERVER, Tollgate, Upstream, curl, eventually};

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
    plain_pem(&text[begin..end])
}

fn plain_pem(pem: &str) -> String {
    pem.split("-----END").next().unwrap().split_whitespace().collect()
}

fn write(folder: &Path, (cert, key): (&str, &str)) {
    std::fs::create_dir(folder).unwrap();
    overwrite(folder, (cert, key));
}

fn overwrite(folder: &Path, (cert, key): (&str, &str)) {
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
    assert_eq!(shown(&gateway.address), plain_pem(&one.0));

    point("broken");
    gateway.wait_for("the new certificates are not used");
    assert_eq!(shown(&gateway.address), plain_pem(&one.0));
    point("two");
    gateway.wait_for("the certificates were read again");
    assert_eq!(shown(&gateway.address), plain_pem(&two.0));

    // Written over in their place, one after the other.
    overwrite(&current, (&one.0, &one.1));
    eventually("they are shown", || shown(&gateway.address) == plain_pem(&one.0));
    gateway.stop();
}

/// An admin API that others may reach: in TLS, and nothing has to be said besides.
fn open_to_the_network(upstream: &Upstream, secret: &Path) -> Tollgate {
    let tls = format!(
        ", admin_tls: {{ cert: \"{0}/tls.crt\", key: \"{0}/tls.key\" }} }}",
        secret.display()
    );
    let server = SERVER.replace("admin_listen: 127.0.0.1:0", "admin_listen: 0.0.0.0:0");
    let text = format!(
        "upstreams: {{ api: {{ url: \"http://{}\" }} }}\ntenants: [ {{ id: acme }} ]\n",
        upstream.address
    );
    Tollgate::start_with_server(&server.replace(" }", &tls), &text)
}

#[test]
fn the_admin_api_has_tls_and_commands_beside_it_know_its_certificate() {
    let upstream = Upstream::new("", "ok");
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    let (one, two) = (pair(), pair());
    write(&secret, (&one.0, &one.1));
    let gateway = open_to_the_network(&upstream, &secret);
    assert!(gateway.greeting.contains(&format!("admin    https://{}", gateway.admin)));

    let port = gateway.admin.rsplit_once(':').unwrap().1;
    let url = format!("https://localhost:{port}/v1/tenants");
    let (trusted, token) =
        (secret.join("tls.crt"), format!("authorization: Bearer {}", gateway.token()));
    for version in ["--http1.1", "--http2"] {
        let args = [&url, "--cacert", trusted.to_str().unwrap(), "-4", version, "-H", &token];
        let told = curl(&args);
        assert!(told.status == 200 && told.body.contains("acme"), "{version}: {told:?}");
    }
    // Without TLS nobody is listened to, and the one who tried does not keep others from it.
    let plain =
        Command::new("curl").args(["-s", "-m", "60", &gateway.admin_url("/healthz")]).output();
    assert!(!plain.as_ref().unwrap().status.success(), "{plain:?}");

    let file = gateway.file();
    let list = || Run::new(file.parent().unwrap(), &["tenants", "list", "-q"]).told();
    assert_eq!(list().good(), "acme\n");
    // A certificate that is nobody's key's is not shown; whoever shows another than the file's is not sent the token.
    std::fs::write(&trusted, &two.0).unwrap();
    gateway.wait_for("the new certificates are not used");
    assert!(list().failed(1).contains("whoever answers shows another"));
    std::fs::write(secret.join("tls.key"), &two.1).unwrap();
    gateway.wait_for("the certificates were read again");
    assert_eq!(list().good(), "acme\n");
    assert_eq!(shown(&gateway.admin), plain_pem(&two.0));
    gateway.stop();
}

/// Both listeners have certificates of their own.
#[test]
fn a_listeners_certificate_is_renewed_whatever_becomes_of_the_others() {
    let upstream = Upstream::new("", "ok");
    let folder = tempfile::tempdir().unwrap();
    let (callers, admins) = (folder.path().join("callers"), folder.path().join("admins"));
    let (one, two) = (pair(), pair());
    write(&callers, (&one.0, &one.1));
    write(&admins, (&one.0, &one.1));
    let tls = |name: &str, folder: &Path| {
        format!(", {name}: {{ cert: \"{0}/tls.crt\", key: \"{0}/tls.key\" }}", folder.display())
    };
    let tls = format!("{}{} }}", tls("tls", &callers), tls("admin_tls", &admins));
    let text = format!("upstreams: {{ api: {{ url: \"http://{}\" }} }}\n", upstream.address);
    let gateway = Tollgate::start_with_server(&SERVER.replace(" }", &tls), &text);
    let shows = |callers: &str, admins: &str| {
        assert_eq!(shown(&gateway.address), plain_pem(callers));
        assert_eq!(shown(&gateway.admin), plain_pem(admins));
    };
    shows(&one.0, &one.0);

    // Somebody is about to replace the callers'; meanwhile the admin API's is renewed.
    std::fs::remove_file(callers.join("tls.crt")).unwrap();
    overwrite(&admins, (&two.0, &two.1));
    eventually("the admin API's is shown", || shown(&gateway.admin) == plain_pem(&two.0));
    shows(&one.0, &two.0);
    overwrite(&callers, (&two.0, &two.1));
    eventually("the callers' is shown", || shown(&gateway.address) == plain_pem(&two.0));

    // Files that look as they did are read when that is asked for.
    let three = like(&two);
    for folder in [&callers, &admins] {
        let marks = ["tls.crt", "tls.key"].map(|name| {
            let file = folder.join(name);
            (std::fs::metadata(&file).unwrap().modified().unwrap(), file)
        });
        overwrite(folder, (&three.0, &three.1));
        for (modified, file) in marks {
            File::options().write(true).open(file).unwrap().set_modified(modified).unwrap();
        }
    }
    shows(&two.0, &two.0);
    gateway.signal("-HUP");
    eventually("the callers' is shown", || shown(&gateway.address) == plain_pem(&three.0));
    eventually("the admin API's is shown", || shown(&gateway.admin) == plain_pem(&three.0));
    gateway.stop();
}

/// Another pair whose files are as long.
fn like(other: &(String, String)) -> (String, String) {
    let is_alike =
        |one: &(String, String)| (one.0.len(), one.1.len()) == (other.0.len(), other.1.len());
    std::iter::repeat_with(pair).find(is_alike).unwrap()
}
