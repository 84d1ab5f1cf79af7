//! The tray over D-Bus, as a desktop sees it: a watcher takes the registration, the title is read while a reply runs,
//! menu items are clicked, and all of it goes on with the window closed. Needs Xvfb and dbus-run-session; without them
//! the test says so and passes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::unused_self, clippy::used_underscore_binding)]

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};
use zbus::{blocking::Connection, interface, zvariant::OwnedValue};

const INSIDE: &str = "DSPARK_TRAY_TEST_BUS";
/// The scripted rate, against plain decoding as the scripted curves predict it.
const GAUGE: &str = "66 t/s · 2.6×";

fn have(program: &str) -> bool {
    Command::new(program)
        .arg("--help")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

#[test]
fn the_gauge_and_its_menu() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    let missing: Vec<&str> = ["Xvfb", "dbus-run-session", "xdotool"]
        .into_iter()
        .filter(|program| !have(program))
        .collect();
    if !missing.is_empty() {
        eprintln!("SKIPPED: {} not installed (apt-get install xvfb dbus xdotool)", missing.join(", "));
        return;
    }
    // A bus of its own: nothing here touches the desktop of whoever runs the tests.
    let status = Command::new("dbus-run-session")
        .arg("--")
        .arg(std::env::current_exe().unwrap())
        .args(["the_gauge_and_its_menu", "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success());
}

/// What a desktop panel does: takes the names of tray items.
struct Watcher(mpsc::Sender<String>);

#[interface(name = "org.kde.StatusNotifierWatcher")]
impl Watcher {
    fn register_status_notifier_item(&self, service: String, #[zbus(header)] header: zbus::message::Header<'_>) {
        let sender = header.sender().map(ToString::to_string).unwrap_or_default();
        let _ = self.0.send(if service.starts_with('/') { sender } else { service });
    }

    fn register_status_notifier_host(&self, _service: &str) {}

    #[zbus(property)]
    fn registered_status_notifier_items(&self) -> Vec<String> {
        Vec::new()
    }

    #[zbus(property)]
    fn is_status_notifier_host_registered(&self) -> bool {
        true
    }

    #[zbus(property)]
    fn protocol_version(&self) -> i32 {
        0
    }
}

/// Ends with the test, whatever happens.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Desk {
    bus: Connection,
    item: String,
}

impl Desk {
    fn property(&self, name: &str) -> String {
        let answer = self
            .bus
            .call_method(
                Some(self.item.as_str()),
                "/StatusNotifierItem",
                Some("org.freedesktop.DBus.Properties"),
                "Get",
                &("org.kde.StatusNotifierItem", name),
            )
            .unwrap();
        let value: OwnedValue = answer.body().deserialize().unwrap();
        String::try_from(value).unwrap()
    }

    /// Menu lines by their number.
    fn menu(&self) -> Vec<(i32, String, bool)> {
        type Node = (i32, std::collections::HashMap<String, OwnedValue>, Vec<OwnedValue>);
        let answer = self
            .bus
            .call_method(
                Some(self.item.as_str()),
                "/MenuBar",
                Some("com.canonical.dbusmenu"),
                "GetLayout",
                &(0i32, -1i32, Vec::<&str>::new()),
            )
            .unwrap();
        let (_, (_, _, children)): (u32, Node) = answer.body().deserialize().unwrap();
        children
            .into_iter()
            .map(|child| {
                let (id, mut properties, _): Node = child.try_into().unwrap();
                let label = properties
                    .remove("label")
                    .map(|label| String::try_from(label).unwrap())
                    .unwrap_or_default();
                let enabled = properties.remove("enabled").is_none_or(|enabled| bool::try_from(enabled).unwrap());
                (id, label.replace('_', ""), enabled)
            })
            .collect()
    }

    fn click(&self, label: &str) {
        let id = self.menu().into_iter().find(|(_, known, _)| known == label).map(|(id, _, _)| id);
        let id = id.unwrap_or_else(|| panic!("no `{label}` in {:?}", self.menu()));
        self.bus
            .call_method(
                Some(self.item.as_str()),
                "/MenuBar",
                Some("com.canonical.dbusmenu"),
                "Event",
                &(id, "clicked", zbus::zvariant::Value::from(0i32), 0u32),
            )
            .unwrap();
    }
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "waited for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The window on a scripted engine. A run of all tests has built it next to them; a filtered one builds no examples by itself.
fn example() -> std::path::PathBuf {
    let deps = std::env::current_exe().unwrap();
    let example = deps.parent().and_then(Path::parent).unwrap().join("examples/double_window");
    if std::env::var_os("NEXTEST").is_none() || !example.exists() {
        let build = ["build", "--quiet", "-p", "dspark-window", "--example", "double_window"];
        assert!(Command::new(env!("CARGO")).args(build).status().unwrap().success());
    }
    example
}

fn xdotool(display: &str, arguments: &[&str]) -> String {
    let output = Command::new("xdotool").args(arguments).env("DISPLAY", display).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The window as the display sees it: mapped or not.
fn is_visible(display: &str) -> bool {
    !xdotool(display, &["search", "--onlyvisible", "--name", "^mlx-dspark$"]).is_empty()
}

fn inside() {
    let example = example();
    let (register, registered) = mpsc::channel();
    let bus = zbus::blocking::connection::Builder::session()
        .unwrap()
        .name("org.kde.StatusNotifierWatcher")
        .unwrap()
        .serve_at("/StatusNotifierWatcher", Watcher(register))
        .unwrap()
        .build()
        .unwrap();
    let display = format!(":{}", 500 + std::process::id() % 400);
    let _x = Killed(
        Command::new("Xvfb")
            .args([&display, "-screen", "0", "1280x800x24", "+extension", "GLX"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    std::thread::sleep(Duration::from_millis(800));
    // The scene is written into its folder at each start.
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let start = |data: &tempfile::TempDir, more: &[&str]| {
        let child = Command::new(&example)
            .args(["--scene", "chat", "--theme", "dark", "--data"])
            .arg(data.path())
            .args(more)
            .env("DISPLAY", &display)
            .env_remove("WAYLAND_DISPLAY")
            .env("LIBGL_ALWAYS_SOFTWARE", "1")
            .stderr(Stdio::null())
            .spawn();
        Killed(child.unwrap())
    };
    let mut app = start(&folders[0], &[]);
    let item = registered
        .recv_timeout(Duration::from_secs(30))
        .expect("the item registers with the watcher");
    let desk = Desk { bus, item };

    until("the gauge", || (desk.property("Title") == GAUGE).then_some(()));
    let labels: Vec<String> = desk.menu().into_iter().map(|(_, label, _)| label).collect();
    for wanted in [
        "Qwen3-8B-8bit, DSpark",
        "Generating",
        "Serving on http://127.0.0.1:8080",
        "Stop generating",
        "Pause server",
        "Open mlx-dspark",
        "Quit mlx-dspark",
    ] {
        assert!(labels.iter().any(|label| label == wanted), "no `{wanted}` in {labels:?}");
    }
    until("the window", || is_visible(&display).then_some(()));

    // Closed: hidden, and everything goes on.
    let id = xdotool(&display, &["search", "--name", "^mlx-dspark$"]);
    close(&display, id.lines().next().unwrap());
    until("the window to hide", || (!is_visible(&display)).then_some(()));
    assert!(app.0.try_wait().unwrap().is_none(), "the app runs on");
    assert_eq!(desk.property("Title"), GAUGE);
    desk.click("Pause server");
    until("the pause", || {
        desk.menu().iter().any(|(_, label, _)| label == "Resume server").then_some(())
    });
    desk.click("Resume server");
    until("the server", || {
        desk.menu().iter().any(|(_, label, _)| label == "Pause server").then_some(())
    });
    desk.click("Stop generating");
    until("the end of the reply", || (desk.property("Title") == "mlx-dspark").then_some(()));
    let stop = desk.menu().into_iter().find(|(_, label, _)| label == "Stop generating").unwrap();
    assert!(!stop.2, "there is nothing to stop any more");

    desk.click("Open mlx-dspark");
    until("the window to come back", || is_visible(&display).then_some(()));
    desk.click("Quit mlx-dspark");
    let status = until("the end", || app.0.try_wait().unwrap());
    assert!(status.success());

    // As at login: nothing is in the way, and the menu brings the window.
    let mut app = start(&folders[1], &["--hidden"]);
    let desk = Desk {
        bus: desk.bus,
        item: registered.recv_timeout(Duration::from_secs(30)).expect("the second item registers"),
    };
    until("work while hidden", || (desk.property("Title") == GAUGE).then_some(()));
    until("the window to hide", || (!is_visible(&display)).then_some(()));
    std::thread::sleep(Duration::from_millis(500));
    assert!(!is_visible(&display), "it stays hidden");
    desk.click("Open mlx-dspark");
    until("the window", || is_visible(&display).then_some(()));
    desk.click("Stop generating");
    until("the end of the reply", || (desk.property("Title") == "mlx-dspark").then_some(()));
    desk.click("Quit mlx-dspark");
    let status = until("the end", || app.0.try_wait().unwrap());
    assert!(status.success());
}

/// Closes the window with its own shortcut, which takes the same way as a click on the close button.
fn close(display: &str, window: &str) {
    xdotool(display, &["windowfocus", "--sync", window]);
    xdotool(display, &["key", "ctrl+w"]);
}
