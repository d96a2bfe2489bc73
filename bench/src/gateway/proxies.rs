//! The programs that are compared, each started as its users would, on one core.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use tollgate_policy::Sha256;

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Ours,
    Nginx,
    /// As it comes: it writes a line of its log for each request that `limit_req` refuses, by which it can be told why. Ours can tell it too,
    /// and remembers.
    NginxLogging,
    /// Answers those that it refuses with as many bytes as ours does, of its file and the same for everybody.
    NginxTelling,
    Haproxy,
    /// Takes what comes and sends as many bytes as our refusal has, and looks at nothing: less than that no server does.
    Echo,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ours => "ours",
            Kind::Nginx => "nginx",
            Kind::NginxLogging => "nginx-logging",
            Kind::NginxTelling => "nginx-telling",
            Kind::Haproxy => "haproxy",
            Kind::Echo => "recv-and-send",
        }
    }
}

/// What a proxy does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Looks at nothing.
    Bare,
    /// Checks limits that admit everything. Ours also knows the caller by its key, charges a plan's and a tenant's bucket and
    /// a monthly quota, writes all headers and counts.
    Forward,
    /// Checks limits that admit nothing.
    Refuse,
}

/// A key whose checksum is right.
pub const KEY: &str = "tg_live_ExampleKeyDoNotUseItReal0fYmW4";

/// A proxy that runs on core 0 until dropped.
pub struct Proxy {
    pub port: u16,
    process: Process,
}

impl Proxy {
    pub fn start(kind: Kind, case: Case, backend: &Backend) -> Result<Proxy, String> {
        let port = free_port()?;
        let words = match (kind, case) {
            (Kind::Ours, Case::Bare) => vec![
                bare()?,
                format!("127.0.0.1:{port}"),
                format!("http://127.0.0.1:{}", backend.port),
            ],
            (Kind::Ours, _) => {
                let config = ours_config(case, port, backend.port)?;
                let file = written(&format!("tollgate-{port}.yaml"), &config)?;
                vec![shipped()?, "serve".into(), "--config".into(), file]
            }
            (Kind::Nginx | Kind::NginxLogging | Kind::NginxTelling, _) => {
                let telling = if let Kind::NginxTelling = kind { telling() } else { String::new() };
                let mut config = nginx_proxy(case, (port, &telling), backend);
                if let Kind::NginxLogging = kind {
                    let log = written(&format!("nginx-{port}.log"), "")?;
                    config =
                        config.replace("error_log stderr crit", &format!("error_log {log} error"));
                }
                let file = written(&format!("nginx-{port}.conf"), &config)?;
                vec!["nginx".into(), "-c".into(), file]
            }
            (Kind::Echo, _) => {
                let program = std::env::current_exe().map_err(|error| error.to_string())?;
                let program = program.to_string_lossy().into_owned();
                vec![program, "gateway".into(), "echo".into(), port.to_string()]
            }
            (Kind::Haproxy, _) => {
                let file = written(&format!("haproxy-{port}.cfg"), &haproxy(case, port, backend))?;
                vec!["haproxy".into(), "-f".into(), file]
            }
        };
        Ok(Proxy { port, process: Process::start("0", &words, port)? })
    }

    /// A server of another kind that listens at this port.
    pub fn program(words: &[String], port: u16) -> Result<Proxy, String> {
        Ok(Proxy { port, process: Process::start("0", words, port)? })
    }

    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Bytes of it that are in memory.
    pub fn resident_bytes(&self) -> u64 {
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.pid())).unwrap_or_default();
        statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
    }

    /// CPU time of all its threads so far.
    pub fn cpu_nanos(&self) -> u64 {
        crate::measure::cpu_nanos(&self.process.0.id().to_string())
    }
}

/// Ours, with everything on.
pub fn ours_config(case: Case, port: u16, backend: u16) -> Result<String, String> {
    let admin = free_port()?;
    let (rate, window) = if case == Case::Refuse { (1, "day") } else { (1_000_000, "second") };
    let digest = Sha256::of(KEY.as_bytes());
    let data = folder().join(format!("data-{port}"));
    Ok(format!(
        "storage: {{ path: {data:?} }}
server: {{ listen: 127.0.0.1:{port}, admin_listen: 127.0.0.1:{admin}, workers: 1 }}
upstreams: {{ api: {{ url: \"http://127.0.0.1:{backend}\" }} }}
routes: [ {{ path: \"/*\", upstream: api }} ]
plans:
  pro:
    rate_limit: {{ sustained: {{ rate: {rate}, window: {window} }}, scope: user }}
    quota: {{ limit: 1000000000000, window: month, time_zone: Europe/Vienna }}
tenants: [ {{ id: acme, plan: pro, rate_limit: {{ sustained: {{ rate: 2000000 }} }} }} ]
keys: [ {{ tenant: acme, user: ci, sha256: {digest} }} ]
"
    ))
}

/// What makes nginx' refusals as long as ours: a header for all of ours, and a body of the length that ours has.
fn telling() -> String {
    const BODY: usize = 515;
    // Its own headers of such an answer.
    const OTHERS: usize = 188;
    let header = "x".repeat(super::echo::LENGTH - BODY - OTHERS);
    let body = "x".repeat(BODY);
    format!(
        "error_page 429 = @refused;
         location @refused {{
           default_type application/problem+json; add_header x-told {header} always; return 429 {body};
         }}"
    )
}

fn nginx_proxy(case: Case, (port, telling): (u16, &str), backend: &Backend) -> String {
    let (zone, limit) = match case {
        Case::Bare => ("", ""),
        Case::Forward => (
            "limit_req_zone $http_x_api_key zone=keys:10m rate=1000000r/s; limit_req_status 429;",
            "limit_req zone=keys burst=1000 nodelay;",
        ),
        Case::Refuse => (
            "limit_req_zone $http_x_api_key zone=keys:10m rate=1r/m; limit_req_status 429;",
            "limit_req zone=keys;",
        ),
    };
    nginx(&format!(
        "{zone}
         upstream backend {{ server 127.0.0.1:{}; keepalive 256; keepalive_requests 1000000000; }}
         server {{ listen 127.0.0.1:{port} backlog=4096;
           {telling}
           location / {{
             {limit}
             proxy_pass http://backend; proxy_http_version 1.1;
             proxy_set_header Connection \"\"; proxy_set_header Host $http_host;
             proxy_set_header X-Forwarded-For $remote_addr;
             proxy_set_header X-Forwarded-Proto $scheme;
             proxy_set_header X-Forwarded-Host $http_host;
         }} }}",
        backend.port
    ))
}

fn haproxy(case: Case, port: u16, backend: &Backend) -> String {
    let limit = match case {
        Case::Bare => String::new(),
        Case::Forward | Case::Refuse => {
            let most = if case == Case::Refuse { 0 } else { 1_000_000 };
            format!(
                "  stick-table type string len 64 size 100k expire 60s store http_req_rate(1s)\n  \
                 http-request track-sc0 hdr(x-api-key)\n  \
                 http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt {most} }}\n"
            )
        }
    };
    format!(
        "global\n  nbthread 1\n  maxconn 4096\n\
         defaults\n  mode http\n  timeout connect 2s\n  timeout client 75s\n  timeout server 60s\n  \
         option forwardfor\n  http-reuse always\n\
         frontend front\n  bind 127.0.0.1:{port}\n{limit}  \
         http-request set-header X-Forwarded-Proto http\n  \
         http-request set-header X-Forwarded-Host %[req.hdr(host)]\n  default_backend back\n\
         backend back\n  server one 127.0.0.1:{}\n",
        backend.port
    )
}

/// Answers everything at once, on core 1.
pub struct Backend {
    pub port: u16,
    _process: Option<Process>,
}

impl Backend {
    pub fn start() -> Result<Backend, String> {
        let port = free_port()?;
        let config = nginx(&format!(
            "server {{ listen 127.0.0.1:{port} backlog=4096;
               location / {{ default_type text/plain; return 200 \"hello from the backend\\n\"; }} }}"
        ));
        let words =
            ["nginx".to_owned(), "-c".into(), written(&format!("backend-{port}.conf"), &config)?];
        Ok(Backend { port, _process: Some(Process::start("1", &words, port)?) })
    }

    /// One that runs already.
    pub fn at(port: u16) -> Backend {
        Backend { port, _process: None }
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

/// Our program as it is shipped, made anew where something of it has changed.
pub fn shipped() -> Result<String, String> {
    static DONE: Mutex<bool> = Mutex::new(false);
    let mut is_done = DONE.lock().map_err(|error| error.to_string())?;
    if !*is_done {
        cargo(&["xtask", "dist"])?;
        *is_done = true;
    }
    Ok(root().join("target/shipped/tollgate").to_string_lossy().into_owned())
}

/// A gateway that looks at nothing.
fn bare() -> Result<String, String> {
    let example = ["--package", "tollgate-gateway", "--example", "bare"];
    cargo(&[&["build", "--profile", "dist", "--quiet"], &example[..]].concat())?;
    Ok(root().join("target/dist/examples/bare").to_string_lossy().into_owned())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn cargo(args: &[&str]) -> Result<(), String> {
    let ended = Command::new("cargo")
        // As a user's shell would: what cargo has told this program makes dependencies build again.
        .env_remove("CARGO_MANIFEST_DIR")
        .args(args)
        .current_dir(root())
        .status();
    let is_good = ended.is_ok_and(|status| status.success());
    is_good.then_some(()).ok_or_else(|| format!("`cargo {}` did not end well", args.join(" ")))
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

pub fn free_port() -> Result<u16, String> {
    let probe = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    probe.map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("tollgate-bench-{}", std::process::id()))
}

pub fn written(name: &str, text: &str) -> Result<String, String> {
    let path = folder().join(name);
    fs::create_dir_all(folder())
        .and_then(|()| fs::write(&path, text))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(path.to_string_lossy().into_owned())
}
