//! The program. Everything it does lives in the library.

fn main() -> std::process::ExitCode {
    mlx_dspark::cli::main()
}
