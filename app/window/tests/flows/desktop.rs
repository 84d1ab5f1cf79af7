//! The desktop around the window: what it is asked for, and when.

use super::support::*;
use dspark_desktop::{Awake, Choice as Chosen, Event as Said, Login, Note};
use dspark_window::{
    bridge::{Activity, ClientTotals, Kind, Trouble},
    state::{BenchMsg, DesktopAsk, DesktopMsg, FilesMsg, Purpose, RaceMsg, update},
};
use std::time::{SystemTime, UNIX_EPOCH};

fn asked(effects: &[Effect]) -> Vec<DesktopAsk> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Desktop(ask) => Some(ask.clone()),
            _ => None,
        })
        .collect()
}

fn desktop(state: &mut State, message: DesktopMsg) -> Vec<Effect> {
    update(state, message.into())
}

fn offer(name: &str) -> Offer {
    Offer {
        id: format!("owner/{name}"),
        name: name.into(),
        ..Offer::default()
    }
}

fn entry(name: &str) -> ModelEntry {
    ModelEntry {
        name: name.into(),
        path: format!("/m/{name}").into(),
        ..ModelEntry::default()
    }
}

fn models(state: &mut State, message: ModelsMsg) -> Vec<Effect> {
    update(state, Msg::Models(message))
}

#[test]
fn the_machine_is_kept_awake_while_there_is_work() {
    let mut state = ready();
    let (id, effects) = {
        let effects = say(&mut state, "hello");
        (submitted(&effects).0, effects)
    };
    assert_eq!(asked(&effects), [DesktopAsk::Awake(Some("a reply is being written"))]);
    delta(&mut state, id, "Hi");
    // More work: the promise that holds is enough.
    assert!(asked(&models(&mut state, ModelsMsg::Fetch(offer("big")))).is_empty());
    assert!(
        asked(&finish(&mut state, id, FinishReason::Stop { matched: None })).is_empty(),
        "the download goes on"
    );
    let effects = models(&mut state, ModelsMsg::Fetched(Err(FetchError::Cancelled)));
    assert_eq!(asked(&effects), [DesktopAsk::Awake(None)]);
    desktop(&mut state, DesktopMsg::Said(Said::Awake(Awake::Refused("nobody".into()))));
    assert_eq!(state.desktop.awake, Awake::Refused("nobody".into()));
}

#[test]
fn who_wants_the_machine_to_sleep_gets_that() {
    let mut state = ready();
    models(&mut state, ModelsMsg::Fetch(offer("big")));
    let change = |state: &mut State, on: bool| {
        let mut settings = state.settings.clone();
        settings.general.stay_awake = on;
        update(state, Msg::Settings(SettingsMsg::Changed(Box::new(settings))))
    };
    assert_eq!(asked(&change(&mut state, false)), [DesktopAsk::Awake(None)]);
    assert!(asked(&say(&mut state, "hello")).is_empty());
    assert_eq!(
        asked(&change(&mut state, true)),
        [DesktopAsk::Awake(Some("a model is being downloaded"))]
    );
}

/// A download that took this long, ended like this, seen or not.
fn downloaded(seconds: u64, seen: bool, end: Result<ModelEntry, FetchError>) -> Vec<Note> {
    let mut state = ready();
    state.desktop.focused = seen;
    models(&mut state, ModelsMsg::Fetch(offer("big")));
    state.clock.instant += Duration::from_secs(seconds);
    if matches!(end, Err(FetchError::Cancelled)) {
        models(&mut state, ModelsMsg::CancelFetch);
    }
    let effects = models(&mut state, ModelsMsg::Fetched(end));
    asked(&effects)
        .into_iter()
        .filter_map(|ask| match ask {
            DesktopAsk::Note(note) => Some(note),
            _ => None,
        })
        .collect()
}

#[test]
fn a_word_comes_when_long_work_ended_unseen() {
    let notes = downloaded(600, false, Ok(entry("big")));
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0].title, "big is downloaded");
    let trouble = Trouble {
        kind: Kind::Network,
        words: "the connection ended; try again to resume".into(),
        page: String::new(),
    };
    let notes = downloaded(600, false, Err(FetchError::Failed(trouble)));
    assert_eq!(
        (notes[0].title.as_str(), notes[0].body.as_str()),
        ("big was not downloaded", "the connection ended; try again to resume")
    );
    assert!(downloaded(5, false, Ok(entry("big"))).is_empty(), "short work is no news");
    assert!(downloaded(600, true, Ok(entry("big"))).is_empty(), "it was seen");
    assert!(downloaded(600, false, Err(FetchError::Cancelled)).is_empty(), "a person ended it");
}

#[test]
fn a_load_a_race_and_a_benchmark_are_long_work_too() {
    let notes = |effects: Vec<Effect>| {
        let notes = asked(&effects).into_iter().filter_map(|ask| match ask {
            DesktopAsk::Note(note) => Some(note.title),
            _ => None,
        });
        notes.collect::<Vec<_>>()
    };
    let mut state = ready();
    state.window_visible = false;
    state.desktop.focused = true;
    models(&mut state, ModelsMsg::Load(entry("big")));
    state.clock.instant += Duration::from_secs(30);
    let failed = EngineError::Load {
        model: "big".into(),
        reason: "it needs 43 GB".into(),
    };
    assert_eq!(
        notes(models(&mut state, ModelsMsg::LoadEvent(LoadEvent::Failed(failed)))),
        ["big did not load"]
    );
    models(&mut state, ModelsMsg::Load(entry("big")));
    state.clock.instant += Duration::from_secs(30);
    assert_eq!(
        notes(models(&mut state, ModelsMsg::LoadEvent(LoadEvent::Ready(info("big"))))),
        ["big is loaded"]
    );

    update(&mut state, RaceMsg::Start.into());
    state.clock.instant += Duration::from_secs(30);
    assert_eq!(
        notes(update(&mut state, RaceMsg::Ended(Err("it fell over".into())).into())),
        ["The race broke off"]
    );
    update(&mut state, BenchMsg::Start.into());
    state.clock.instant += Duration::from_secs(30);
    let ended = update(&mut state, BenchMsg::Ended(Ok(Box::default())).into());
    assert_eq!(notes(ended), ["The benchmark is over"]);
    state.settings.general.notify = false;
    update(&mut state, BenchMsg::Start.into());
    state.clock.instant += Duration::from_secs(30);
    assert!(notes(update(&mut state, BenchMsg::Cancelled.into())).is_empty());
}

#[test]
fn a_clicked_notification_brings_the_window() {
    let mut state = ready();
    state.window_visible = false;
    assert_eq!(desktop(&mut state, DesktopMsg::Said(Said::Clicked)), [Effect::ShowWindow]);
    desktop(&mut state, DesktopMsg::Said(Said::Noted(Err("nobody shows them".into()))));
    assert_eq!(state.desktop.mute.as_deref(), Some("nobody shows them"));
    desktop(&mut state, DesktopMsg::Said(Said::Noted(Ok(()))));
    assert_eq!(state.desktop.mute, None);
}

#[test]
fn quitting_names_everything_that_would_be_lost() {
    let mut state = ready();
    assert_eq!(update(&mut state, Msg::Quit), [Effect::Quit]);
    say(&mut state, "hello");
    models(&mut state, ModelsMsg::Fetch(offer("big")));
    models(&mut state, ModelsMsg::Fetch(offer("bigger")));
    assert!(update(&mut state, Msg::Quit).is_empty());
    let lost = state.confirm_quit.take().unwrap();
    let lines: Vec<&str> = lost.lines().collect();
    assert_eq!(lines.len(), 3, "{lost}");
    assert!(lines[0].contains("reply") && lines[1].starts_with("big is still downloading") && lines[2].starts_with("bigger waits"));
}

#[test]
fn a_client_in_touch_is_asked_about() {
    let mut state = ready();
    let seen = |ago: u64| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Activity {
            clients: vec![ClientTotals {
                client: "Codex".into(),
                requests: 1,
                failed: 0,
                prompt_tokens: 0,
                cached_tokens: 0,
                completion_tokens: 0,
                last_error: None,
                last_seen: UNIX_EPOCH + now - Duration::from_secs(ago),
            }],
            ..Activity::default()
        }
    };
    state.agents.activity = seen(20);
    assert_eq!(update(&mut state, Msg::Quit), [Effect::Quit], "the server is off");
    state.server = ServerState::On("http://127.0.0.1:8080".into());
    assert!(update(&mut state, Msg::Quit).is_empty());
    assert!(state.confirm_quit.take().unwrap().starts_with("Codex is connected"));
    state.agents.activity = seen(600);
    assert_eq!(update(&mut state, Msg::Quit), [Effect::Quit], "it has long gone");
}

#[test]
fn the_switch_at_login_shows_what_holds() {
    let mut state = ready();
    assert_eq!(asked(&update(&mut state, Msg::Show(Screen::Settings))), [DesktopAsk::LookAtLogin]);
    desktop(&mut state, DesktopMsg::Login(Ok(Login::Off)));
    assert_eq!(
        asked(&desktop(&mut state, DesktopMsg::SetLogin(true))),
        [DesktopAsk::SetLogin(true)]
    );
    assert_eq!(state.desktop.login, Some(Login::Off), "not before it is");
    let effects = desktop(&mut state, DesktopMsg::Login(Err("the folder is read-only".into())));
    assert_eq!(asked(&effects), [DesktopAsk::LookAtLogin]);
    assert_eq!(state.toasts.latest().unwrap().body, "the folder is read-only");
}

#[test]
fn chosen_files_go_the_way_of_dropped_ones() {
    let mut state = ready();
    let effects = desktop(&mut state, DesktopMsg::Choose(Purpose::Attach));
    assert_eq!(asked(&effects), [DesktopAsk::Choose(Purpose::Attach)]);
    assert!(
        desktop(&mut state, DesktopMsg::Choose(Purpose::Attach)).is_empty(),
        "a double click opens one dialog"
    );
    let paths: Vec<PathBuf> = vec!["/a.txt".into(), "/b.py".into()];
    let chosen = |purpose, paths: &[PathBuf]| DesktopMsg::Chosen {
        purpose,
        choice: Chosen::Chosen(paths.to_vec()),
    };
    let effects = desktop(&mut state, chosen(Purpose::Attach, &paths));
    assert_eq!(effects, update(&mut ready(), Msg::Files(FilesMsg::Dropped(paths))));
    desktop(&mut state, chosen(Purpose::ModelFolder, &["/models".into()]));
    assert_eq!(state.settings.models.folders, [PathBuf::from("/models")]);
    let effects = desktop(&mut state, chosen(Purpose::Import, &["/export.json".into()]));
    assert_eq!(effects, update(&mut ready(), Msg::Files(FilesMsg::Import("/export.json".into()))));
}

#[test]
fn without_a_dialog_the_other_way_is_said() {
    let mut state = ready();
    let nothing = |purpose| DesktopMsg::Chosen {
        purpose,
        choice: Chosen::Unavailable("This desktop has no file dialog to lend.".into()),
    };
    desktop(&mut state, nothing(Purpose::ModelFolder));
    let toast = state.toasts.latest().unwrap();
    assert!(
        toast.body.contains("no file dialog") && toast.body.contains("field"),
        "{}",
        toast.body
    );
    assert!(state.desktop.no_dialog.is_some());
    desktop(&mut state, nothing(Purpose::Attach));
    assert!(state.toasts.latest().unwrap().body.contains("Drop files"));
    let before = state.toasts.latest().unwrap().id;
    let cancelled = DesktopMsg::Chosen {
        purpose: Purpose::Attach,
        choice: Chosen::Cancelled,
    };
    assert!(desktop(&mut state, cancelled).is_empty());
    assert_eq!(state.toasts.latest().unwrap().id, before, "thinking better of it is no news");
}
