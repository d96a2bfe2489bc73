//! One load of a program, and whether it was answered as it should be.

use super::started::Folder;
use crate::run::{command, said};

/// Requests over many connections, for a few seconds.
pub(super) struct Load {
    pub(super) what: &'static str,
    /// What h2load is told besides.
    pub(super) args: &'static [&'static str],
    /// The path that all of them are below.
    pub(super) below: &'static str,
    /// The first digit of the status that nearly all are answered with.
    pub(super) status: char,
}

/// A key whose checksum is right, and its digest.
const KEY: &str = "tg_live_ExampleKeyDoNotUseItReal0fYmW4";
pub(super) const DIGEST: &str = "65f69632fa01bb78630fb6021af035a0aa3347b84d3e8617c9b7cb5777426581";

/// Paths that are asked for in turns: callers ask for many things.
pub(super) const PATHS: usize = 50;

impl Load {
    pub(super) fn run(&self, folder: &Folder, base: &str) -> Result<(), String> {
        let Load { what, below, .. } = self;
        let url = |nth| format!("{base}{below}{nth}");
        let mut h2load = command("h2load");
        h2load
            .args(["--clients", "32", "--threads", "1", "--duration", "4"])
            .args(["--header", &format!("x-api-key: {KEY}")])
            .args(self.args)
            .args((0..PATHS).map(url))
            .current_dir(folder.path());
        eprintln!("training: {what}");
        let told = said(h2load)?;
        let is_right = self.is_answered(&told).unwrap_or_default();
        is_right.then_some(()).ok_or(format!("not answered as it should be, `{what}`:\n{told}"))
    }

    /// A profile of something else than what is meant would make the program slower, and nobody would see why.
    fn is_answered(&self, told: &str) -> Option<bool> {
        let counts = told.lines().find_map(|line| line.strip_prefix("status codes: "))?;
        let count = |class: char| -> Option<u64> {
            let of_class = counts.split(", ").find(|part| part.ends_with(&format!("{class}xx")));
            of_class?.split(' ').next()?.parse().ok()
        };
        let all: u64 = ['2', '3', '4', '5'].into_iter().filter_map(count).sum();
        Some(all > 1_000 && count(self.status)? >= all / 100 * 99)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_answered_as_it_should_be_is_trained_by() {
        let of = |status| Load { what: "", args: &[], below: "", status };
        let admitted = "requests: 20000 total\nstatus codes: 19900 2xx, 0 3xx, 100 4xx, 0 5xx\n";
        assert_eq!(of('2').is_answered(admitted), Some(true));
        assert_eq!(of('4').is_answered(admitted), Some(false));
        let broken = "status codes: 15000 2xx, 0 3xx, 0 4xx, 5000 5xx\n";
        assert_eq!(of('2').is_answered(broken), Some(false));
        let hardly = "status codes: 10 2xx, 0 3xx, 0 4xx, 0 5xx\n";
        assert_eq!(of('2').is_answered(hardly), Some(false));
        assert_eq!(of('2').is_answered("h2load: nobody there\n"), None);
    }
}
