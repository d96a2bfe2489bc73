//! The program as it is shipped: built twice, the second time by what the first one did under load.
//!
//! ```text
//! build that counts ─▶ training: loads like a gateway's ─▶ profile ─▶ build that keeps together what runs together
//! ```
//! Most of what a request takes besides the kernel is waiting for code: it has left the nearest cache while the kernel's
//! ran. What the compiler knows of the way that requests take makes that code smaller and shorter.

mod load;
mod profile;
mod started;
mod training;

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{cargo, command, root, run, said};
use crate::tools;

/// Where the program is when all is done.
const SHIPPED: &str = "target/shipped/tollgate";

/// The folders of the two builds. What they are made of is compiled by other flags, so neither shares one with other builds.
const COUNTING: &str = "target/counting";
const TRAINED: &str = "target/trained";

pub(crate) fn build() -> Result<(), String> {
    let rustc = Rustc::ask()?;
    let program = match rustc.profdata() {
        Some(profdata) => trained(&rustc, &profdata)?,
        None => {
            eprintln!(
                "\nThere is no llvm-profdata of LLVM {0} here, so this build is not trained; forwarding takes some 5 % more time.\n\
                 `rustup component add llvm-tools` brings it, or the Debian package llvm-{0}.",
                rustc.llvm
            );
            cargo(["build", "--profile", "dist", "--locked", "--package", "tollgate"])?;
            root().join("target/dist/tollgate")
        }
    };
    let shipped = root().join(SHIPPED);
    // Whoever runs the old one keeps it: it is replaced, not written over.
    let new = shipped.with_extension("new");
    let moved = fs::create_dir_all(root().join("target/shipped"))
        .and_then(|()| fs::copy(program, &new))
        .and_then(|_| fs::rename(&new, &shipped));
    moved.map_err(|error| format!("{SHIPPED} cannot be written: {error}"))?;
    eprintln!("\n{SHIPPED}");
    Ok(())
}

/// Builds twice, with the training between. Nothing is done again for which nothing has changed.
fn trained(rustc: &Rustc, profdata: &Path) -> Result<PathBuf, String> {
    let folder = root().join(COUNTING);
    let raw = folder.join("raw");
    let counting = rustc.build(COUNTING, &format!("-Cprofile-generate={}", raw.display()))?;
    // The training is a part of this program.
    let trainer = std::env::current_exe().map_err(|error| error.to_string())?;
    let is_up_to_date =
        |profile: &PathBuf| [&counting, &trainer].into_iter().all(|other| is_newer(profile, other));
    let profile = match profile::found_in(&folder).filter(is_up_to_date) {
        Some(profile) => profile,
        None => {
            let _ = fs::remove_dir_all(&raw);
            tools::for_training()?;
            training::run(&counting)?;
            let made = folder.join("made.profdata");
            let mut merge = command(&profdata.to_string_lossy());
            merge.arg("merge").arg("--output").arg(&made).arg(&raw);
            run(merge)?;
            profile::keep(&made).map_err(|error| format!("the profile cannot be kept: {error}"))?
        }
    };
    rustc.build(TRAINED, &format!("-Cprofile-use={}", profile.display()))
}

fn is_newer(one: &Path, other: &Path) -> bool {
    let written = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    matches!((written(one), written(other)), (Ok(one), Ok(other)) if one > other)
}

/// The compiler, by its own word.
struct Rustc {
    host: String,
    sysroot: PathBuf,
    /// Of which version its LLVM is, that has to understand the profile.
    llvm: String,
}

impl Rustc {
    fn ask() -> Result<Rustc, String> {
        let told = rustc_says(&["--verbose", "--version"])?;
        let field = |name: &str| {
            let value = told.lines().find_map(|line| line.strip_prefix(name));
            value.map(str::to_owned).ok_or(format!("rustc does not tell its `{name}`"))
        };
        let llvm = field("LLVM version: ")?;
        let llvm = llvm.split('.').next().unwrap_or_default().to_owned();
        let sysroot = rustc_says(&["--print", "sysroot"])?.trim().into();
        Ok(Rustc { host: field("host: ")?, sysroot, llvm })
    }

    /// What makes a profile of the counts: rustup's, or Debian's, which is installed where it is missing.
    fn profdata(&self) -> Option<PathBuf> {
        let rustups = self.sysroot.join("lib/rustlib").join(&self.host).join("bin/llvm-profdata");
        if rustups.exists() {
            return Some(rustups);
        }
        let debians = format!("llvm-profdata-{}", self.llvm);
        tools::profdata(&debians, &format!("llvm-{}", self.llvm)).ok()?;
        Some(debians.into())
    }

    /// Builds the program in a folder of its own. Named, its target has those flags alone: without, build scripts had them too.
    fn build(&self, folder: &str, flag: &str) -> Result<PathBuf, String> {
        let others = std::env::var("RUSTFLAGS").unwrap_or_default();
        // A folder's name may have blanks.
        let flags: Vec<&str> = others.split_whitespace().chain([flag]).collect();
        let mut build = command(env!("CARGO"));
        build
            .args(["build", "--profile", "dist", "--locked", "--package", "tollgate"])
            .args(["--target", &self.host, "--target-dir", folder])
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        run(build)?;
        Ok(root().join(folder).join(&self.host).join("dist/tollgate"))
    }
}

fn rustc_says(args: &[&str]) -> Result<String, String> {
    let mut rustc = command("rustc");
    rustc.args(args);
    said(rustc)
}
