//! The desktop's clipboard through the real window: pasted into the composer, copied with a key. Tests in one process
//! hand text to egui themselves and would not notice a window without a clipboard. Needs Xvfb, xdotool and xclip;
//! without them the test says so and passes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::{
    io::Write,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

const TEXT: &str = "Grüße, 日本語 👩‍💻";

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn have(program: &str) -> bool {
    Command::new(program)
        .arg("-help")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

fn on(display: &str, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .env("DISPLAY", display)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(30), "waited for {what}");
        sleep(Duration::from_millis(150));
    }
}

#[test]
fn the_composer_takes_and_gives() {
    let missing: Vec<&str> = ["Xvfb", "xdotool", "xclip"].into_iter().filter(|program| !have(program)).collect();
    if !missing.is_empty() {
        eprintln!("SKIPPED: {} not installed (apt-get install xvfb xdotool xclip)", missing.join(", "));
        return;
    }
    let display = format!(":{}", 600 + std::process::id() % 300);
    let quiet = |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _screen = Killed(quiet(Command::new("Xvfb").args([&display, "-screen", "0", "1000x700x24"])));
    sleep(Duration::from_millis(700));
    let mut owner = Command::new("xclip")
        .args(["-selection", "clipboard", "-quiet", "-in"])
        .env("DISPLAY", &display)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    owner.stdin.take().unwrap().write_all(TEXT.as_bytes()).unwrap();
    let _owner = Killed(owner);
    let data = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let program = program.parent().unwrap().parent().unwrap().join("examples/double_window");
    let mut command = Command::new(program);
    command.args(["--scene", "empty", "--size", "1000x700", "--data"]).arg(data.path());
    command
        .env("DISPLAY", &display)
        .env("LIBGL_ALWAYS_SOFTWARE", "1")
        .env_remove("WAYLAND_DISPLAY")
        .env_remove("DBUS_SESSION_BUS_ADDRESS");
    let _window = Killed(quiet(&mut command));
    let mut window = String::new();
    until("the window", || {
        on(&display, "xdotool", &["search", "--onlyvisible", "--name", "mlx-dspark"])
            .trim()
            .clone_into(&mut window);
        !window.is_empty()
    });
    let copied = || on(&display, "xclip", &["-selection", "clipboard", "-out"]);
    until("the text back on the clipboard", || {
        // No window manager here: the keyboard is handed over by hand.
        on(&display, "xdotool", &["windowfocus", &window]);
        on(&display, "xdotool", &["key", "--delay", "60", "ctrl+a", "ctrl+v"]);
        sleep(Duration::from_millis(300));
        on(&display, "xdotool", &["type", "--delay", "60", "!"]);
        on(&display, "xdotool", &["key", "--delay", "60", "ctrl+a", "ctrl+c"]);
        sleep(Duration::from_millis(300));
        let copied = copied();
        copied.starts_with(TEXT) && copied.ends_with('!')
    });
}
