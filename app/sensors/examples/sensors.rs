//! Prints what this machine tells of itself: `cargo run -p dspark-sensors --example sensors`

#![allow(clippy::print_stdout, reason = "what it reads is its output")]

fn main() {
    let (conditions, gpus) = dspark_sensors::read();
    println!("{conditions:#?}\nslower for: {:?}", conditions.slows());
    println!("{gpus:#?}");
}
