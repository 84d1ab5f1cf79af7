//! Models: the queue of downloads, the search, the open row, deletion, and what is remembered.

use super::support::*;
use dspark_protocol::{Memory, Snapshot};
use dspark_window::{
    bridge::{Fit, FitAt, FitLevel, Kind, Leftover, Listed, Part, Trouble},
    settings::DrafterChoice,
    state::{Clock, DownloadMsg, HubMsg, Known, ModelsTab, Preview, Question, ShelfMsg, Then, Used},
};

fn models(state: &mut State, message: ModelsMsg) -> Vec<Effect> {
    update(state, Msg::Models(message))
}

fn offer(id: &str) -> Offer {
    Offer {
        id: id.into(),
        name: id.into(),
        bytes: 100,
        ..Offer::default()
    }
}

fn entry(name: &str) -> ModelEntry {
    ModelEntry {
        name: name.into(),
        path: format!("/models/{name}").into(),
        ..ModelEntry::default()
    }
}

fn sized(level: FitLevel) -> Fit {
    let at = |context, gigabytes: u64| FitAt {
        context,
        level,
        words: String::new(),
        parts: vec![(Part::Weights, 1_000_000_000), (Part::Context, gigabytes * 1_000_000_000)],
    };
    Fit {
        at: at(8192, 1),
        budget: 10_000_000_000,
        longest: 24_576,
        stops: vec![at(8192, 1), at(16_384, 2), at(24_576, 3), at(32_768, 4)],
        context_unknown: false,
    }
}

fn surveyed(installed: Vec<ModelEntry>, offers: Vec<Offer>) -> Msg {
    Msg::Models(ModelsMsg::Surveyed(Survey {
        installed,
        offers,
        leftovers: vec![Leftover {
            id: "owner/Left".into(),
            bytes: 40,
            total: 100,
        }],
        ..Survey::default()
    }))
}

fn failed(kind: Kind) -> Msg {
    let trouble = Trouble {
        kind,
        words: "why".into(),
        page: String::new(),
    };
    Msg::Models(ModelsMsg::Fetched(Err(FetchError::Failed(trouble))))
}

fn cancelled() -> Msg {
    Msg::Models(ModelsMsg::Fetched(Err(FetchError::Cancelled)))
}

fn names(offers: &[Offer]) -> Vec<&str> {
    offers.iter().map(|offer| offer.id.as_str()).collect()
}

#[test]
fn downloads_take_turns() {
    let mut state = ready();
    assert_eq!(models(&mut state, ModelsMsg::Fetch(offer("a"))), [Effect::Fetch("a".into())]);
    for id in ["b", "c", "b", "a"] {
        assert!(
            models(&mut state, ModelsMsg::Fetch(offer(id))).is_empty(),
            "{id} waits, and only once"
        );
    }
    assert_eq!(names(&state.models.downloads.queue), ["b", "c"]);
    let effects = models(&mut state, ModelsMsg::Fetched(Ok(entry("a"))));
    assert!(effects.contains(&Effect::Fetch("b".into())), "{effects:?}");
    assert_eq!(state.models.downloads.done[0].name, "a");
    update(&mut state, DownloadMsg::Drop("c".into()).into());
    let effects = models(&mut state, ModelsMsg::Fetched(Ok(entry("b"))));
    assert!(state.models.fetching.is_none() && !effects.iter().any(|effect| matches!(effect, Effect::Fetch(_))));
}

#[test]
fn a_paused_download_goes_on_where_it_stopped() {
    let mut state = ready();
    models(&mut state, ModelsMsg::Fetch(offer("a")));
    let at = FetchProgress {
        done: 30,
        total: 100,
        ..FetchProgress::default()
    };
    models(&mut state, ModelsMsg::Fetching(at));
    assert_eq!(update(&mut state, DownloadMsg::Pause.into()), [Effect::CancelFetch]);
    update(&mut state, cancelled());
    let held = &state.models.downloads.held[0];
    assert_eq!((held.progress.done, held.trouble.is_none()), (30, true));
    assert!(state.models.fetching.is_none() && state.models.failure.is_none());
    assert_eq!(
        update(&mut state, DownloadMsg::Resume("a".into()).into()),
        [Effect::Fetch("a".into())]
    );
    assert!(state.models.downloads.held.is_empty());
}

#[test]
fn a_stopped_download_keeps_or_loses_what_has_come() {
    for (then, deletes) in [(Then::Keep, false), (Then::Delete, true)] {
        let mut state = ready();
        models(&mut state, ModelsMsg::Fetch(offer("a")));
        models(&mut state, ModelsMsg::Ask(Question::Stop));
        assert_eq!(update(&mut state, DownloadMsg::Stop(then).into()), [Effect::CancelFetch]);
        assert!(state.models.question.is_none());
        let effects = update(&mut state, cancelled());
        assert_eq!(effects.contains(&Effect::Discard("a".into())), deletes);
        assert!(state.models.downloads.held.is_empty());
    }
}

#[test]
fn what_would_stop_the_next_one_too_stops_the_queue() {
    for (kind, goes_on) in [
        (Kind::NoSpace, false),
        (Kind::Offline, false),
        (Kind::Gated, true),
        (Kind::Missing, true),
    ] {
        let mut state = ready();
        models(&mut state, ModelsMsg::Fetch(offer("a")));
        models(&mut state, ModelsMsg::Fetch(offer("b")));
        let effects = update(&mut state, failed(kind));
        assert_eq!(effects.contains(&Effect::Fetch("b".into())), goes_on, "{kind:?}");
        let held: Vec<(&str, bool)> = state
            .models
            .downloads
            .held
            .iter()
            .map(|held| (held.offer.id.as_str(), held.trouble.is_some()))
            .collect();
        assert_eq!(held[0], ("a", true));
        assert_eq!(held.get(1), (!goes_on).then_some(&("b", false)), "nothing that waited is lost");
    }
}

#[test]
fn what_is_left_of_earlier_downloads_goes_on_or_goes() {
    let mut state = ready();
    update(&mut state, surveyed(Vec::new(), Vec::new()));
    let effects = update(&mut state, DownloadMsg::Resume("owner/Left".into()).into());
    assert_eq!(effects, [Effect::Fetch("owner/Left".into())]);
    assert_eq!(state.models.fetching.as_ref().unwrap().name, "Left");
    let effects = update(&mut state, DownloadMsg::Discard("owner/Left".into()).into());
    assert_eq!(effects, [Effect::Discard("owner/Left".into())]);
}

#[test]
fn the_hub_is_searched_and_answers_to_old_questions_are_dropped() {
    let mut state = ready();
    let ask = |state: &mut State, text: &str| {
        update(state, HubMsg::Query(text.into()).into());
        update(state, HubMsg::Go.into())
    };
    assert!(ask(&mut state, "  ").is_empty());
    assert_eq!(ask(&mut state, " qwen "), [Effect::SearchHub("qwen".into())]);
    assert_eq!(ask(&mut state, "llama"), [Effect::SearchHub("llama".into())]);
    let found = |asked: &str, found| {
        HubMsg::Found {
            asked: asked.into(),
            found,
        }
        .into()
    };
    update(&mut state, found("qwen", Ok(Vec::new())));
    assert!(state.models.hub.busy, "that was another question");
    let cannot = Listed {
        problem: Some("GGUF".into()),
        ..Listed::default()
    };
    update(&mut state, found("llama", Ok(vec![cannot])));
    assert!(
        !state.models.hub.busy && state.models.hub.all,
        "nothing runs: the reasons are shown at once"
    );
    ask(&mut state, "slow");
    assert_eq!(update(&mut state, HubMsg::Cancel.into()), [Effect::CancelSearch]);
    assert!(state.models.hub.cancelled);
    update(&mut state, found("slow", Err(FetchError::Cancelled)));
    assert!(state.models.hub.found.is_none());
    ask(&mut state, "busy");
    update(&mut state, found("busy", Err(FetchError::Failed("wait".into()))));
    assert!(matches!(&state.models.hub.found, Some(Err(trouble)) if trouble.words == "wait"));
}

#[test]
fn a_path_in_the_search_is_a_folder() {
    let mut state = ready();
    update(&mut state, HubMsg::Query("/models/x".into()).into());
    assert_eq!(update(&mut state, HubMsg::Go.into()), [Effect::Inspect("/models/x".into())]);
}

#[test]
fn an_offer_that_is_opened_is_asked_for_its_exact_sizes_once() {
    let mut state = ready();
    update(&mut state, surveyed(vec![entry("here")], vec![offer("owner/a")]));
    let here = models(&mut state, ModelsMsg::Open("/models/here".into()));
    assert_eq!(here, [Effect::ReadMachine], "it is here: nobody is asked");
    let open = |state: &mut State| models(state, ModelsMsg::Open("owner/a".into()));
    assert_eq!(open(&mut state), [Effect::PreviewModel("owner/a".into()), Effect::ReadMachine]);
    assert!(
        open(&mut state).is_empty() && state.models.open.is_none(),
        "a second click closes it"
    );
    let listed = Listed {
        offer: Offer {
            bytes: 123,
            ..offer("owner/a")
        },
        ..Listed::default()
    };
    let answer = HubMsg::Previewed {
        id: "owner/a".into(),
        found: Ok(Box::new(listed)),
    };
    update(&mut state, answer.into());
    assert_eq!(open(&mut state), [Effect::ReadMachine], "it is known");
    assert_eq!(state.models.known(&offer("owner/a")).bytes, 123);
    let answer = HubMsg::Previewed {
        id: "owner/b".into(),
        found: Err(FetchError::Failed("offline".into())),
    };
    update(&mut state, answer.into());
    assert!(matches!(state.models.hub.previews["owner/b"], Preview::Failed(_)));
    let again = update(&mut state, HubMsg::Preview("owner/b".into()).into());
    assert_eq!(again, [Effect::PreviewModel("owner/b".into())]);
}

/// The slider and the sheet are of one load; the settings stay as they are.
#[test]
fn options_of_a_row_are_those_of_its_load_alone() {
    let mut state = ready();
    let model = ModelEntry {
        fit: sized(FitLevel::Well),
        ..entry("big")
    };
    update(&mut state, surveyed(vec![model.clone()], Vec::new()));
    models(&mut state, ModelsMsg::Open("/models/big".into()));
    models(&mut state, ModelsMsg::Context(16_384));
    assert_eq!(state.models.open.as_ref().unwrap().context, Some(16_384));
    let mut decoding = Box::new(state.settings.decoding.clone());
    decoding.mode = Mode::Lookup;
    decoding.drafter = DrafterChoice::Off;
    decoding.context_window = Some(16_384);
    let effects = models(&mut state, ModelsMsg::LoadWith { entry: model, decoding });
    let Some(Effect::Load { request, drafter }) = effects.first() else {
        panic!("{effects:?}")
    };
    assert_eq!((request.context_window, request.mode), (Some(16_384), Mode::Lookup));
    assert_eq!(*drafter, DrafterChoice::Off);
    assert_eq!(state.settings.decoding, Settings::default().decoding);
}

#[test]
fn stops_of_the_slider() {
    let fit = sized(FitLevel::Well);
    assert_eq!(
        (fit.near(20_000).context, fit.near(8192).context, fit.near(1).context),
        (16_384, 8192, 8192)
    );
    assert_eq!((fit.most(), fit.limit()), (Some(32_768), Some(24_576)));
    assert_eq!(fit.near(24_576).total(), 4_000_000_000);
    assert_eq!(Fit::default().limit(), None);
}

#[test]
fn a_model_that_is_too_big_is_loaded_only_on_purpose() {
    let mut state = ready();
    let big = ModelEntry {
        fit: sized(FitLevel::TooBig),
        ..entry("huge")
    };
    assert!(models(&mut state, ModelsMsg::Load(big.clone())).is_empty());
    assert!(matches!(state.models.question, Some(Question::Load(..))) && state.models.loading.is_none());
    models(&mut state, ModelsMsg::Dismiss);
    assert!(state.models.question.is_none());
    let effects = models(
        &mut state,
        ModelsMsg::LoadAnyway {
            entry: big,
            decoding: None,
        },
    );
    assert!(matches!(effects.first(), Some(Effect::Load { .. })));
}

#[test]
fn deletion_asks_and_spares_the_loaded_model() {
    let mut state = ready();
    update(&mut state, surveyed(vec![entry("starter"), entry("old")], Vec::new()));
    update(&mut state, ShelfMsg::AskDelete(Box::new(entry("old"))).into());
    assert!(matches!(&state.models.question, Some(Question::Delete(entry)) if entry.name == "old"));
    let effects = update(&mut state, ShelfMsg::Delete("/models/old".into()).into());
    let removes = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Remove { .. }));
    assert!(removes(&effects) && state.models.question.is_none());
    assert!(
        !removes(&update(&mut state, ShelfMsg::Delete("/models/starter".into()).into())),
        "it is loaded"
    );
    let done = ShelfMsg::Deleted {
        name: "old".into(),
        result: Ok(5),
    };
    assert!(matches!(update(&mut state, done.into())[..], [Effect::Survey { .. }]));
}

#[test]
fn a_check_of_files_ends_in_a_word_about_them() {
    let mut state = ready();
    update(&mut state, surveyed(vec![entry("old")], Vec::new()));
    let path = PathBuf::from("/models/old");
    assert_eq!(
        update(&mut state, ShelfMsg::Verify(path.clone()).into()),
        [Effect::Verify(path.clone())]
    );
    assert!(
        update(&mut state, ShelfMsg::Verify(path.clone()).into()).is_empty(),
        "one at a time"
    );
    assert_eq!(update(&mut state, ShelfMsg::CancelVerify.into()), [Effect::CancelVerify]);
    let ended = |result| {
        ShelfMsg::Verified {
            path: "/models/old".into(),
            result,
        }
        .into()
    };
    update(&mut state, ended(Err(FetchError::Cancelled)));
    assert!(state.models.shelf.checking.is_none() && state.models.shelf.checked.is_empty());
    update(&mut state, ShelfMsg::Verify(path.clone()).into());
    update(&mut state, ended(Err(FetchError::Failed("`a` is damaged".into()))));
    assert_eq!(state.models.shelf.checked[&path], Err("`a` is damaged".into()));
    update(&mut state, ShelfMsg::Verify(path.clone()).into());
    update(&mut state, ended(Ok(())));
    assert_eq!(state.models.shelf.checked[&path], Ok(()));
}

/// When a model was loaded and how fast it was outlive the program.
#[test]
fn what_a_model_did_here_is_remembered() {
    let mut state = ready();
    let used = Used {
        at: 5,
        rate: Some(1.0),
        times: None,
    };
    let known = Known([(PathBuf::from("/models/other"), used)].into());
    update(&mut state, ShelfMsg::Known(known).into());
    let effects = models(&mut state, ModelsMsg::LoadEvent(LoadEvent::Ready(info("starter"))));
    let saved = effects.iter().find_map(|effect| match effect {
        Effect::SaveKnown(known) => Some(known.clone()),
        _ => None,
    });
    let saved = saved.expect("it is saved").0;
    assert!(saved[&PathBuf::from("/models/starter")].at > 1_700_000_000);
    assert_eq!(saved[&PathBuf::from("/models/other")].rate, Some(1.0));
    let id = turn(&mut state, "question", "answer");
    assert!(id > 0);
    let short = state.models.shelf.known.0[&PathBuf::from("/models/starter")];
    assert_eq!(short.rate, None, "a reply of a few tokens has no rate worth keeping");
}

#[test]
fn room_counts_what_the_loaded_model_would_give_back() {
    let mut state = ready();
    assert_eq!(state.room_now(), None);
    let reading = dspark_window::bridge::Reading {
        available: 70,
        total: 100,
        ..dspark_window::bridge::Reading::default()
    };
    update(&mut state, dspark_window::state::MachineMsg::Read(reading).into());
    let mut shot = (*state.engine).clone();
    shot.memory.active = 20;
    update(&mut state, Msg::Snapshot(Arc::new(shot)));
    assert_eq!(state.room_now(), Some(90));
}

/// What MLX holds right after a load, not what comes beside it later.
#[test]
fn memory_is_measured_once_after_a_load() {
    let mut state = State::new(Settings::default(), "/data".into(), (1, 1), Clock::now());
    let shot = |active, model: Option<&str>| {
        Msg::Snapshot(Arc::new(Snapshot {
            state: EngineState::Ready,
            model: model.map(info),
            memory: Memory {
                active,
                ..Memory::default()
            },
            ..Snapshot::default()
        }))
    };
    let held = |state: &State| state.models.shelf.resident.as_ref().map(|known| known.bytes);
    update(&mut state, shot(100, None));
    assert_eq!(held(&state), None);
    update(&mut state, shot(1000, Some("starter")));
    update(&mut state, shot(5000, Some("starter")));
    assert_eq!(held(&state), Some(1000));
    update(&mut state, shot(0, None));
    update(&mut state, shot(2000, Some("other")));
    assert_eq!(held(&state), Some(2000));
}

#[test]
fn another_part_of_the_screen_closes_the_open_row() {
    let mut state = ready();
    update(&mut state, surveyed(vec![entry("old")], Vec::new()));
    models(&mut state, ModelsMsg::Open("/models/old".into()));
    models(&mut state, ModelsMsg::Tab(ModelsTab::Recommended));
    assert!(state.models.open.is_some(), "it is that part already");
    models(&mut state, ModelsMsg::Tab(ModelsTab::Here));
    assert!(state.models.open.is_none());
}

/// The hub is asked only when a person asks; the newer revision comes by a download of its own.
#[test]
fn a_newer_revision_is_got_on_request() {
    use dspark_window::{
        bridge::Listed,
        state::{HubMsg, Preview},
    };
    let mut state = ready();
    let id = "owner/Model-8bit".to_owned();
    assert_eq!(
        update(&mut state, HubMsg::Preview(id.clone()).into()),
        [Effect::PreviewModel(id.clone())]
    );
    let offer = Offer {
        id: id.clone(),
        name: "Model-8bit".into(),
        newer: true,
        ..Offer::default()
    };
    let found = Listed {
        offer: offer.clone(),
        ..Listed::default()
    };
    update(
        &mut state,
        HubMsg::Previewed {
            id: id.clone(),
            found: Ok(Box::new(found)),
        }
        .into(),
    );
    let effects = update(&mut state, Msg::Models(ModelsMsg::Fetch(offer)));
    assert!(effects.contains(&Effect::Update(id.clone())) && !effects.iter().any(|effect| matches!(effect, Effect::Fetch(_))));
    let entry = ModelEntry {
        name: id.clone(),
        ..ModelEntry::default()
    };
    update(&mut state, Msg::Models(ModelsMsg::Fetched(Ok(entry))));
    assert!(
        !matches!(state.models.hub.previews.get(&id), Some(Preview::Known(_))),
        "what was said is no longer so"
    );
}

/// A gated download leads to the field for the token; with one kept it goes on from the note.
#[test]
fn a_gated_download_leads_to_the_token_and_goes_on_with_it() {
    use dspark_window::{
        bridge::{Kind, TokenFrom, TokenState, Trouble},
        state::{Focus, Secret, SettingsPage, TokenAsk, TokenMsg},
    };
    let mut state = ready();
    let offer = Offer {
        id: "owner/Gated".into(),
        name: "Gated".into(),
        ..Offer::default()
    };
    update(&mut state, Msg::Models(ModelsMsg::Fetch(offer)));
    let trouble = Trouble {
        kind: Kind::Gated,
        words: "`owner/Gated` is gated".into(),
        page: "https://hub.example/owner/Gated".into(),
    };
    update(&mut state, Msg::Models(ModelsMsg::Fetched(Err(FetchError::Failed(trouble)))));
    let effects = update(&mut state, TokenMsg::Enter.into());
    assert_eq!((state.screen, state.settings_page), (Screen::Settings, SettingsPage::Models));
    assert!(effects.contains(&Effect::Focus(Focus::Token)));
    let keep = update(&mut state, TokenMsg::Keep(Secret::new("hf_secret".into())).into());
    assert!(matches!(&keep[..], [Effect::Token(TokenAsk::Keep(secret))] if secret.expose() == "hf_secret"));
    assert!(!format!("{keep:?}").contains("hf_secret"), "it is not printed");
    let refused = TokenMsg::Changed {
        kept: true,
        result: Err("that is no access token".into()),
    };
    update(&mut state, refused.into());
    assert_eq!(state.toasts.latest().unwrap().title, "The access token was not kept");
    let kept = TokenState {
        from: Some(TokenFrom::Kept),
        kept: true,
        file: "/c/hub-token".into(),
    };
    let changed = TokenMsg::Changed {
        kept: true,
        result: Ok(kept),
    };
    update(&mut state, changed.into());
    let toast = state.toasts.latest().unwrap().id;
    let effects = update(&mut state, Msg::ToastAction(toast));
    assert!(effects.contains(&Effect::Fetch("owner/Gated".into())), "{effects:?}");
}

/// A cap is told to what downloads, when it changes.
#[test]
fn a_cap_on_downloads_holds_at_once() {
    let mut state = ready();
    let mut settings = state.settings.clone();
    settings.models.download_limit = 5;
    let effects = update(&mut state, Msg::Settings(SettingsMsg::Changed(Box::new(settings))));
    assert!(effects.contains(&Effect::LimitDownloads(5_000_000)));
}
