//! macOS: a launch agent, an activity of `NSProcessInfo`, `UserNotifications`, and AppKit's panels. Type-checked only: it has
//! never run on a Mac.

use crate::{Answer, Awake, Choice, Desktop, Event, Listener, Login, Note, Program, Wish, login::agent::LaunchAgent, thread};
use block2::RcBlock;
use objc2::{
    rc::Retained,
    runtime::{Bool, NSObjectProtocol, ProtocolObject},
};
use objc2_foundation::{NSActivityOptions, NSBundle, NSError, NSProcessInfo, NSString};
use objc2_user_notifications::{UNAuthorizationOptions, UNMutableNotificationContent, UNNotificationRequest, UNUserNotificationCenter};
use std::{
    path::PathBuf,
    pin::pin,
    sync::{Arc, Mutex, PoisonError, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
};

enum Command {
    Awake(Option<String>),
    Note(Note),
}

type Voice = Arc<Mutex<Option<Listener>>>;

fn say(voice: &Voice, event: Event) {
    let listener = voice.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(listener) = listener {
        listener(event);
    }
}

pub(crate) struct Mac {
    agent: Option<LaunchAgent>,
    voice: Voice,
    commands: mpsc::Sender<Command>,
}

impl Mac {
    pub(crate) fn new(program: Program) -> Self {
        let voice = Voice::default();
        let (commands, asked) = mpsc::channel();
        let speaker = voice.clone();
        // The activity is an object that only the thread that began it needs to know.
        thread("desktop", move || {
            let mut activity = Activity(None);
            let mut number = 0_u64;
            while let Ok(command) = asked.recv() {
                match command {
                    Command::Awake(why) => say(&speaker, Event::Awake(activity.hold(why.as_deref()))),
                    Command::Note(note) => {
                        number += 1;
                        show(&note, number, &speaker);
                    }
                }
            }
        });
        Self {
            agent: std::env::home_dir().map(|home| LaunchAgent::new(&home, program)),
            voice,
            commands,
        }
    }

    fn ask(&self, command: Command) {
        if self.commands.send(command).is_err() {
            tracing::error!("the thread `desktop` has ended early");
        }
    }
}

impl Desktop for Mac {
    fn listen(&self, listener: Listener) {
        *self.voice.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    fn login(&self) -> Login {
        match &self.agent {
            Some(agent) => agent.read(),
            None => Login::Unavailable("No home folder is known to keep a launch agent in.".into()),
        }
    }

    fn set_login(&self, on: bool) -> Result<Login, String> {
        match &self.agent {
            Some(agent) => agent.set(on),
            None => Err("No home folder is known to keep a launch agent in.".into()),
        }
    }

    fn stay_awake(&self, why: Option<String>) {
        self.ask(Command::Awake(why));
    }

    fn notify(&self, note: Note) {
        self.ask(Command::Note(note));
    }

    fn choose(&self, wish: Wish, answer: Answer) {
        let panel = rfd::AsyncFileDialog::new();
        // Made here, on the main thread; waited for on another.
        match wish {
            Wish::Files { title, endings } => {
                let mut panel = panel.set_title(title.clone());
                if !endings.is_empty() {
                    panel = panel.add_filter(title, &endings);
                }
                let chosen = panel.pick_files();
                thread("file dialog", move || {
                    let files = block_on(chosen).unwrap_or_default();
                    answer(choice(files.iter().map(|file| file.path().to_path_buf()).collect()));
                });
            }
            Wish::Folder { title } => {
                let chosen = panel.set_title(title).pick_folder();
                thread("file dialog", move || {
                    answer(choice(block_on(chosen).iter().map(|file| file.path().to_path_buf()).collect()))
                });
            }
            Wish::Save { title, name } => {
                let chosen = panel.set_title(title).set_file_name(name).save_file();
                thread("file dialog", move || {
                    answer(choice(block_on(chosen).iter().map(|file| file.path().to_path_buf()).collect()))
                });
            }
        }
    }
}

fn choice(paths: Vec<PathBuf>) -> Choice {
    if paths.is_empty() {
        Choice::Cancelled
    } else {
        Choice::Chosen(paths)
    }
}

/// Waits for a future that another thread wakes.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// An activity that a person began: no sleep while idle, and no App Nap, which would starve a server behind a hidden
/// window. AppKit makes the `IOPMAssertion` for it, so `pmset -g assertions` shows it with its reason.
struct Activity(Option<Retained<ProtocolObject<dyn NSObjectProtocol>>>);

impl Activity {
    fn hold(&mut self, why: Option<&str>) -> Awake {
        let info = NSProcessInfo::processInfo();
        match why {
            Some(why) => {
                self.0.get_or_insert_with(|| {
                    info.beginActivityWithOptions_reason(NSActivityOptions::UserInitiated, &NSString::from_str(why))
                });
                Awake::Held("macOS".into())
            }
            None => {
                if let Some(activity) = self.0.take() {
                    // SAFETY: the object is the one that `beginActivityWithOptions:reason:` gave, and it is ended once.
                    #[allow(unsafe_code)]
                    unsafe {
                        info.endActivity(&activity);
                    }
                }
                Awake::Free
            }
        }
    }
}

/// Asks for permission, which macOS remembers after the first time, and shows it.
fn show(note: &Note, number: u64, voice: &Voice) {
    // Without a bundle the notification centre raises an exception.
    if NSBundle::mainBundle().bundleIdentifier().is_none() {
        let words = "macOS shows notifications of apps only, and this program was started outside of its app bundle.";
        return say(voice, Event::Noted(Err(words.into())));
    }
    let (note, voice) = (note.clone(), voice.clone());
    let asked = RcBlock::new(move |granted: Bool, error: *mut NSError| {
        if !granted.as_bool() {
            let words = described(error).unwrap_or_else(|| "Notifications are switched off for this app in System Settings.".into());
            return say(&voice, Event::Noted(Err(words)));
        }
        let content = UNMutableNotificationContent::new();
        content.setTitle(&NSString::from_str(&note.title));
        content.setBody(&NSString::from_str(&note.body));
        let name = NSString::from_str(&format!("mlx-dspark-{number}"));
        let request = UNNotificationRequest::requestWithIdentifier_content_trigger(&name, &content, None);
        let voice = voice.clone();
        let taken = RcBlock::new(move |error: *mut NSError| say(&voice, Event::Noted(described(error).map_or(Ok(()), Err))));
        UNUserNotificationCenter::currentNotificationCenter().addNotificationRequest_withCompletionHandler(&request, Some(&taken));
    });
    UNUserNotificationCenter::currentNotificationCenter()
        .requestAuthorizationWithOptions_completionHandler(UNAuthorizationOptions::Alert, &asked);
}

/// The words of an error that a completion handler was given; `None` where there is none.
fn described(error: *mut NSError) -> Option<String> {
    // SAFETY: a completion handler is given null, or an error that lives as long as the call.
    #[allow(unsafe_code)]
    let error = unsafe { error.as_ref() };
    error.map(|error| error.localizedDescription().to_string())
}
