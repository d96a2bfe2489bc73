//! A gateway as a process, an upstream that answers as it is told, and curl.

mod curl;
mod load;
mod upstream;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

pub use curl::{Answer, curl, get};
pub use load::Load;
pub use upstream::Upstream;

/// How long anything may take on a machine that has much else to do.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running `tollgate serve`; ended when dropped.
pub struct Tollgate {
    child: Child,
    pub address: String,
    pub admin: String,
    pub greeting: String,
    log: Mutex<Receiver<String>>,
    folder: Option<tempfile::TempDir>,
}

/// What every test's file begins with: free ports, two workers.
pub const SERVER: &str = "server: { listen: 127.0.0.1:0, admin_listen: 127.0.0.1:0, workers: 2, drain_timeout_ms: 5000 }\n";

impl Tollgate {
    /// With a file of this text, after [`SERVER`].
    pub fn with(text: &str) -> Tollgate {
        Tollgate::start_with_server(SERVER, text)
    }

    /// With a `server` section of its own.
    pub fn start_with_server(server: &str, text: &str) -> Tollgate {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollgate.yaml");
        std::fs::write(&path, format!("{server}{text}")).unwrap();
        Tollgate::start(&["--config", path.to_str().unwrap()], folder)
    }

    pub fn start(args: &[&str], folder: tempfile::TempDir) -> Tollgate {
        Tollgate::launch(Command::new(env!("CARGO_BIN_EXE_tollgate")), args, folder)
    }

    /// Where a file that may not grow is an error like a full disk, and no signal.
    pub fn with_fallible_disk(text: &str) -> Tollgate {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollgate.yaml");
        std::fs::write(&path, format!("{SERVER}{text}")).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#, env!("CARGO_BIN_EXE_tollgate")]);
        Tollgate::launch(shell, &["--config", path.to_str().unwrap()], folder)
    }

    /// From now on no file of the process grows beyond so many bytes.
    pub fn cap_files(&self, bytes: &str) {
        let fsize = format!("--fsize={bytes}:");
        let pid = self.pid().to_string();
        let capped = Command::new("prlimit").args(["--pid", &pid, &fsize]).status();
        assert!(capped.unwrap().success());
    }

    /// What it prints after its greeting is read by nobody, as long as the second is not dropped.
    pub fn with_unread_output(server: &str, text: &str) -> (Tollgate, BufReader<ChildStdout>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollgate.yaml");
        std::fs::write(&path, format!("{server}{text}")).unwrap();
        let command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        Tollgate::spawn(command, &["--config", path.to_str().unwrap()], folder)
    }

    fn launch(command: Command, args: &[&str], folder: tempfile::TempDir) -> Tollgate {
        let (tollgate, mut out) = Tollgate::spawn(command, args, folder);
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        tollgate
    }

    fn spawn(
        mut command: Command,
        args: &[&str],
        folder: tempfile::TempDir,
    ) -> (Tollgate, BufReader<ChildStdout>) {
        let mut child = command
            .arg("serve")
            .args(args)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = lines_of(child.stderr.take().unwrap());
        let mut greeting = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        // The greeting ends with the last line of its addresses, or of the demonstration.
        let last = if args.contains(&"--config") { "  admin " } else { "Next:" };
        loop {
            let mut line = String::new();
            if out.read_line(&mut line).unwrap() == 0 {
                let told: Vec<String> = log.iter().collect();
                panic!("it did not start: {}", told.join("\n"));
            }
            greeting += &line;
            if line.starts_with(last) {
                break;
            }
        }
        let after = |word: &str| {
            let line = greeting.lines().find(|line| line.trim_start().starts_with(word)).unwrap();
            let url = line.split_whitespace().nth(1).unwrap();
            url.split_once("://").unwrap().1.to_owned()
        };
        let (address, admin) = (after("gateway"), after("admin"));
        let (log, folder) = (Mutex::new(log), Some(folder));
        (Tollgate { child, address, admin, greeting, log, folder }, out)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn admin_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.admin)
    }

    /// With the file that is in this folder, and whatever an earlier process left there.
    pub fn again(folder: tempfile::TempDir) -> Tollgate {
        let path = folder.path().join("tollgate.yaml");
        Tollgate::start(&["--config", path.to_str().unwrap()], folder)
    }

    /// Stops it cleanly, and leaves its folder.
    pub fn stop(mut self) -> tempfile::TempDir {
        self.signal("-TERM");
        assert_eq!(self.end().code(), Some(0));
        self.folder.take().unwrap()
    }

    /// Ends it as a power failure does, and leaves its folder.
    pub fn kill(mut self) -> tempfile::TempDir {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.folder.take().unwrap()
    }

    pub fn folder(&self) -> &Path {
        self.folder.as_ref().unwrap().path()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn file(&self) -> PathBuf {
        self.folder().join("tollgate.yaml")
    }

    pub fn token(&self) -> String {
        let file = self.folder().join("tollgate-data/admin-token");
        std::fs::read_to_string(file).unwrap().trim().to_owned()
    }

    /// Asks the admin API with whatever curl is told besides. A body is JSON.
    pub fn api(&self, path: &str, rest: &[&str]) -> Answer {
        let token = format!("authorization: Bearer {}", self.token());
        let json = "content-type: application/json";
        curl(&[&[self.admin_url(path).as_str(), "-H", &token, "-H", json], rest].concat())
    }

    /// Creates something by the admin API, which must be answered 201.
    pub fn create(&self, path: &str, body: &serde_json::Value) -> serde_json::Value {
        let answer = self.api(path, &["-d", &body.to_string()]);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()
    }

    /// Writes the file anew, after [`SERVER`].
    pub fn rewrite(&self, text: &str) {
        self.replace(&format!("{SERVER}{text}"));
    }

    /// Writes the file anew, as an editor does: another file takes its place.
    pub fn replace(&self, text: &str) {
        let new = self.folder().join("new.yaml");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.file()).unwrap();
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Waits for a line of the log that has `part` in it.
    pub fn wait_for(&self, part: &str) -> String {
        let said = self.said_until(part);
        said.lines().next_back().unwrap_or_default().to_owned()
    }

    /// All that it says up to a line of the log that has `part` in it.
    pub fn said_until(&self, part: &str) -> String {
        let until = Instant::now() + PATIENCE;
        let mut said = String::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.log.lock().unwrap().recv_timeout(left) else {
                panic!("the log never said {part:?}, but {said}");
            };
            said += &line;
            if line.contains(part) {
                return said;
            }
        }
    }

    /// All that it said and nobody has read, up to its end.
    pub fn said(&mut self) -> String {
        self.signal("-TERM");
        assert_eq!(self.end().code(), Some(0));
        self.log.lock().unwrap().iter().collect()
    }

    /// Waits for its end.
    pub fn end(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Tollgate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(stderr: ChildStderr) -> Receiver<String> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stderr);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            let _ = tell.send(std::mem::take(&mut line));
        }
        let _ = reader.read_to_end(&mut Vec::new());
    });
    told
}

/// Waits until `holds`, or panics.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Windows and quotas begin anew at midnight UTC: a test that counts in one waits until that is over.
pub fn stay_clear_of_midnight() {
    const DAY: u64 = 86_400;
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let left = DAY - since.as_secs() % DAY;
    if left <= 60 {
        std::thread::sleep(Duration::from_secs(left + 1));
    }
}
