//! The program. Everything it does lives in the library.

fn main() {}
