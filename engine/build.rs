//! Where the binary finds MLX: beside itself when packaged, else where the build put it. `LD_LIBRARY_PATH` goes
//! before both, so the same Linux binary runs on CUDA.

fn main() {
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
