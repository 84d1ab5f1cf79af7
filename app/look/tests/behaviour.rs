//! Components found by role and label, and used by mouse and keyboard.

mod support;

use dspark_look::{
    Button, ChatRow, ChatRowAction, Composer, ComposerState, Density, ErrorCard, Icon, IconButton, Look, MenuItem, OptionRow, PillState,
    ScreenRow, SendKey, SettingsRow, Slider, StatusPill, TextField, Theme, Toast, Toasts, apply, busy_ring, confirm, context_menu,
    gallery::{GalleryState, gallery},
    palette, segmented, select, settings_group, toggle,
};
use egui::{Event, ImeEvent, Key, Modifiers, Role, ThemePreference};
use egui_kittest::{Harness, kittest::Queryable};
use support::{Shot, harness, harness_with};

#[test]
fn the_gallery_is_named_throughout() {
    let mut h = harness(Shot::DARK, GalleryState::default(), gallery);
    h.run_steps(2);
    for (role, label) in [
        (Role::Button, "Primary"),
        (Role::Button, "Delete"),
        (Role::Button, "Copy"),
        (Role::Button, "Load now"),
        (Role::Button, "Pause"),
        (Role::Button, "Load with 24k context"),
        (Role::Switch, "Lookup drafts"),
        (Role::RadioButton, "8-bit"),
        (Role::ComboBox, "Mode"),
        (Role::TextInput, "Filter"),
        (Role::TextInput, "Port"),
        (Role::Slider, "Context window"),
        (Role::MenuItem, "Copy as Markdown"),
        (Role::Status, "Ready"),
        (Role::Status, "Prefilling 8.2k / 19k"),
        (Role::Status, "Generating 66 tok/s"),
        (Role::Button, "Out of memory"),
        (Role::ProgressIndicator, "Qwen3.8-27B-4bit"),
    ] {
        assert!(h.query_all_by_role_and_label(role, label).next().is_some(), "{role:?} {label}");
    }
}

#[test]
fn nothing_moves_while_nothing_happens() {
    let mut h = harness(Shot::DARK, GalleryState::default(), gallery);
    h.run_steps(4);
    // The caret too: a focused field must not keep the window awake.
    h.get_by_role_and_label(Role::TextInput, "Filter").focus();
    h.run();
    let delay = h.output().viewport_output[&egui::ViewportId::ROOT].repaint_delay;
    assert!(delay > std::time::Duration::from_mins(1), "asks for a frame in {delay:?}");
}

#[test]
fn the_busy_ring_takes_fifteen_frames_a_second_and_none_under_reduced_motion() {
    for reduced_motion in [false, true] {
        let look = Look {
            reduced_motion,
            ..Look::default()
        };
        let mut h = harness_with(Shot::DARK, look, (), |ui, ()| {
            busy_ring(ui, 16.0, egui::Color32::WHITE, "Loading");
        });
        h.run_steps(8);
        let delay = h.output().viewport_output[&egui::ViewportId::ROOT].repaint_delay;
        if reduced_motion {
            assert!(delay > std::time::Duration::from_mins(1), "{delay:?}");
        } else {
            assert!(
                (std::time::Duration::from_millis(40)..=std::time::Duration::from_millis(70)).contains(&delay),
                "{delay:?}"
            );
        }
    }
}

#[test]
fn text_scale_is_the_zoom_and_layouts_break_on_width_by_scale() {
    // A window hands egui its width divided by the zoom; the harness has no window, so the two halves are checked apart.
    for (text_scale, zoom, density) in [
        (1.0, 1.0, Density::Normal),
        (1.5, 1.5, Density::Narrow),
        (0.8, 0.8, Density::Wide),
        (9.0, 2.0, Density::Narrow),
        (0.1, 0.8, Density::Wide),
    ] {
        let look = Look {
            text_scale,
            ..Look::default()
        };
        let mut h = harness_with(Shot::DARK, look, 0.0, |ui, seen| *seen = ui.ctx().zoom_factor());
        h.run_steps(3);
        assert_eq!(*h.state(), zoom);
        assert_eq!(Density::of_width(1280.0 / zoom), density, "1280 at {zoom}");
    }
}

#[test]
fn appearance_follows_the_choice_and_the_contrast_setting() {
    let themes = [
        (ThemePreference::Dark, false, &dspark_look::DARK),
        (ThemePreference::Light, false, &dspark_look::LIGHT),
        (ThemePreference::Dark, true, &dspark_look::theme::DARK_CONTRAST),
        (ThemePreference::Light, true, &dspark_look::theme::LIGHT_CONTRAST),
    ];
    for (preference, increase_contrast, expected) in themes {
        let mut h = harness_with(Shot::DARK, Look::default(), None, move |ui, seen| {
            // As a settings screen does: at run time.
            apply(
                ui.ctx(),
                Look {
                    preference,
                    increase_contrast,
                    ..Look::default()
                },
            );
            *seen = Some(*Theme::of_ctx(ui.ctx()));
        });
        h.run_steps(3);
        assert_eq!(h.state().as_ref(), Some(expected));
    }
}

#[test]
fn every_state_of_the_pill_has_its_own_word_and_mark() {
    let states = [
        PillState::Stopped,
        PillState::Starting,
        PillState::NoModel,
        PillState::Downloading(37),
        PillState::Loading("weights".into()),
        PillState::Calibrating,
        PillState::WarmingUp,
        PillState::Ready,
        PillState::Prefilling(8200, 19_000),
        PillState::Generating { tokens_per_second: 66.2 },
        PillState::Unloading,
        PillState::Error("Out of memory".into()),
    ];
    let words: std::collections::HashSet<String> = states.iter().map(|s| s.words().0.into_owned()).collect();
    assert_eq!(words.len(), states.len());
    // Starting and Loading share the ring; every other mark is its own.
    let marks: std::collections::HashSet<Icon> = states.iter().map(PillState::icon).collect();
    assert_eq!(marks.len(), states.len() - 1);
}

#[test]
fn the_live_pill_never_shrinks_while_its_number_changes() {
    let mut h = harness(Shot::DARK, 100.0_f64, |ui, rate| {
        ui.horizontal(|ui| ui.add(StatusPill::new(&PillState::Generating { tokens_per_second: *rate }).live()));
    });
    h.run_steps(2);
    let width = |h: &Harness<f64>, label: &str| h.get_by_role_and_label(Role::Status, label).rect().width();
    let wide = width(&h, "Generating 100 tok/s");
    *h.state_mut() = 9.0;
    h.run_steps(2);
    assert_eq!(width(&h, "Generating 9 tok/s"), wide);
}

#[test]
fn buttons_answer_click_and_keyboard_unless_disabled() {
    let mut h = harness(Shot::DARK, (0, 0), |ui, (yes, no)| {
        *yes += i32::from(ui.add(Button::primary("Load")).clicked());
        *no += i32::from(ui.add(Button::secondary("Off").enabled(false)).clicked());
        ui.add(IconButton::new(Icon::X, "Close"));
    });
    h.run_steps(2);
    h.get_by_role_and_label(Role::Button, "Load").click();
    h.get_by_role_and_label(Role::Button, "Off").click();
    h.run_steps(2);
    assert_eq!(*h.state(), (1, 0));
    h.key_press(Key::Tab);
    h.run_steps(2);
    assert!(h.get_by_role_and_label(Role::Button, "Load").is_focused());
    h.key_press(Key::Enter);
    h.run_steps(2);
    assert_eq!(*h.state(), (2, 0));
    // The disabled one is passed over.
    h.key_press(Key::Tab);
    h.run_steps(2);
    assert!(h.get_by_role_and_label(Role::Button, "Close").is_focused());
}

#[test]
fn the_focus_ring_is_drawn_for_the_keyboard() {
    let draw = |focus: bool| {
        let mut h = harness(
            Shot {
                width: 200.0,
                height: 80.0,
                ..Shot::DARK
            },
            (),
            |ui, ()| {
                ui.add_space(20.0);
                ui.horizontal(|ui| {
                    ui.add_space(20.0);
                    ui.add(Button::secondary("Focused"));
                });
            },
        );
        h.run_steps(2);
        if focus {
            h.key_press(Key::Tab);
        }
        h.run_steps(2);
        let image = h.render().expect("lavapipe renders");
        let ring = dspark_look::DARK.focus;
        image
            .as_raw()
            .chunks(4)
            .filter(|p| p[..3] == [ring.r(), ring.g(), ring.b()])
            .count()
    };
    assert_eq!(draw(false), 0);
    assert!(draw(true) > 200);
}

#[test]
fn toggle_segmented_and_slider_move() {
    let mut h = harness(Shot::DARK, (false, 16, 50.0_f64), |ui, (on, bits, value)| {
        toggle(ui, on, "Lookup drafts");
        segmented(ui, bits, &[(16, "16-bit"), (8, "8-bit"), (4, "4-bit")]);
        ui.add(Slider::new(value, 0.0..=100.0, "Context window").step(1.0).limit(80.0));
    });
    h.run_steps(2);
    h.get_by_role_and_label(Role::Switch, "Lookup drafts").click();
    h.get_by_role_and_label(Role::RadioButton, "8-bit").click();
    h.run_steps(2);
    assert_eq!((h.state().0, h.state().1), (true, 8));

    h.get_by_role_and_label(Role::RadioButton, "8-bit").focus();
    h.run_steps(3);
    h.key_press(Key::ArrowRight);
    h.run_steps(3);
    assert_eq!(h.state().1, 4);

    h.get_by_role_and_label(Role::Slider, "Context window").focus();
    h.run_steps(3);
    h.key_press(Key::ArrowRight);
    h.run_steps(2);
    assert_eq!(h.state().2, 51.0);
    h.key_press_modifiers(Modifiers::SHIFT, Key::ArrowRight);
    h.run_steps(2);
    assert_eq!(h.state().2, 59.0);
    for _ in 0..5 {
        h.key_press_modifiers(Modifiers::SHIFT, Key::ArrowRight);
        h.run_steps(2);
    }
    assert_eq!(h.state().2, 80.0, "the limit holds");
}

#[test]
fn select_picks_from_its_menu() {
    let mut h = harness(Shot::DARK, 0, |ui, value| {
        select(ui, "Mode", value, &[(0, "Auto"), (1, "DSpark"), (2, "Lookup")], 180.0);
    });
    h.run_steps(2);
    h.get_by_role_and_label(Role::ComboBox, "Mode").click();
    h.run_steps(3);
    h.get_by_role_and_label(Role::ListBoxOption, "DSpark").click();
    h.run_steps(3);
    assert_eq!(*h.state(), 1);
    assert!(
        h.query_by_role_and_label(Role::ListBoxOption, "DSpark").is_none(),
        "the menu closed"
    );
}

#[test]
fn text_field_takes_text_and_shows_its_error() {
    let mut h = harness(Shot::DARK, String::new(), |ui, port| {
        let error = (port == "80").then_some("Ports under 1024 need rights. Try 8080.");
        ui.add(TextField::new(port, "Port").width(200.0).error(error));
    });
    h.run_steps(2);
    h.get_by_role_and_label(Role::TextInput, "Port").focus();
    h.run_steps(2);
    h.event(Event::Text("80".into()));
    h.run_steps(3);
    assert_eq!(h.state(), "80");
    h.get_by_role_and_label(Role::Alert, "Ports under 1024 need rights. Try 8080.");
}

#[derive(Default)]
struct Compose {
    text: String,
    sent: Vec<String>,
    stopped: u32,
    generating: bool,
    command: bool,
}

fn composer() -> Harness<'static, Compose> {
    let mut h = harness(Shot::DARK, Compose::default(), |ui, state| {
        let composer = Composer {
            text: &mut state.text,
            accompanied: false,
            hint: "Reply",
            note: "",
            state: if state.generating {
                ComposerState::Generating
            } else {
                ComposerState::Ready
            },
            send_key: if state.command { SendKey::CommandEnter } else { SendKey::Enter },
            window_height: 800.0,
            id: egui::Id::unique("composer"),
        };
        let done = composer.show(ui, |_| {});
        if done.send {
            state.sent.push(std::mem::take(&mut state.text));
        }
        state.stopped += u32::from(done.stop);
    });
    h.run_steps(2);
    h.get_by_role_and_label(Role::MultilineTextInput, "Message").focus();
    h.run_steps(2);
    h
}

fn typed(h: &mut Harness<'static, Compose>, text: &str) {
    h.event(Event::Text(text.into()));
    h.run_steps(2);
}

#[test]
fn enter_sends_and_shift_enter_breaks_the_line() {
    let mut h = composer();
    typed(&mut h, "one");
    h.key_press_modifiers(Modifiers::SHIFT, Key::Enter);
    h.run_steps(2);
    typed(&mut h, "two");
    assert_eq!(h.state().text, "one\ntwo");
    h.key_press(Key::Enter);
    h.run_steps(2);
    assert_eq!(h.state().sent, ["one\ntwo"]);
    assert_eq!(h.state().text, "");
    // Nothing to send: nothing happens.
    h.key_press(Key::Enter);
    h.run_steps(2);
    assert_eq!(h.state().sent.len(), 1);
    assert_eq!(h.state().text, "");
}

#[test]
fn command_enter_sends_when_asked() {
    let mut h = composer();
    h.state_mut().command = true;
    typed(&mut h, "one");
    h.key_press(Key::Enter);
    h.run_steps(2);
    assert_eq!(h.state().text, "one\n");
    h.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    h.run_steps(2);
    assert_eq!(h.state().sent, ["one\n"]);
}

#[test]
fn enter_that_ends_a_composition_does_not_send() {
    let mut h = composer();
    h.event(Event::Ime(ImeEvent::Preedit {
        text: "ni".into(),
        active_range_chars: None,
    }));
    h.run_steps(2);
    // The same press commits the composition and arrives as a key, both within one frame.
    let enter = |pressed| Event::Key {
        key: Key::Enter,
        physical_key: None,
        pressed,
        repeat: false,
        modifiers: Modifiers::NONE,
    };
    h.input_mut()
        .events
        .extend([Event::Ime(ImeEvent::Commit("ni".into())), enter(true), enter(false)]);
    h.run_steps(2);
    assert!(h.state().sent.is_empty(), "the composition's Enter is not a send");
    assert!(h.state().text.contains("ni"), "{:?}", h.state().text);
    h.key_press(Key::Enter);
    h.run_steps(2);
    assert_eq!(h.state().sent.len(), 1);
}

#[test]
fn the_button_stops_a_running_reply_and_enter_does_not_send_into_it() {
    let mut h = composer();
    h.state_mut().generating = true;
    typed(&mut h, "next");
    h.key_press(Key::Enter);
    h.run_steps(2);
    assert!(h.state().sent.is_empty());
    h.get_by_role_and_label(Role::Button, "Stop").click();
    h.run_steps(2);
    assert_eq!(h.state().stopped, 1);
}

#[test]
fn a_long_draft_grows_to_forty_percent_and_scrolls() {
    let mut h = composer();
    let low = h.get_by_role_and_label(Role::MultilineTextInput, "Message").rect().height();
    h.state_mut().text = "line\n".repeat(60);
    h.run_steps(3);
    let send = h.get_by_role_and_label(Role::Button, "Send").rect();
    assert!(low < 30.0);
    assert!(send.bottom() < 800.0 * 0.4 + 90.0, "the tools stay in view: {send:?}");
}

#[test]
fn chat_rows_open_rename_and_offer_a_menu() {
    #[derive(Default)]
    struct State {
        opened: u32,
        draft: Option<String>,
        title: String,
        deleted: bool,
    }
    let state = State {
        title: "Trip plan".into(),
        ..State::default()
    };
    let mut h = harness(Shot::DARK, state, |ui, s| {
        let (row, action) = ChatRow::new(&s.title).renaming(s.draft.as_mut()).show(ui);
        match action {
            Some(ChatRowAction::Open) => s.opened += 1,
            Some(ChatRowAction::Rename) => s.draft = Some(s.title.clone()),
            Some(ChatRowAction::Renamed(title)) => {
                s.title = title;
                s.draft = None;
            }
            Some(ChatRowAction::RenameCancelled) => s.draft = None,
            None => {}
        }
        context_menu(&row, |ui| {
            s.deleted |= ui.add(MenuItem::new("Delete").icon(Icon::Trash).danger()).clicked();
        });
    });
    h.run_steps(2);
    h.get_by_role_and_label(Role::ListItem, "Trip plan").click();
    h.run_steps(2);
    assert_eq!(h.state().opened, 1);

    h.state_mut().draft = Some("Trip plan".into());
    h.run_steps(3);
    assert!(h.get_by_role_and_label(Role::TextInput, "Chat name").is_focused());
    h.event(Event::Text(" to Lisbon".into()));
    h.key_press(Key::Enter);
    h.run_steps(3);
    assert!(h.state().draft.is_none());
    assert!(h.state().title.contains("to Lisbon"), "{}", h.state().title);

    h.state_mut().draft = Some("nonsense".into());
    h.run_steps(3);
    h.key_press(Key::Escape);
    h.run_steps(3);
    assert!(h.state().draft.is_none() && !h.state().title.contains("nonsense"));

    let title = h.state().title.clone();
    h.get_by_role_and_label(Role::ListItem, &title).click_secondary();
    h.run_steps(3);
    h.get_by_role_and_label(Role::MenuItem, "Delete").click();
    h.run_steps(2);
    assert!(h.state().deleted);
}

#[test]
fn toasts_leave_after_six_seconds_and_errors_stay() {
    let mut toasts = Toasts::default();
    for title in ["first", "second"] {
        toasts.push(Toast::done(title));
    }
    toasts.push(Toast::error("broken").line("why").action(7, "Retry"));
    toasts.push(Toast::done("third"));
    assert_eq!(
        toasts.titles().collect::<Vec<_>>(),
        ["second", "broken", "third"],
        "three at most, errors last longest"
    );

    let mut h = harness(Shot::DARK, (toasts, None), |ui, (toasts, chosen)| {
        if let Some(id) = toasts.show(ui.ctx(), None) {
            *chosen = Some(id);
        }
    });
    h.run_steps(4);
    h.get_by_role_and_label(Role::Alert, "broken why");
    // The harness steps a quarter of a second.
    h.run_steps(30);
    assert_eq!(h.state().0.titles().collect::<Vec<_>>(), ["broken"]);
    h.get_by_role_and_label(Role::Button, "Retry").click();
    h.run_steps(4);
    assert_eq!(h.state().1, Some(7));
    assert!(h.state().0.is_empty());
}

#[test]
fn palette_reports_its_keys() {
    let mut h = harness(Shot::DARK, (String::new(), Vec::new()), |ui, (query, seen)| {
        let (keys, ()) = palette(ui.ctx(), query, "Search", |_| {});
        if keys != dspark_look::PaletteKeys::default() {
            seen.push(keys);
        }
    });
    h.run_steps(3);
    h.event(Event::Text("load".into()));
    h.run_steps(2);
    for key in [Key::ArrowDown, Key::ArrowUp, Key::Enter, Key::Escape] {
        h.key_press(key);
        h.run_steps(2);
    }
    let (query, seen) = h.state();
    assert_eq!(query, "load");
    assert!(seen[0].changed);
    assert_eq!((seen[1].step, seen[2].step), (1, -1));
    assert!(seen[3].run && !seen[3].options);
    assert!(seen[4].close);
}

#[test]
fn error_card_opens_its_details() {
    let mut h = harness(Shot::DARK, false, |ui, primary| {
        let card = ErrorCard {
            title: "It did not load",
            cause: "Too big.",
            primary: "Load smaller",
            details: "43.8 > 38.7",
        };
        *primary |= card.show(ui).primary;
    });
    h.run_steps(2);
    assert!(h.query_by_label("43.8 > 38.7").is_none());
    h.get_by_role_and_label(Role::Button, "Details").click();
    h.run_steps(2);
    h.get_by_label("43.8 > 38.7");
    h.get_by_role_and_label(Role::Button, "Load smaller").click();
    h.run_steps(2);
    assert!(*h.state());
}

#[test]
fn a_question_takes_yes_no_and_escape() {
    for (press, expected) in [("Delete", true), ("Keep", false), ("", false)] {
        let mut h = harness(Shot::DARK, None, |ui, answer| {
            if answer.is_none() {
                *answer = confirm(ui.ctx(), "Delete this chat?", "It cannot be brought back.", "Delete", "Keep", true);
            }
        });
        h.run_steps(3);
        if press.is_empty() {
            h.key_press(Key::Escape);
        } else {
            h.get_by_role_and_label(Role::Button, press).click();
        }
        h.run_steps(3);
        assert_eq!(
            *h.state(),
            Some(if expected {
                dspark_look::Answer::Yes
            } else {
                dspark_look::Answer::No
            })
        );
    }
}

#[test]
fn rows_of_screens_options_and_settings_are_named() {
    let mut h = harness(Shot::DARK, (0, false), |ui, (screen, on)| {
        for (i, word) in ["Chat", "Models"].into_iter().enumerate() {
            if ui
                .add(ScreenRow::new(Icon::Cube, Icon::CubeFill, word).selected(*screen == i))
                .clicked()
            {
                *screen = i;
            }
        }
        let row = OptionRow {
            name: "Qwen3-8B",
            detail: "",
            chip: None,
            figures: ("8 GB", ""),
            selected: true,
            enabled: true,
        };
        row.show(ui);
        settings_group(ui, "Speculation", |ui| {
            SettingsRow::new("Lookup drafts")
                .detail("Reuse runs")
                .show(ui, |ui| toggle(ui, on, "Lookup drafts"));
        });
    });
    h.run_steps(2);
    h.get_by_role_and_label(Role::Tab, "Models").click();
    h.get_by_role_and_label(Role::Switch, "Lookup drafts").click();
    h.run_steps(2);
    assert_eq!(*h.state(), (1, true));
    h.get_by_role_and_label(Role::RadioButton, "Qwen3-8B");
    h.get_by_role_and_label(Role::Heading, "Speculation");
}
