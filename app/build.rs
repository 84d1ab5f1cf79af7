//! Where the binary finds MLX: beside itself when packaged, else where the build put it. `LD_LIBRARY_PATH` goes
//! before both, so the same Linux binary runs on CUDA. And the commit, which measurements are stamped with.

use std::{path::Path, process::Command};

fn main() {
    commit();
    if std::env::var("TARGET") != std::env::var("HOST") {
        return;
    }
    let bundle = if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("macos") {
        "@executable_path/../Frameworks"
    } else {
        "$ORIGIN/../lib"
    };
    println!("cargo::rustc-link-arg=-Wl,-rpath,{bundle}");
    if let Ok(lib) = std::env::var("DEP_MLX_LIB") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    }
}

/// Asked again with every commit. Sources without a history have none.
fn commit() {
    println!("cargo::rerun-if-changed=build.rs");
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    if let Some(commit) = git(&["rev-parse", "--short=9", "HEAD"]) {
        println!("cargo::rustc-env=DSPARK_COMMIT={commit}");
    }
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
}
