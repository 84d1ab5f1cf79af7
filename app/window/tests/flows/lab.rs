//! The Lab, the gauge and the settings of decoding: what messages do to the state.

use super::support::*;
use dspark_protocol::{
    Cap, RoundRecord, SpeculationState,
    double::speculation::{Rounds, drafting, parked, record},
};
use dspark_window::{
    settings::{Decoding, DrafterChoice},
    state::{DecodingMsg, ExportAs, LabMsg, Sources, Tint},
};

fn drafting_now(engine: EngineState, speculation: SpeculationState) -> Msg {
    Msg::Snapshot(Arc::new(Snapshot {
        state: engine,
        model: Some(info("starter")),
        speculation: Some(Arc::new(speculation)),
        ..Snapshot::default()
    }))
}

fn asked(id: u64, client: &str) -> Msg {
    let request = ActiveRequest {
        id,
        client: client.into(),
        prompt_tokens: 100,
        generated: 0,
        waiting: false,
    };
    Msg::Snapshot(Arc::new(Snapshot {
        state: EngineState::Ready,
        model: Some(info("starter")),
        requests: vec![request],
        ..Snapshot::default()
    }))
}

fn rounds(first: u64, count: usize, request: u64) -> Vec<RoundRecord> {
    let state = drafting();
    Rounds::new(&state)
        .take(count)
        .enumerate()
        .map(|(index, round)| RoundRecord {
            seq: first + index as u64,
            request,
            index: index as u32,
            ..record(&state, round, round.sources().count())
        })
        .collect()
}

fn lab(state: &mut State, message: LabMsg) -> Vec<Effect> {
    update(state, Msg::Lab(message))
}

#[test]
fn rounds_are_taken_in_once_and_the_oldest_leave() {
    let mut state = ready();
    lab(&mut state, LabMsg::Rounds(rounds(1, 500, 1)));
    lab(&mut state, LabMsg::Rounds(rounds(490, 40, 1)));
    assert_eq!(state.lab.after(), Some(529));
    let seen: Vec<u64> = state.lab.rounds.iter().map(|round| round.seq).collect();
    assert_eq!((seen.len(), seen[0], seen[511]), (512, 18, 529));
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn another_model_begins_with_nothing() {
    let mut state = ready();
    lab(&mut state, LabMsg::Rounds(rounds(1, 20, 1)));
    lab(&mut state, LabMsg::Pause(true));
    lab(&mut state, LabMsg::Forget(Some(25)));
    assert!(state.lab.rounds.is_empty() && state.lab.paused.is_none());
    // Rounds of the old model that come late are not the new one's.
    lab(&mut state, LabMsg::Rounds(rounds(24, 3, 1)));
    assert_eq!(state.lab.rounds.iter().map(|round| round.seq).collect::<Vec<_>>(), [26]);
}

#[test]
fn a_held_picture_stands_still_and_nothing_is_lost() {
    let mut state = ready();
    lab(&mut state, LabMsg::Rounds(rounds(1, 20, 1)));
    lab(&mut state, LabMsg::Pause(true));
    lab(&mut state, LabMsg::Rounds(rounds(21, 5, 1)));
    assert_eq!(state.lab.shown().count(), 20);
    lab(&mut state, LabMsg::Pause(false));
    assert_eq!(state.lab.shown().count(), 25);
}

#[test]
fn rounds_are_shown_and_exported_by_client() {
    let mut state = ready();
    update(&mut state, asked(1, "Chat"));
    update(&mut state, asked(2, "opencode"));
    lab(&mut state, LabMsg::Rounds(rounds(1, 20, 1)));
    lab(&mut state, LabMsg::Rounds(rounds(21, 7, 2)));
    assert_eq!(state.lab.clients(), ["Chat", "opencode"]);
    lab(&mut state, LabMsg::Client(Some("opencode".into())));
    assert_eq!(state.lab.shown().count(), 7);
    let [Effect::SaveFile { name, text }] = &lab(&mut state, LabMsg::Export(ExportAs::Csv))[..] else {
        panic!("a file")
    };
    assert_eq!((name.as_str(), text.lines().count()), ("mlx-dspark-rounds.csv", 8));
    assert!(
        text.starts_with("seq,t_ms,request,index,drafted,accepted,committed,cap,source,ms\n21,"),
        "{text}"
    );
    let [Effect::SaveFile { text, .. }] = &lab(&mut state, LabMsg::Export(ExportAs::Json))[..] else {
        panic!("a file")
    };
    let json: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(json["rounds"].as_array().unwrap().len(), 7);
    assert_eq!(json["stats"]["rounds"], 7);
}

#[test]
fn measuring_loads_anew_and_waits_for_replies() {
    let mut state = ready();
    let effects = lab(&mut state, LabMsg::Measure);
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Load { request, .. } if request.recalibrate && request.name == "starter"))
    );
    let mut state = ready();
    update(&mut state, asked(1, "Chat"));
    assert!(lab(&mut state, LabMsg::Measure).is_empty());
    assert!(state.toasts.latest().unwrap().title.contains("being written"));
}

#[test]
fn the_gauge_says_how_many_times_plain_decoding() {
    let mut state = ready();
    let generating = EngineState::Generating { tokens_per_sec: 54.4 };
    update(&mut state, drafting_now(generating.clone(), drafting()));
    let title = |state: &State| tray_title(&status(state), state.multiple());
    // A plain step takes 36.7 ms there.
    assert_eq!(title(&state), "54 t/s · 2.0×");
    update(&mut state, drafting_now(generating.clone(), parked()));
    assert_eq!(title(&state), "54 t/s · 2.0×", "parked is not hidden either");
    update(&mut state, drafting_now(generating.clone(), SpeculationState::default()));
    assert_eq!(title(&state), "54 t/s", "no measurement, no multiple");
    let mut plain = drafting();
    plain.mode = Mode::Baseline;
    update(&mut state, drafting_now(generating, plain));
    assert_eq!(title(&state), "54 t/s");
    update(&mut state, drafting_now(EngineState::Ready, drafting()));
    assert_eq!(title(&state), "");
}

fn edit(state: &mut State, change: impl FnOnce(&mut Decoding)) -> Vec<Effect> {
    let mut edited = state.edited_decoding().clone();
    change(&mut edited);
    update(state, Msg::Decoding(DecodingMsg::Edit(Box::new(edited))))
}

#[test]
fn decoding_settings_wait_for_one_reload() {
    let mut state = ready();
    assert!(edit(&mut state, |edited| edited.cap = Cap::Fixed(3)).is_empty());
    assert!(edit(&mut state, |edited| edited.lookup = Some(false)).is_empty());
    assert_eq!(state.settings.decoding, Decoding::default(), "nothing is in force yet");
    let effects = update(&mut state, Msg::Decoding(DecodingMsg::Apply));
    let Some(Effect::Load { request, drafter }) = effects.iter().find(|effect| matches!(effect, Effect::Load { .. })) else {
        panic!("a reload: {effects:?}")
    };
    assert_eq!((request.speculation.cap, request.speculation.lookup), (Cap::Fixed(3), Some(false)));
    assert_eq!((request.name.as_str(), drafter), ("starter", &DrafterChoice::Auto));
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::SaveSettings(saved) if saved.decoding.cap == Cap::Fixed(3)))
    );
    assert!(state.decoding.is_none());
}

#[test]
fn discarding_and_undoing_leave_nothing_to_apply() {
    let mut state = ready();
    edit(&mut state, |edited| edited.cap = Cap::Full);
    update(&mut state, Msg::Decoding(DecodingMsg::Discard));
    assert_eq!(state.edited_decoding(), &Decoding::default());
    edit(&mut state, |edited| edited.cap = Cap::Full);
    edit(&mut state, |edited| edited.cap = Cap::default());
    assert!(state.decoding.is_none(), "back where it was");
    assert!(update(&mut state, Msg::Decoding(DecodingMsg::Apply)).is_empty());
}

#[test]
fn without_a_model_decoding_settings_hold_at_once() {
    let mut state = state();
    let effects = edit(&mut state, |edited| edited.mode = Mode::Lookup);
    assert!(matches!(&effects[..], [Effect::SaveSettings(saved)] if saved.decoding.mode == Mode::Lookup));
    assert!(state.decoding.is_none());
}

#[test]
fn a_reply_remembers_where_its_words_came_from() {
    let mut state = ready();
    let (id, _) = submitted(&say(&mut state, "go"));
    let token = |text: &str, source| TokenInfo {
        id: 1,
        text: text.into(),
        bytes: text.into(),
        source,
        logprob: None,
        top: Vec::new(),
    };
    let event = Event::Delta(TextDelta {
        text: "one two three".into(),
        tokens: vec![
            token("one", Source::Target),
            token(" two", Source::Draft),
            token(" three", Source::Corrected),
        ],
    });
    chat(&mut state, ChatMsg::Event { message: id, event });
    assert_eq!(
        state.live().unwrap().sources.tints(0),
        [(3..7, Tint::Draft), (7..13, Tint::Corrected)]
    );
    finish(&mut state, id, FinishReason::Stop { matched: None });
    let stored = &state.chat.tree.get(id).unwrap().meta.sources;
    assert_eq!(Sources::after(stored, 13).tints(0), [(3..7, Tint::Draft), (7..13, Tint::Corrected)]);
}

#[test]
fn a_saved_file_is_told_with_its_place() {
    let mut state = ready();
    update(&mut state, Msg::Saved(Ok("/home/x/Downloads/chat 2.md".into())));
    let toast = state.toasts.latest().unwrap();
    assert_eq!(
        (toast.title.as_str(), toast.body.as_str()),
        ("Saved chat 2.md", "/home/x/Downloads")
    );
    update(&mut state, Msg::Saved(Err("the disk is full".into())));
    assert!(state.toasts.latest().unwrap().body.contains("full"));
}
