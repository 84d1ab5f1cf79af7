//! Agents: what is looked for and when, one change at a time, and what is said of it.

use super::support::*;
use dspark_agents::{CLIENTS, Plan, Serving, Standing, client};
use dspark_window::{
    bridge::{Activity, CallState, LiveCall},
    state::{AgentsMsg, AgentsView, Looked, Sheet, SheetPage},
};

fn agents(state: &mut State, message: AgentsMsg) -> Vec<Effect> {
    update(state, Msg::Agents(message))
}

fn looks(effects: &[Effect]) -> Vec<Option<Serving>> {
    let look = |effect: &Effect| match effect {
        Effect::LookAtAgents { serving, .. } => Some(serving.clone()),
        _ => None,
    };
    effects.iter().filter_map(look).collect()
}

/// A ready app with the server on, looking at agents.
fn opened() -> State {
    let mut state = ready();
    state.server = ServerState::Starting;
    update(
        &mut state,
        Msg::Settings(SettingsMsg::ServerAnswer(Ok("http://127.0.0.1:8080/".into()))),
    );
    update(&mut state, Msg::Show(Screen::Agents));
    state
}

fn plan(id: &str) -> Plan {
    Plan {
        client: client(id).unwrap(),
        path: format!("/home/me/{id}.json").into(),
        before: None,
        after: "{}\n".into(),
    }
}

fn standing(id: &'static str, setting: dspark_agents::State, plan: Option<Plan>) -> Standing {
    Standing {
        client: client(id).unwrap(),
        found: None,
        file: Some(format!("/home/me/{id}.json").into()),
        state: setting,
        edited: false,
        reasons: Vec::new(),
        conflict: None,
        undo: dspark_agents::Undo::Nothing,
        plan,
    }
}

fn looked(standings: Vec<Standing>) -> AgentsMsg {
    AgentsMsg::Looked(Ok(Box::new(Looked {
        standings,
        project: "/home/me/ledger".into(),
        home: "/home/me".into(),
        complete: true,
    })))
}

#[test]
fn opening_the_screen_looks_for_what_the_server_serves() {
    let mut state = ready();
    state.server = ServerState::On("http://127.0.0.1:9000/".into());
    let effects = update(&mut state, Msg::Show(Screen::Agents));
    let serving = looks(&effects).remove(0).unwrap();
    assert_eq!(
        (
            serving.base_url.as_str(),
            serving.model.as_str(),
            serving.context_window,
            serving.key
        ),
        ("http://127.0.0.1:9000", "starter", 8192, None)
    );
    assert!(state.agents.looking);
    agents(&mut state, looked(Vec::new()));
    assert!(!state.agents.looking && state.agents.standings.is_some());
    assert_eq!(looks(&update(&mut state, Msg::Show(Screen::Chat))).len(), 0);
}

#[test]
fn another_model_port_or_key_is_looked_for_anew_and_nothing_else_is() {
    let mut state = opened();
    agents(&mut state, looked(Vec::new()));
    assert!(looks(&update(&mut state, snapshot(EngineState::Ready, Some("starter")))).is_empty());
    let other = looks(&update(&mut state, snapshot(EngineState::Ready, Some("other"))));
    assert_eq!(other[0].as_ref().unwrap().model, "other");
    assert_eq!(looks(&update(&mut state, snapshot(EngineState::NoModel, None))), [None]);

    let mut settings = state.settings.clone();
    settings.server.port = 9001;
    settings.server.api_key = "sk-1".into();
    let changed = update(&mut state, Msg::Settings(SettingsMsg::Changed(Box::new(settings))));
    assert!(looks(&changed).is_empty(), "not before the server says where it is");
    update(&mut state, snapshot(EngineState::Ready, Some("starter")));
    let answer = SettingsMsg::ServerAnswer(Ok("http://127.0.0.1:9001".into()));
    let moved = looks(&update(&mut state, Msg::Settings(answer)));
    let serving = moved[0].as_ref().unwrap();
    assert_eq!(
        (serving.base_url.as_str(), serving.key.as_deref()),
        ("http://127.0.0.1:9001", Some("sk-1"))
    );
    // Nobody looks at it: nothing is read.
    update(&mut state, Msg::Show(Screen::Lab));
    assert!(looks(&update(&mut state, snapshot(EngineState::Ready, Some("third")))).is_empty());
}

#[test]
fn a_change_is_shown_made_once_and_said_with_its_undo() {
    let mut state = opened();
    agents(
        &mut state,
        looked(vec![standing("pi", dspark_agents::State::NotSetUp, Some(plan("pi")))]),
    );
    assert!(agents(&mut state, AgentsMsg::Apply).is_empty(), "nothing is shown yet");
    agents(&mut state, AgentsMsg::Change("pi"));
    let effects = agents(&mut state, AgentsMsg::Apply);
    assert_eq!(effects, [Effect::ApplyAgent(Box::new(plan("pi")))]);
    assert!(state.agents.sheet.as_ref().unwrap().busy);
    assert!(agents(&mut state, AgentsMsg::Apply).is_empty(), "once");
    let path = PathBuf::from("/home/me/pi.json");
    let effects = agents(
        &mut state,
        AgentsMsg::Applied {
            id: "pi",
            result: Ok(path.clone()),
        },
    );
    assert_eq!(looks(&effects).len(), 1, "it is read back from the disk");
    assert_eq!(state.agents.sheet, None);
    let toast = state.toasts.latest().unwrap();
    assert_eq!((toast.title.as_str(), toast.body.as_str()), ("pi is set up", "~/pi.json"));
    let undo = Msg::ToastAction(toast.id);
    assert_eq!(update(&mut state, undo), [Effect::UndoAgent { id: "pi", changed: false }]);
    agents(
        &mut state,
        AgentsMsg::Undone {
            id: "pi",
            result: Ok(path),
        },
    );
    assert_eq!(state.toasts.latest().unwrap().title, "pi is as it was");
}

#[test]
fn what_went_wrong_stays_in_the_sheet_and_can_be_tried_again() {
    let mut state = opened();
    agents(
        &mut state,
        looked(vec![standing("zed", dspark_agents::State::Stale, Some(plan("zed")))]),
    );
    agents(&mut state, AgentsMsg::Change("zed"));
    agents(&mut state, AgentsMsg::Apply);
    let failed = |reason: &str| AgentsMsg::Applied {
        id: "zed",
        result: Err(reason.into()),
    };
    agents(&mut state, failed("it is read-only"));
    let sheet = state.agents.sheet.clone().unwrap();
    assert_eq!((sheet.busy, sheet.error.as_deref()), (false, Some("it is read-only")));
    assert_eq!(agents(&mut state, AgentsMsg::Apply).len(), 1);
    assert_eq!(state.agents.sheet.as_ref().unwrap().error, None);
    // Closed meanwhile: it is said elsewhere.
    agents(&mut state, AgentsMsg::Close);
    agents(&mut state, failed("the disk is full"));
    assert_eq!(state.toasts.latest().unwrap().body, "the disk is full");
    assert_eq!(state.agents.sheet, None);
}

#[test]
fn nothing_is_written_without_a_model_or_where_there_is_nothing_to_change() {
    let mut state = opened();
    let same = Plan {
        before: Some("{}\n".into()),
        ..plan("pi")
    };
    let current = standing("pi", dspark_agents::State::Current, Some(same));
    let bare = standing("crush", dspark_agents::State::SetUp, None);
    agents(&mut state, looked(vec![current, bare]));
    for id in ["pi", "crush", "goose"] {
        agents(&mut state, AgentsMsg::Change(id));
        assert!(agents(&mut state, AgentsMsg::Apply).is_empty(), "{id}");
    }
}

#[test]
fn an_undo_over_the_work_of_others_is_a_choice() {
    let mut state = opened();
    agents(&mut state, looked(Vec::new()));
    let both = Box::new((plan("crush"), plan("crush")));
    let changed = AgentsMsg::Differences {
        id: "crush",
        result: Ok(both.clone()),
    };
    agents(&mut state, changed.clone());
    let shown = Sheet {
        id: "crush",
        page: SheetPage::Changed(both),
        busy: false,
        error: None,
    };
    assert_eq!(state.agents.sheet, Some(shown));
    assert_eq!(
        agents(&mut state, AgentsMsg::UndoAnyway),
        [Effect::UndoAgent {
            id: "crush",
            changed: true
        }]
    );
    assert!(agents(&mut state, AgentsMsg::Keep).is_empty(), "one at a time");
    agents(
        &mut state,
        AgentsMsg::Undone {
            id: "crush",
            result: Ok("/home/me/crush.json".into()),
        },
    );
    assert_eq!(state.agents.sheet, None);
    agents(&mut state, changed);
    assert_eq!(agents(&mut state, AgentsMsg::Keep), [Effect::KeepAgent("crush")]);
    let kept = AgentsMsg::Kept {
        id: "crush",
        result: Ok("/data/agents/crush-1.json".into()),
    };
    assert_eq!(looks(&agents(&mut state, kept)).len(), 1);
    assert!(state.toasts.latest().unwrap().body.contains("/data/agents/crush-1.json"));
}

#[test]
fn the_server_is_turned_on_by_one_message_whatever_keeps_it_off() {
    for server in [ServerState::Off, ServerState::Paused, ServerState::Failed(ServerFailure::default())] {
        let mut state = opened();
        state.settings.server.enabled = server != ServerState::Off;
        state.server = server.clone();
        let effects = update(&mut state, Msg::Settings(SettingsMsg::TogglePause));
        assert!(effects.iter().any(|effect| matches!(effect, Effect::StartServer(_))), "{server:?}");
        assert!(state.settings.server.enabled && state.server == ServerState::Starting);
    }
}

#[test]
fn a_request_is_stopped_once_and_forgotten_when_it_is_gone() {
    let mut state = opened();
    let call = LiveCall {
        id: "req_1".into(),
        generation: 1,
        client: "curl".into(),
        route: "POST /v1/chat/completions".into(),
        state: CallState::Waiting,
        prompt_tokens: 0,
        cached_tokens: 0,
        generated: 0,
        seconds: 0.1,
    };
    let activity = |live: Vec<LiveCall>| {
        AgentsMsg::Activity(Box::new(Activity {
            live,
            ..Activity::default()
        }))
    };
    agents(&mut state, AgentsMsg::View(AgentsView::Connections));
    agents(&mut state, activity(vec![call.clone()]));
    assert_eq!(
        agents(&mut state, AgentsMsg::Stop("req_1".into())),
        [Effect::CancelCall("req_1".into())]
    );
    assert!(agents(&mut state, AgentsMsg::Stop("req_1".into())).is_empty(), "once");
    agents(&mut state, activity(vec![call]));
    assert!(state.agents.stopping.contains("req_1"));
    agents(&mut state, activity(Vec::new()));
    assert!(state.agents.stopping.is_empty());
    agents(&mut state, AgentsMsg::Unfold("req_0".into()));
    assert_eq!(state.agents.open_call.as_deref(), Some("req_0"));
    agents(&mut state, AgentsMsg::Unfold("req_0".into()));
    assert_eq!(state.agents.open_call, None);
}

#[test]
fn a_project_is_looked_at_as_it_is_typed_and_paths_are_short() {
    let mut state = opened();
    agents(&mut state, looked(Vec::new()));
    let effects = agents(&mut state, AgentsMsg::Project("~/work".into()));
    assert!(matches!(&effects[0], Effect::LookAtAgents { project, .. } if project == "~/work"));
    assert_eq!(state.agents.short("/home/me/.codex/x".as_ref()), "~/.codex/x");
    assert_eq!(state.agents.short("/etc/x".as_ref()), "/etc/x");
    agents(&mut state, AgentsMsg::Looked(Err("no home".into())));
    assert_eq!((state.agents.failure.as_deref(), state.agents.looking), (Some("no home"), false));
    assert!(CLIENTS.iter().all(|client| client.page.starts_with("https://")));
}
