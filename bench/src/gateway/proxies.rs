//! The programs that are compared, each started as its users would, on one core.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Ours,
    Nginx,
    Haproxy,
}

/// A proxy that runs on core 0 until dropped.
pub struct Proxy {
    pub kind: Kind,
    pub port: u16,
    process: Process,
}

impl Proxy {
    pub fn start(kind: Kind, backend: &Backend) -> Result<Proxy, String> {
        let port = free_port()?;
        let words = match kind {
            Kind::Ours => vec![
                ours()?.to_string_lossy().into_owned(),
                format!("127.0.0.1:{port}"),
                format!("http://127.0.0.1:{}", backend.port),
            ],
            Kind::Nginx => {
                let config = nginx(&format!(
                    "upstream backend {{ server 127.0.0.1:{}; keepalive 256; keepalive_requests 1000000000; }}
                     server {{ listen 127.0.0.1:{port} backlog=4096;
                       location / {{
                         proxy_pass http://backend; proxy_http_version 1.1;
                         proxy_set_header Connection \"\"; proxy_set_header Host $http_host;
                         proxy_set_header X-Forwarded-For $remote_addr;
                         proxy_set_header X-Forwarded-Proto $scheme;
                         proxy_set_header X-Forwarded-Host $http_host;
                     }} }}",
                    backend.port
                ));
                vec!["nginx".into(), "-c".into(), written("nginx.conf", &config)?]
            }
            Kind::Haproxy => {
                let config = format!(
                    "global\n  nbthread 1\n  maxconn 4096\n\
                     defaults\n  mode http\n  timeout connect 2s\n  timeout client 75s\n  timeout server 60s\n  \
                     option forwardfor\n  http-reuse always\n\
                     frontend front\n  bind 127.0.0.1:{port}\n  \
                     http-request set-header X-Forwarded-Proto http\n  \
                     http-request set-header X-Forwarded-Host %[req.hdr(host)]\n  default_backend back\n\
                     backend back\n  server one 127.0.0.1:{}\n",
                    backend.port
                );
                vec!["haproxy".into(), "-f".into(), written("haproxy.cfg", &config)?]
            }
        };
        let process = Process::start("0", &words, port)?;
        Ok(Proxy { kind, port, process })
    }

    /// CPU time of all its threads so far.
    pub fn cpu_nanos(&self) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process.0.id()));
        let of = |task: PathBuf| {
            let stat = fs::read_to_string(task.join("schedstat")).ok()?;
            stat.split(' ').next()?.parse::<u64>().ok()
        };
        tasks.into_iter().flatten().filter_map(|task| of(task.ok()?.path())).sum()
    }
}

/// Answers everything at once, on core 1.
pub struct Backend {
    pub port: u16,
    _process: Process,
}

impl Backend {
    pub fn start() -> Result<Backend, String> {
        let port = free_port()?;
        let config = nginx(&format!(
            "server {{ listen 127.0.0.1:{port} backlog=4096;
               location / {{ default_type text/plain; return 200 \"hello from the backend\\n\"; }} }}"
        ));
        let words = ["nginx".to_owned(), "-c".into(), written("backend.conf", &config)?];
        Ok(Backend { port, _process: Process::start("1", &words, port)? })
    }
}

fn nginx(http: &str) -> String {
    let place = folder().display().to_string();
    format!(
        "daemon off; master_process off; pid {place}/nginx-{}.pid; error_log stderr crit;
         events {{ worker_connections 4096; }}
         http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;
           client_body_temp_path {place}; proxy_temp_path {place}; fastcgi_temp_path {place};
           uwsgi_temp_path {place}; scgi_temp_path {place};
           {http} }}\n",
        http.len()
    )
}

/// Our own proxy, built as users build it.
fn ours() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let built = Command::new("cargo")
        .args(["build", "--release", "--quiet", "--package", "tollgate-gateway"])
        .args(["--example", "bare"])
        .current_dir(&root)
        .status();
    match built {
        Ok(status) if status.success() => Ok(root.join("target/release/examples/bare")),
        _ => Err("the gateway was not built".to_owned()),
    }
}

struct Process(Child);

impl Process {
    fn start(core: &str, words: &[String], port: u16) -> Result<Process, String> {
        let child = Command::new("taskset")
            .args(["-c", core])
            .args(words)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("{} did not start: {error}", words[0]))?;
        let process = Process(child);
        for _ in 0..100 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(process);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("{} does not listen", words[0]))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> Result<u16, String> {
    let probe = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    probe.map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("tollgate-bench-{}", std::process::id()))
}

fn written(name: &str, text: &str) -> Result<String, String> {
    let path = folder().join(name);
    fs::create_dir_all(folder())
        .and_then(|()| fs::write(&path, text))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(path.to_string_lossy().into_owned())
}
