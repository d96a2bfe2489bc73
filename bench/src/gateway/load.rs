//! Load by wrk, and what it cost the proxy.

use std::process::Command;

use super::proxies::Proxy;

#[derive(Clone, Copy)]
pub struct Load {
    pub connections: u32,
    pub seconds: u32,
}

/// What one round showed.
pub struct Cost {
    /// CPU time of a request.
    pub micros: f64,
    pub p99_ms: f64,
}

impl Load {
    /// Loads a proxy from core 1 with requests that must all be answered with 200.
    pub fn on(self, proxy: &Proxy) -> Result<Cost, String> {
        let before = proxy.cpu_nanos();
        let output = Command::new("taskset")
            .args(["-c", "1", "wrk", "--latency", "-t1"])
            .arg(format!("-c{}", self.connections))
            .arg(format!("-d{}s", self.seconds))
            .arg(format!("http://127.0.0.1:{}/bench", proxy.port))
            .output()
            .map_err(|error| format!("wrk did not start: {error}"))?;
        let nanos = proxy.cpu_nanos() - before;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.contains("Non-2xx") || text.contains("Socket errors") {
            return Err(format!("{:?} failed requests:\n{text}", proxy.kind));
        }
        let requests =
            line(&text, "requests in").and_then(|line| line.split(' ').next()?.parse().ok());
        let p99 = line(&text, "99%").and_then(|line| millis(line.trim_start_matches("99%").trim()));
        match (requests, p99) {
            (Some(requests), Some(p99_ms)) => {
                let requests: f64 = requests;
                Ok(Cost { micros: nanos as f64 / 1000.0 / requests, p99_ms })
            }
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
