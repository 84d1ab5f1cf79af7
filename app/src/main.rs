//! The program. Everything it does lives in the library.

fn main() {
    dspark_engine::prepare();
    let code = mlx_dspark::cli::main();
    // The engine's thread may still be at work, which MLX's C++ destructors would not survive.
    dspark_engine::leave(code)
}
