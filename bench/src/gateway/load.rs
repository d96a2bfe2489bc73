//! Load by wrk, and what it cost the proxy.

use std::process::Command;

use super::proxies::{KEY, Proxy, written};

#[derive(Clone, Copy)]
pub struct Load {
    pub connections: u32,
    pub seconds: u32,
    pub answered: Answered,
    pub asks: Asks,
}

/// What a connection asks for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Asks {
    /// The same again and again, as callers do that poll, or do not take no for an answer.
    #[default]
    Same,
    /// Something else each time, so that nothing is gained by remembering a request.
    Varied,
}

/// A path of its own for each request.
const VARIED: &str = "local n = 0
request = function()
  n = n + 1
  return wrk.format('GET', '/bench/' .. n)
end
";

/// How every request must be answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    Well,
    Refused,
}

/// What one round showed.
pub struct Cost {
    /// CPU time of a request.
    pub micros: f64,
    pub requests: f64,
    pub p99_ms: f64,
}

impl Load {
    /// Loads a proxy from core 1.
    pub fn on(self, proxy: &Proxy) -> Result<Cost, String> {
        let before = proxy.cpu_nanos();
        let cost = self.at(proxy.port)?;
        let nanos = proxy.cpu_nanos() - before;
        Ok(Cost { micros: nanos as f64 / 1000.0 / cost.requests, ..cost })
    }

    /// Loads whoever listens at a port; what that costs it is not known.
    pub fn at(self, port: u16) -> Result<Cost, String> {
        let script = match self.asks {
            Asks::Same => Vec::new(),
            Asks::Varied => vec!["-s".to_owned(), written("varied.lua", VARIED)?],
        };
        let output = Command::new("taskset")
            .args(["-c", "1", "wrk", "--latency", "-t1"])
            .arg(format!("-c{}", self.connections))
            .arg(format!("-d{}s", self.seconds))
            .args(["-H", &format!("x-api-key: {KEY}")])
            .args(script)
            .arg(format!("http://127.0.0.1:{port}/bench"))
            .output()
            .map_err(|error| format!("wrk did not start: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let requests: Option<f64> =
            line(&text, "requests in").and_then(|line| line.split(' ').next()?.parse().ok());
        let refused: f64 = line(&text, "Non-2xx")
            .and_then(|line| line.rsplit(' ').next()?.parse().ok())
            .unwrap_or(0.0);
        let is_right = match self.answered {
            Answered::Well => refused == 0.0,
            // The first few of a bucket pass.
            Answered::Refused => requests.is_some_and(|all| refused > all * 0.999 - 100.0),
        };
        if !is_right || text.contains("Socket errors") {
            return Err(format!("not answered as they should be:\n{text}"));
        }
        // A line may also end with 99 %: how many are within a standard deviation.
        let p99 = text.lines().find_map(|line| line.trim().strip_prefix("99%"));
        let p99 = p99.and_then(|time| millis(time.trim()));
        match (requests, p99) {
            (Some(requests), Some(p99_ms)) => Ok(Cost { micros: 0.0, requests, p99_ms }),
            _ => Err(format!("wrk said something else than usual:\n{text}")),
        }
    }
}

fn line<'t>(text: &'t str, with: &str) -> Option<&'t str> {
    text.lines().map(str::trim).find(|line| line.contains(with))
}

/// A time as wrk writes it, in milliseconds.
fn millis(text: &str) -> Option<f64> {
    let (number, factor) = if let Some(number) = text.strip_suffix("us") {
        (number, 0.001)
    } else if let Some(number) = text.strip_suffix("ms") {
        (number, 1.0)
    } else {
        (text.strip_suffix('s')?, 1000.0)
    };
    Some(number.parse::<f64>().ok()? * factor)
}
