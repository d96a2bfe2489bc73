//! What the program is trained by: what gateways do most. Whatever it is not shown is compiled to be small, not to be quick.

use std::path::Path;

use super::load::{DIGEST, Load, PATHS};
use super::started::{Folder, Started, answering, free_port};

/// A gateway, and what it is asked.
struct Lesson {
    rate: &'static str,
    consistency: &'static str,
    has_tls: bool,
    loads: &'static [Load],
}

/// A rate that admits everything, and one that admits nothing.
const PLENTY: &str = "{ rate: 1000000 }";
const SCARCE: &str = "{ rate: 1, window: day }";

const LESSONS: &[Lesson] = &[
    Lesson {
        rate: PLENTY,
        consistency: "local",
        has_tls: false,
        loads: &[
            Load { what: "forwarded", args: HTTP1, below: "", status: '2' },
            Load { what: "uploaded", args: UPLOAD, below: "", status: '2' },
            Load { what: "forwarded, HTTP/2", args: HTTP2, below: "", status: '2' },
            Load { what: "called", args: CALL, below: "calls/", status: '2' },
        ],
    },
    Lesson {
        rate: SCARCE,
        consistency: "local",
        has_tls: false,
        loads: &[
            Load { what: "refused", args: HTTP1, below: "", status: '4' },
            Load { what: "refused, HTTP/2", args: HTTP2, below: "", status: '4' },
        ],
    },
    Lesson {
        rate: PLENTY,
        consistency: "local",
        has_tls: true,
        loads: &[
            Load { what: "forwarded, TLS", args: HTTP1, below: "", status: '2' },
            Load { what: "forwarded, TLS, HTTP/2", args: HTTP2, below: "", status: '2' },
        ],
    },
    Lesson {
        rate: PLENTY,
        consistency: "strict",
        has_tls: false,
        loads: &[Load { what: "counted in Redis", args: HTTP1, below: "", status: '2' }],
    },
    Lesson {
        rate: PLENTY,
        consistency: "hybrid",
        has_tls: false,
        loads: &[Load { what: "counted here, told to Redis", args: HTTP1, below: "", status: '2' }],
    },
];

const HTTP1: &[&str] = &["--h1"];
const UPLOAD: &[&str] = &["--h1", "--data", "body"];
const HTTP2: &[&str] = &["--max-concurrent-streams", "8"];
const CALL: &[&str] = &[
    "--max-concurrent-streams",
    "8",
    "--data",
    "body",
    "--header",
    "content-type: application/grpc",
    "--header",
    "te: trailers",
];

/// Gives a program all lessons, one after the other.
pub(super) fn run(program: &Path) -> Result<(), String> {
    let folder = Folder::new()?;
    folder.write("body", &"x".repeat(2000))?;
    for nth in 0..PATHS {
        folder.write(&format!("calls/{nth}"), "answered\n")?;
    }
    folder.certificate()?;
    let around = Around { api: answering()?, calls: free_port()?, redis: free_port()? };
    let (docroot, calls, redis) =
        (folder.path(), around.calls.to_string(), around.redis.to_string());
    let words = ["nghttpd", "--no-tls", "--htdocs", &docroot, &calls];
    let _calls = Started::new(&words, &folder, around.calls)?;
    let words = ["redis-server", "--save", "", "--port", &redis];
    let _redis = Started::new(&words, &folder, around.redis)?;
    for lesson in LESSONS {
        let port = free_port()?;
        folder.write("tollgate.yaml", &lesson.policy(port, &around)?)?;
        let words = [&*program.to_string_lossy(), "serve", "--config", "tollgate.yaml"];
        let gateway = Started::new(&words, &folder, port)?;
        let scheme = if lesson.has_tls { "https" } else { "http" };
        for load in lesson.loads {
            load.run(&folder, &format!("{scheme}://127.0.0.1:{port}/"))?;
        }
        // What it has counted it writes as it ends.
        gateway.stop()?;
    }
    Ok(())
}

/// The ports of who else is needed.
struct Around {
    api: u16,
    calls: u16,
    redis: u16,
}

impl Lesson {
    fn policy(&self, port: u16, around: &Around) -> Result<String, String> {
        let Lesson { rate, consistency, .. } = self;
        let Around { api, calls, redis } = around;
        let admin = free_port()?;
        let tls = if self.has_tls { ", tls: { cert: cert.pem, key: key.pem }" } else { "" };
        let mut policy = format!(
            "server: {{ listen: 127.0.0.1:{port}, admin_listen: 127.0.0.1:{admin}{tls} }}
upstreams:
  api: {{ url: \"http://127.0.0.1:{api}\" }}
  calls: {{ url: \"http://127.0.0.1:{calls}\" }}
routes: [ {{ path: \"/calls/*\", upstream: calls }}, {{ path: \"/*\", upstream: api }} ]
plans:
  pro:
    rate_limit: {{ sustained: {rate}, scope: user, consistency: {consistency} }}
    quota: {{ limit: 1000000000000, window: month }}
tenants: [ {{ id: acme, plan: pro, rate_limit: {{ sustained: {{ rate: 2000000 }} }} }} ]
keys: [ {{ tenant: acme, user: ci, sha256: {DIGEST} }} ]
"
        );
        if *consistency != "local" {
            policy += &format!(
                "redis: {{ url: \"redis://127.0.0.1:{redis}\" }}\nrate_limit_sync: {{ enabled: true }}\n"
            );
        }
        Ok(policy)
    }
}
