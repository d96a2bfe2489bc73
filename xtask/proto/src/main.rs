//! `cargo xtask proto [--check]`: makes the checked-in code of the gRPC services, or says whether it is what would be made.
//!
//! The compiler is protox, which is Rust: nobody needs protoc, neither here nor to build the product.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use protox::Compiler;

const PACKAGE: &str = "tollgate.admin.v1";
const FILE: &str = "tollgate/admin/v1/admin.proto";

fn main() -> ExitCode {
    let only_check = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => {
            eprintln!("usage: cargo xtask proto [--check]");
            return ExitCode::from(2);
        }
    };
    match run(only_check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("proto: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(only_check: bool) -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let place = root.join("crates/admin/src/grpc/generated");
    let fresh = tempfile::tempdir()?;
    for file in make(&root.join("crates/admin/proto"), fresh.path())? {
        let made = fs::read(fresh.path().join(&file))?;
        let kept = place.join(&file);
        if fs::read(&kept).is_ok_and(|kept| kept == made) {
            continue;
        }
        if only_check {
            let file = file.display();
            return Err(format!("{file} is not what {FILE} makes: run `cargo xtask proto`").into());
        }
        fs::write(kept, made)?;
    }
    Ok(())
}

/// Makes the code and the descriptors that reflection tells, in `folder`; answers the names of both.
fn make(protos: &Path, folder: &Path) -> Result<[PathBuf; 2], Box<dyn Error>> {
    let mut compiler = Compiler::new([protos])?;
    // With its comments: whoever asks by reflection may read them.
    compiler.include_source_info(true).include_imports(true).open_file(FILE)?;
    let descriptors = PathBuf::from(format!("{PACKAGE}.bin"));
    fs::write(folder.join(&descriptors), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure().out_dir(folder).compile_fds(compiler.file_descriptor_set())?;
    Ok([PathBuf::from(format!("{PACKAGE}.rs")), descriptors])
}
