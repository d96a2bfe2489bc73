//! A real client.

use std::collections::HashMap;
use std::process::Command;

/// What curl was answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HashMap<String, Vec<String>>,
    pub body: String,
}

impl Answer {
    /// The one value of a header.
    pub fn header(&self, name: &str) -> &str {
        match self.headers.get(name).map(Vec::as_slice) {
            Some([value]) => value,
            other => panic!("{name}: {other:?} in {self:?}"),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.headers.contains_key(name)
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs curl and reads what it was answered last.
pub fn curl(args: &[&str]) -> Answer {
    let output =
        Command::new("curl").args(["-s", "-S", "-i", "-m", "60"]).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}{text}", String::from_utf8_lossy(&output.stderr));
    let mut rest = text.as_str();
    loop {
        let (head, body) = rest.split_once("\r\n\r\n").unwrap_or((rest, ""));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        if (100..200).contains(&status) {
            rest = body;
            continue;
        }
        let mut headers: HashMap<String, Vec<String>> = HashMap::new();
        for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
            headers.entry(name.to_lowercase()).or_default().push(value.to_owned());
        }
        return Answer { status, headers, body: body.to_owned() };
    }
}

/// GET with a key.
pub fn get(url: &str, key: &str) -> Answer {
    curl(&[url, "-H", &format!("x-api-key: {key}")])
}
