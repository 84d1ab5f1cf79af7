//! The desktop as D-Bus services see it, on a bus of its own: what is asked for, what is given back, what a person answers,
//! and what is said where nobody answers. Needs dbus-run-session; without it the tests say so and pass.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::unused_self, clippy::used_underscore_binding)]

use dspark_desktop::{Awake, Choice, Desktop, Event, Note, Program, Wish, of_this_system};
use std::{
    collections::HashMap,
    io::Read as _,
    os::fd::OwnedFd,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};
use zbus::{
    blocking::{Connection, connection::Builder},
    interface,
    object_server::SignalEmitter,
    zvariant::{self, OwnedObjectPath, OwnedValue, Value},
};

const INSIDE: &str = "DSPARK_DESKTOP_TEST_BUS";

/// Runs the test of this name again on a private bus, which is the session's and the system's. True inside of it.
fn on_a_bus(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let have = Command::new("dbus-run-session")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok();
    if !have {
        eprintln!("SKIPPED: dbus-run-session is not installed (apt-get install dbus)");
        return false;
    }
    let status = Command::new("dbus-run-session")
        .args([
            "--",
            "sh",
            "-c",
            "DBUS_SYSTEM_BUS_ADDRESS=$DBUS_SESSION_BUS_ADDRESS exec \"$@\"",
            "sh",
        ])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success());
    false
}

struct Ear {
    desktop: Arc<dyn Desktop>,
    heard: mpsc::Receiver<Event>,
}

fn listen() -> Ear {
    let desktop = of_this_system(Program::default());
    let (say, heard) = mpsc::channel();
    desktop.listen(Arc::new(move |event| {
        let _ = say.send(event);
    }));
    Ear { desktop, heard }
}

impl Ear {
    fn hear(&self) -> Event {
        self.heard
            .recv_timeout(Duration::from_secs(20))
            .expect("the desktop says something")
    }

    fn choose(&self, wish: Wish) -> Choice {
        let (say, heard) = mpsc::channel();
        self.desktop.choose(wish, Box::new(move |choice| say.send(choice).unwrap()));
        heard.recv_timeout(Duration::from_secs(20)).expect("the dialog ends")
    }
}

fn serve<I: zbus::object_server::Interface>(name: &'static str, path: &'static str, service: I) -> Connection {
    Builder::session()
        .unwrap()
        .name(name)
        .unwrap()
        .serve_at(path, service)
        .unwrap()
        .build()
        .unwrap()
}

type Calls = Arc<Mutex<Vec<String>>>;

/// As KDE's and Xfce's power managers are.
struct PowerManager(Calls);

#[interface(name = "org.freedesktop.PowerManagement.Inhibit")]
impl PowerManager {
    fn inhibit(&self, application: &str, reason: &str) -> u32 {
        self.0.lock().unwrap().push(format!("inhibit {application}: {reason}"));
        41
    }

    #[zbus(name = "UnInhibit")]
    fn un_inhibit(&self, cookie: u32) {
        self.0.lock().unwrap().push(format!("release {cookie}"));
    }
}

/// As GNOME's session manager is.
struct SessionManager(Calls);

#[interface(name = "org.gnome.SessionManager")]
impl SessionManager {
    fn inhibit(&self, application: &str, window: u32, reason: &str, what: u32) -> u32 {
        self.0
            .lock()
            .unwrap()
            .push(format!("inhibit {application} {window} {what}: {reason}"));
        7
    }

    fn uninhibit(&self, cookie: u32) {
        self.0.lock().unwrap().push(format!("release {cookie}"));
    }
}

/// logind: the lock holds while the file is open, which is seen at the other end of a pipe.
struct Logind {
    calls: Calls,
    locks: mpsc::Sender<std::io::PipeReader>,
}

#[interface(name = "org.freedesktop.login1.Manager")]
impl Logind {
    fn inhibit(&self, what: &str, who: &str, why: &str, mode: &str) -> zvariant::OwnedFd {
        self.calls.lock().unwrap().push(format!("{what} {who} {mode}: {why}"));
        let (reader, writer) = std::io::pipe().unwrap();
        self.locks.send(reader).unwrap();
        OwnedFd::from(writer).into()
    }
}

#[test]
fn the_machine_stays_awake_for_a_reason_only() {
    if !on_a_bus("the_machine_stays_awake_for_a_reason_only") {
        return;
    }
    let ear = listen();
    // Nobody is there to be asked.
    ear.desktop.stay_awake(Some("a reply is written".into()));
    let Event::Awake(Awake::Refused(words)) = ear.hear() else {
        panic!("a promise of nobody")
    };
    assert!(words.contains("logind"), "{words}");
    ear.desktop.stay_awake(None);
    assert_eq!(ear.hear(), Event::Awake(Awake::Free));

    let (power, login) = (Calls::default(), Calls::default());
    let (sender, locks) = mpsc::channel();
    let manager = serve(
        "org.freedesktop.PowerManagement",
        "/org/freedesktop/PowerManagement/Inhibit",
        PowerManager(power.clone()),
    );
    let logind = Logind {
        calls: login.clone(),
        locks: sender,
    };
    let _logind = serve("org.freedesktop.login1", "/org/freedesktop/login1", logind);
    ear.desktop.stay_awake(Some("a reply is written".into()));
    assert_eq!(ear.hear(), Event::Awake(Awake::Held("the power manager and logind".into())));
    // Another reason needs no second promise.
    ear.desktop.stay_awake(Some("a model downloads".into()));
    assert!(matches!(ear.hear(), Event::Awake(Awake::Held(_))));
    assert_eq!(*power.lock().unwrap(), ["inhibit mlx-dspark: a reply is written"]);
    assert_eq!(*login.lock().unwrap(), ["idle mlx-dspark block: a reply is written"]);
    let mut lock = locks.recv().unwrap();
    assert!(locks.try_recv().is_err());

    ear.desktop.stay_awake(None);
    assert_eq!(ear.hear(), Event::Awake(Awake::Free));
    assert_eq!(power.lock().unwrap().last().unwrap(), "release 41");
    assert_eq!(lock.read(&mut [0]).unwrap(), 0, "logind's file is closed");

    // GNOME's way, where the other has gone.
    manager.release_name("org.freedesktop.PowerManagement").unwrap();
    let session = Calls::default();
    let _session = serve(
        "org.gnome.SessionManager",
        "/org/gnome/SessionManager",
        SessionManager(session.clone()),
    );
    ear.desktop.stay_awake(Some("a reply is written".into()));
    assert_eq!(ear.hear(), Event::Awake(Awake::Held("the session and logind".into())));
    ear.desktop.stay_awake(None);
    assert_eq!(ear.hear(), Event::Awake(Awake::Free));
    assert_eq!(
        *session.lock().unwrap(),
        ["inhibit mlx-dspark 0 4: a reply is written", "release 7"]
    );
}

struct Notifications {
    abilities: Vec<String>,
    shown: mpsc::Sender<(String, String, Vec<String>)>,
}

#[interface(name = "org.freedesktop.Notifications")]
impl Notifications {
    fn get_capabilities(&self) -> Vec<String> {
        self.abilities.clone()
    }

    #[allow(clippy::too_many_arguments)]
    fn notify(
        &self,
        application: &str,
        _replaces: u32,
        _icon: &str,
        title: String,
        body: String,
        actions: Vec<String>,
        hints: HashMap<String, OwnedValue>,
        _expires: i32,
    ) -> u32 {
        assert_eq!(application, "mlx-dspark");
        assert!(hints.contains_key("desktop-entry"));
        self.shown.send((title, body, actions)).unwrap();
        5
    }

    #[zbus(signal)]
    async fn action_invoked(emitter: &SignalEmitter<'_>, id: u32, action: &str) -> zbus::Result<()>;
}

#[test]
fn a_notification_is_shown_and_clicked() {
    if !on_a_bus("a_notification_is_shown_and_clicked") {
        return;
    }
    let ear = listen();
    let note = Note {
        title: "Qwen3-8B is ready".into(),
        body: "2 < 3 & so on".into(),
    };
    ear.desktop.notify(note.clone());
    assert!(matches!(ear.hear(), Event::Noted(Err(words)) if words.contains("Nothing here shows notifications")));

    let (sender, shown) = mpsc::channel();
    let service = Notifications {
        abilities: vec!["body".into(), "body-markup".into(), "actions".into()],
        shown: sender,
    };
    let bus = serve("org.freedesktop.Notifications", "/org/freedesktop/Notifications", service);
    ear.desktop.notify(note);
    assert_eq!(ear.hear(), Event::Noted(Ok(())));
    let (title, body, actions) = shown.recv().unwrap();
    assert_eq!((title.as_str(), body.as_str()), ("Qwen3-8B is ready", "2 &lt; 3 &amp; so on"));
    assert_eq!(actions, ["default", "Open"]);
    let click = |id: u32| {
        let signal = bus.emit_signal(
            None::<&str>,
            "/org/freedesktop/Notifications",
            "org.freedesktop.Notifications",
            "ActionInvoked",
            &(id, "default"),
        );
        signal.unwrap();
    };
    click(99);
    click(5);
    assert_eq!(ear.hear(), Event::Clicked);
    assert!(
        ear.heard.recv_timeout(Duration::from_millis(300)).is_err(),
        "somebody else's was not ours"
    );
}

/// A portal whose person has made up their mind.
struct Portal {
    asked: mpsc::Sender<(String, String, HashMap<String, OwnedValue>)>,
    /// Code and addresses of each answer.
    answers: Mutex<Vec<(u32, Vec<&'static str>)>>,
}

impl Portal {
    async fn ask(
        &self,
        method: &str,
        title: String,
        options: HashMap<String, OwnedValue>,
        header: zbus::message::Header<'_>,
        bus: &zbus::Connection,
    ) -> OwnedObjectPath {
        let token: String = options["handle_token"].try_clone().unwrap().try_into().unwrap();
        let sender = header.sender().unwrap().as_str().trim_start_matches(':').replace('.', "_");
        let path = format!("/org/freedesktop/portal/desktop/request/{sender}/{token}");
        let (code, uris) = self.answers.lock().unwrap().remove(0);
        self.asked.send((method.into(), title, options)).unwrap();
        let results: HashMap<&str, Value<'_>> = if code == 0 {
            HashMap::from([("uris", Value::from(uris))])
        } else {
            HashMap::new()
        };
        // Before the call has been answered: the quickest a person can be. One that is not ours comes first.
        for (path, code) in [("/org/freedesktop/portal/desktop/request/another/one", 1), (path.as_str(), code)] {
            bus.emit_signal(
                header.sender().cloned(),
                path,
                "org.freedesktop.portal.Request",
                "Response",
                &(code, &results),
            )
            .await
            .unwrap();
        }
        OwnedObjectPath::try_from(path).unwrap()
    }
}

#[interface(name = "org.freedesktop.portal.FileChooser")]
impl Portal {
    async fn open_file(
        &self,
        _window: &str,
        title: String,
        options: HashMap<String, OwnedValue>,
        #[zbus(header)] header: zbus::message::Header<'_>,
        #[zbus(connection)] bus: &zbus::Connection,
    ) -> OwnedObjectPath {
        self.ask("open", title, options, header, bus).await
    }

    async fn save_file(
        &self,
        _window: &str,
        title: String,
        options: HashMap<String, OwnedValue>,
        #[zbus(header)] header: zbus::message::Header<'_>,
        #[zbus(connection)] bus: &zbus::Connection,
    ) -> OwnedObjectPath {
        self.ask("save", title, options, header, bus).await
    }
}

#[test]
fn file_dialogs_of_the_portal() {
    if !on_a_bus("file_dialogs_of_the_portal") {
        return;
    }
    let ear = listen();
    let files = Wish::Files {
        title: "Attach files".into(),
        endings: Vec::new(),
    };
    assert!(matches!(ear.choose(files.clone()), Choice::Unavailable(words) if words.contains("no file dialog")));

    let (sender, asked) = mpsc::channel();
    let portal = Portal {
        asked: sender,
        answers: Mutex::new(vec![
            (0, vec!["file:///home/a%20b/x.txt", "file:///y.py"]),
            (1, Vec::new()),
            (0, vec!["file:///models"]),
            (0, vec!["file:///home/Chat.md"]),
            (2, Vec::new()),
        ]),
    };
    let _bus = serve("org.freedesktop.portal.Desktop", "/org/freedesktop/portal/desktop", portal);
    let flag = |options: &HashMap<String, OwnedValue>, name: &str| {
        options
            .get(name)
            .is_some_and(|value| bool::try_from(value.try_clone().unwrap()).unwrap())
    };

    assert_eq!(
        ear.choose(files.clone()),
        Choice::Chosen(vec![PathBuf::from("/home/a b/x.txt"), PathBuf::from("/y.py")])
    );
    let (method, title, options) = asked.recv().unwrap();
    assert_eq!((method.as_str(), title.as_str()), ("open", "Attach files"));
    assert!(flag(&options, "multiple") && !flag(&options, "directory"));

    assert_eq!(ear.choose(files.clone()), Choice::Cancelled);
    asked.recv().unwrap();

    let folder = Wish::Folder {
        title: "Add a folder".into(),
    };
    assert_eq!(ear.choose(folder), Choice::Chosen(vec![PathBuf::from("/models")]));
    let (_, _, options) = asked.recv().unwrap();
    assert!(flag(&options, "directory") && !flag(&options, "multiple"));

    let save = Wish::Save {
        title: "Save the chat".into(),
        name: "Chat.md".into(),
    };
    assert_eq!(ear.choose(save), Choice::Chosen(vec![PathBuf::from("/home/Chat.md")]));
    let (method, _, options) = asked.recv().unwrap();
    assert_eq!(method, "save");
    let name: String = options["current_name"].try_clone().unwrap().try_into().unwrap();
    assert_eq!(name, "Chat.md");

    assert!(
        matches!(ear.choose(files), Choice::Unavailable(_)),
        "a dialog that ended by itself was no answer"
    );
}
