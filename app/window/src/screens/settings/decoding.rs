//! How models decode. What is changed here is collected and applied with one reload.

use super::SettingsView;
use crate::{
    screens::lab::words,
    settings::{Decoding, DrafterChoice},
    shell::{picker::expand, text::count},
    state::{DecodingMsg, Msg, State},
};
use dspark_look::{
    Button, Chip, ReloadAnswer, SettingsRow, Slider, TextField, Theme, Tone, Type, reload_bar, segmented, select, settings_group,
};
use dspark_protocol::{Cap, Mode, TreeSetting};
use dspark_strings::t;
use egui::{Rect, Ui, vec2};

/// Drafts of a round that the list offers where no drafter says how many it gives.
const CAPS: usize = 8;
const WINDOWS: [usize; 7] = [2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072];

pub(super) fn show(ui: &mut Ui, state: &State, view: &mut SettingsView, out: &mut Vec<Msg>) {
    let mut edited = state.edited_decoding().clone();
    now(ui, state);
    settings_group(ui, t!(speculation), |ui| speculation(ui, state, &mut edited, &mut view.drafter));
    settings_group(ui, t!(memory_title), |ui| window(ui, state, &mut edited));
    if edited != *state.edited_decoding() {
        out.push(Msg::Decoding(DecodingMsg::Edit(Box::new(edited))));
    }
}

/// The rows about speculation; `typed` is a drafter's path while it is typed.
pub(crate) fn speculation(ui: &mut Ui, state: &State, edited: &mut Decoding, typed: &mut Option<String>) {
    mode(ui, edited);
    drafter(ui, state, edited, typed);
    cap(ui, state, edited);
    tree(ui, edited);
    lookup(ui, edited);
    confidence(ui, edited);
}

/// What runs at this moment, and why.
fn now(ui: &mut Ui, state: &State) {
    let Some(speculation) = state.engine.speculation.as_deref().filter(|_| state.has_model()) else {
        return;
    };
    let plain = speculation.mode == Mode::Baseline;
    let drafter = speculation
        .drafter
        .as_ref()
        .map_or_else(String::new, |drafter| t!(with_drafter, name = drafter.name));
    let name = t!(now_mode, mode = words::mode(speculation.mode), drafter = drafter);
    let detail = match (&speculation.reason, speculation.cap) {
        (Some(reason), _) => reason.clone(),
        (None, 0) if !plain => t!(parked_now).into(),
        (None, cap) if !plain => t!(up_to_cap, cap = cap),
        _ => t!(one_token_step).into(),
    };
    settings_group(ui, t!(in_use_title), |ui| {
        SettingsRow::new(&name).detail(&detail).show(ui, |ui| {
            let (word, tone) = if plain {
                (t!(plain_chip), Tone::Neutral)
            } else if speculation.cap == 0 && speculation.mode != Mode::Lookup {
                (t!(parked_chip), Tone::Warn)
            } else {
                (t!(drafting_chip), Tone::Accent)
            };
            ui.add(Chip::new(word).tone(tone));
        });
    });
}

/// Every mode is offered whatever is loaded: choosing one must never take the others away.
fn mode(ui: &mut Ui, edited: &mut Decoding) {
    SettingsRow::new(t!(mode)).detail(t!(mode_detail)).reload().show(ui, |ui| {
        let choices = [Mode::Auto, Mode::Dspark, Mode::Dflash, Mode::Lookup, Mode::Baseline].map(|mode| (mode, words::mode(mode)));
        select(ui, t!(mode), &mut edited.mode, &choices, 150.0);
    });
}

fn drafter(ui: &mut Ui, state: &State, edited: &mut Decoding, typed: &mut Option<String>) {
    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        Auto,
        Off,
        Path,
    }
    let loaded = state.engine.speculation.as_ref().and_then(|state| state.drafter.as_ref());
    let detail = match (&edited.drafter, loaded) {
        (DrafterChoice::Auto, Some(drafter)) => t!(drafter_known, name = drafter.name),
        (DrafterChoice::Auto, None) => t!(drafter_auto).into(),
        (DrafterChoice::Off, _) => t!(drafter_off).into(),
        (DrafterChoice::Path(path), _) => t!(drafter_path, path = path.display()),
    };
    SettingsRow::new(t!(drafter)).detail(&detail).reload().show(ui, |ui| {
        let mut kind = match (&edited.drafter, &*typed) {
            (_, Some(_)) | (DrafterChoice::Path(_), None) => Kind::Path,
            (DrafterChoice::Auto, None) => Kind::Auto,
            (DrafterChoice::Off, None) => Kind::Off,
        };
        let choices = [(Kind::Auto, t!(auto)), (Kind::Off, t!(drafter_none)), (Kind::Path, t!(folder))];
        if segmented(ui, &mut kind, &choices).changed() {
            *typed = None;
            match kind {
                Kind::Auto => edited.drafter = DrafterChoice::Auto,
                Kind::Off => edited.drafter = DrafterChoice::Off,
                Kind::Path => *typed = Some(String::new()),
            }
        }
    });
    if let Some(mut text) = typed.clone().or_else(|| match &edited.drafter {
        DrafterChoice::Path(path) => Some(path.display().to_string()),
        _ => None,
    }) {
        SettingsRow::new(t!(drafter_folder)).show(ui, |ui| {
            let ready = !text.trim().is_empty();
            let set = ui
                .add(Button::secondary(t!(use_it)).small().enabled(ready).label(t!(use_drafter)))
                .clicked();
            let field = TextField::new(&mut text, t!(drafter_folder))
                .hint(t!(drafter_folder_hint))
                .width(320.0)
                .mono();
            let response = ui.add(field);
            if response.changed() {
                *typed = Some(text.clone());
            }
            let entered = response.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
            if (set || entered) && ready {
                edited.drafter = DrafterChoice::Path(expand(text.trim()));
                *typed = None;
            }
        });
    }
}

fn cap(ui: &mut Ui, state: &State, edited: &mut Decoding) {
    let loaded = state.engine.speculation.as_ref().and_then(|state| state.drafter.as_ref());
    let mut most = loaded.map_or(CAPS, |drafter| drafter.max_draft);
    if let Cap::Fixed(cap) = edited.cap {
        most = most.max(cap);
    }
    SettingsRow::new(t!(draft_cap))
        .detail(t!(draft_cap_detail))
        .reload()
        .show(ui, |ui| {
            let numbers: Vec<String> = (1..=most).map(|cap| cap.to_string()).collect();
            let mut choices = vec![(Cap::Auto, t!(auto)), (Cap::Derived, t!(derived)), (Cap::Full, t!(full_block))];
            choices.extend(numbers.iter().enumerate().map(|(at, text)| (Cap::Fixed(at + 1), text.as_str())));
            select(ui, t!(draft_cap), &mut edited.cap, &choices, 150.0);
        });
}

fn tree(ui: &mut Ui, edited: &mut Decoding) {
    SettingsRow::new(t!(side_branches))
        .detail(t!(side_branches_detail))
        .reload()
        .show(ui, |ui| {
            let mut choices = vec![
                (TreeSetting::Auto, t!(auto)),
                (TreeSetting::On, t!(on)),
                (TreeSetting::Off, t!(off)),
            ];
            let nodes = [4, 8, 12, 16, 24, 32].map(|nodes| (TreeSetting::Nodes(nodes), t!(count_nodes, nodes = nodes)));
            choices.extend(nodes.iter().map(|(setting, text)| (*setting, text.as_str())));
            select(ui, t!(side_branches), &mut edited.tree, &choices, 150.0);
        });
}

fn lookup(ui: &mut Ui, edited: &mut Decoding) {
    SettingsRow::new(t!(lookup)).detail(t!(lookup_detail)).reload().show(ui, |ui| {
        let choices = [(None, t!(auto)), (Some(true), t!(on)), (Some(false), t!(off))];
        segmented(ui, &mut edited.lookup, &choices);
    });
}

fn confidence(ui: &mut Ui, edited: &mut Decoding) {
    SettingsRow::new(t!(confidence))
        .detail(t!(confidence_detail))
        .reload()
        .show(ui, |ui| {
            let theme = Theme::of(ui);
            let (rect, _) = ui.allocate_exact_size(vec2(34.0, 20.0), egui::Sense::hover());
            let galley = Type::BASE.galley(ui, format!("{:.2}", edited.confidence), theme.t1);
            dspark_look::paint::text_right(ui.painter(), rect, rect.right(), galley, theme.t1);
            let mut exact = (f64::from(edited.confidence) * 20.0).round() / 20.0;
            let before = exact;
            ui.add(
                Slider::new(&mut exact, 0.0..=0.95, t!(confidence))
                    .step(0.05)
                    .width(150.0)
                    .surface(theme.panel),
            );
            if exact != before {
                edited.confidence = exact as f32;
            }
        });
}

fn window(ui: &mut Ui, state: &State, edited: &mut Decoding) {
    let model = state.engine.model.as_deref();
    let most = model.map_or(usize::MAX, |model| model.max_context);
    let per_token = model.map_or(0, |model| model.kv_bytes_per_token);
    let chosen = edited.context_window.or(model.map(|model| model.max_context));
    let detail = match chosen {
        Some(tokens) if per_token > 0 => {
            t!(
                tokens_take_memory,
                tokens = count(tokens),
                size = crate::shell::text::bytes(per_token * tokens as u64)
            )
        }
        _ => t!(tokens_kept).into(),
    };
    SettingsRow::new(t!(context_window)).detail(&detail).reload().show(ui, |ui| {
        let mut sizes: Vec<usize> = WINDOWS.into_iter().filter(|size| *size < most).collect();
        sizes.extend(edited.context_window.filter(|size| !sizes.contains(size)));
        let texts: Vec<String> = sizes.iter().map(|size| t!(tokens_count, count = count(*size))).collect();
        let mut choices = vec![(None, t!(all_of_model))];
        choices.extend(sizes.iter().zip(&texts).map(|(size, text)| (Some(*size), text.as_str())));
        select(ui, t!(context_window), &mut edited.context_window, &choices, 190.0);
    });
}

/// One bar for all changes.
pub(super) fn reload(ui: &Ui, state: &State, over: Rect, out: &mut Vec<Msg>) {
    let Some(edited) = &state.decoding else { return };
    let changes = changes(&state.settings.decoding, edited);
    let words = t!(changes_need_reload, n = changes);
    let seconds = state.engine.model.as_ref().map_or(0.0, |model| model.load_seconds);
    let busy = !state.engine.requests.is_empty();
    let detail = if busy {
        t!(reply_will_be_cut).into()
    } else if seconds >= 1.0 {
        t!(about_seconds, seconds = format!("{seconds:.0}"))
    } else {
        t!(about_a_second).into()
    };
    match reload_bar(ui.ctx(), over, &words, &detail) {
        Some(ReloadAnswer::Reload) => out.push(Msg::Decoding(DecodingMsg::Apply)),
        Some(ReloadAnswer::Discard) => out.push(Msg::Decoding(DecodingMsg::Discard)),
        None => {}
    }
}

fn changes(before: &Decoding, after: &Decoding) -> usize {
    [
        before.mode != after.mode,
        before.cap != after.cap,
        before.tree != after.tree,
        before.confidence != after.confidence,
        before.lookup != after.lookup,
        before.context_window != after.context_window,
        before.drafter != after.drafter,
    ]
    .into_iter()
    .filter(|changed| *changed)
    .count()
}
