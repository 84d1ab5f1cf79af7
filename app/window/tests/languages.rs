//! The window in every language: it can be chosen, every screen is drawn, and nothing is pushed out of its place by longer
//! words. `LANGUAGE_PICTURES=folder` writes what was drawn, to be looked at.
#![allow(clippy::unwrap_used)]

mod stage;

use dspark_protocol::double::{self, Script};
use dspark_strings::{Language, key, t};
use dspark_window::{
    settings::{LanguageChoice, Settings, ThemeChoice},
    state::{ModelsTab, Msg, Screen, SettingsMsg, SettingsPage},
};
use egui::{LayerId, Rect, accesskit::Role};
use egui_kittest::kittest::{NodeT, Queryable};
use stage::{
    Test, open_with,
    scene::Scene::{self, *},
    set, settings, until, window,
};

fn speaking(language: Language) -> Settings {
    let mut settings = settings(ThemeChoice::Dark);
    settings.appearance.language = LanguageChoice::Is(language);
    settings
}

#[test]
fn a_language_is_chosen_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.toml");
    let engine = double::start(Script::saying("answer"));
    let mut test = open_with(engine, folder, [1280.0, 800.0], settings(ThemeChoice::Dark));
    test.ctx.set_missing_glyph_policy(egui::MissingGlyphPolicy::default());
    until(&mut test, "a model", |window| window.state.has_model());
    window(&test).inbox().push(Msg::Show(Screen::Settings));
    test.run_steps(4);
    test.get_by_role_and_label(Role::ComboBox, "Language").click();
    test.run_steps(4);
    test.get_by_label("Deutsch").click();
    test.run_steps(6);
    // At once, in the frame, on the page, and in what is found by name.
    test.get_by_role_and_label(Role::ComboBox, "Sprache");
    test.get_by_role_and_label(Role::Switch, "Bewegung verringern");
    assert!(test.query_by_label("Reduce motion").is_none());
    window(&test).inbox().push(Msg::Show(Screen::Chat));
    test.run_steps(4);
    test.get_by_role_and_label(Role::Button, "Code schreiben");
    test.get_by_label("Nachricht").focus();
    until(&mut test, "the file", |_| {
        Settings::load(&path).0.appearance.language == LanguageChoice::Is(Language::German)
    });
    // Back from a language that one cannot read: each is named in itself.
    window(&test).inbox().push(Msg::Settings(SettingsMsg::Page(SettingsPage::General)));
    window(&test).inbox().push(Msg::Show(Screen::Settings));
    test.run_steps(4);
    test.get_by_role_and_label(Role::ComboBox, "Sprache").click();
    test.run_steps(4);
    test.get_by_label("English").click();
    test.run_steps(6);
    test.get_by_role_and_label(Role::Switch, "Reduce motion");
    assert_eq!(t!(cancel), "Cancel");
}

#[test]
fn what_a_newer_version_wrote_counts_as_the_systems() {
    let mut settings = settings(ThemeChoice::Dark);
    settings.appearance.language = LanguageChoice::Other("tlh".into());
    let engine = double::start(Script::saying("answer"));
    let mut test = open_with(engine, tempfile::tempdir().unwrap(), [1280.0, 800.0], settings);
    window(&test).inbox().push(Msg::Show(Screen::Settings));
    test.run_steps(4);
    test.get_by_role_and_label(Role::ComboBox, "Language");
    let kept = &window(&test).state.settings.appearance.language;
    assert_eq!(*kept, LanguageChoice::Other("tlh".into()));
}

/// A control: what it is called, and its place in points, whole and as far as it can be reached.
struct Control {
    name: String,
    layer: LayerId,
    whole: Rect,
    reach: Rect,
}

/// Everything that can be clicked or typed into and has a name, as it was drawn last.
fn controls(test: &Test) -> Vec<Control> {
    let mut names = Vec::new();
    let mut nodes = vec![test.root()];
    while let Some(node) = nodes.pop() {
        nodes.extend(node.children());
        let told = node.accesskit_node();
        let takes = matches!(
            told.role(),
            Role::Button
                | Role::Tab
                | Role::ComboBox
                | Role::Switch
                | Role::TextInput
                | Role::MultilineTextInput
                | Role::Slider
                | Role::RadioButton
        );
        if takes {
            names.push((node.rect(), format!("{:?} {:?}", told.role(), told.label().unwrap_or_default())));
        }
    }
    test.ctx.viewport(|viewport| {
        let all = viewport.prev_pass.widgets.layers();
        let all = all.flat_map(|(layer, widgets)| widgets.iter().map(move |widget| (*layer, widget)));
        let taking = all.filter(|(_, widget)| widget.visible && widget.sense.senses_click() && widget.interact_rect.is_positive());
        let named = taking.filter_map(|(layer, widget)| {
            let same = |rect: &Rect| rect.min.distance(widget.rect.min) < 1.0 && rect.max.distance(widget.rect.max) < 1.0;
            let name = names.iter().find(|(rect, _)| same(rect))?.1.clone();
            Some(Control {
                name,
                layer,
                whole: widget.rect,
                reach: widget.interact_rect,
            })
        });
        named.collect()
    })
}

/// No control is cut off at its side by what it stands in, and none lies on another one.
fn in_place(test: &Test, what: &str) {
    let controls = controls(test);
    assert!(controls.len() > 4, "{what}: {} controls", controls.len());
    for (at, one) in controls.iter().enumerate() {
        let cut = one.whole.width() - one.reach.width();
        assert!(cut < 1.5, "{what}: {} at {} is cut off by {cut}", one.name, one.whole);
        for other in controls[at + 1..].iter().filter(|other| other.layer == one.layer) {
            let both = one.reach.intersect(other.reach);
            let nested = one.whole.contains_rect(other.whole) || other.whole.contains_rect(one.whole);
            assert!(
                nested || both.width() < 3.0 || both.height() < 3.0,
                "{what}: {} at {} lies on {} at {}",
                one.name,
                one.reach,
                other.name,
                other.reach
            );
        }
    }
}

const SCENES: [(&str, Scene); 36] = [
    ("chat", Chat),
    ("reply", Reply),
    ("empty", Empty),
    ("first-run", FirstRun),
    ("first-run-check", FirstRunCheck),
    ("first-run-go", FirstRunGo),
    ("first-run-done", FirstRunDone),
    ("models", Models),
    ("models-here", ModelsHere),
    ("models-search", ModelsSearch),
    ("models-downloads", ModelsDownloads),
    ("settings", Scene::Settings),
    ("picker", Picker),
    ("live", Live),
    ("live-parked", LiveParked),
    ("live-plain", LivePlain),
    ("live-empty", LiveEmpty),
    ("curves", Curves),
    ("curves-parked", CurvesParked),
    ("curves-empty", CurvesEmpty),
    ("decoding", Decoding),
    ("palette", Palette),
    ("machine", Machine),
    ("machine-empty", MachineEmpty),
    ("lab-no-model", LabNoModel),
    ("race", Race),
    ("race-four", RaceFour),
    ("race-running", RaceRunning),
    ("race-earlier", RaceEarlier),
    ("benchmark", Benchmark),
    ("agents", Agents),
    ("agents-change", AgentsChange),
    ("agents-changed", AgentsChanged),
    ("agents-steps", AgentsSteps),
    ("connections", Connections),
    ("connections-empty", ConnectionsEmpty),
];

const PAGES: [SettingsPage; 7] = [
    SettingsPage::General,
    SettingsPage::Server,
    SettingsPage::Models,
    SettingsPage::Decoding,
    SettingsPage::Chat,
    SettingsPage::Data,
    SettingsPage::About,
];

/// Draws every scene, and every page of the settings. Scenes that lie over the window are not held to the order of what lies
/// below.
fn every_screen(language: Language, size: [f32; 2], scale: u32) {
    let pictures = std::env::var_os("LANGUAGE_PICTURES").map(std::path::PathBuf::from);
    let name = |what: &str| format!("{}-{what}-{}x{}-{scale}", language.tag(), size[0], size[1]);
    let mut settings = speaking(language);
    settings.appearance.text_scale = scale;
    let keep = |test: &mut Test, name: &str| {
        if let Some(folder) = &pictures {
            // Drawn in software, a picture may take longer than the harness waits for it.
            let image = test.render().or_else(|_| test.render()).unwrap();
            image.save(folder.join(format!("{name}.png"))).unwrap();
        }
    };
    for (what, scene) in SCENES {
        let mut test = set(scene, settings.clone(), size);
        keep(&mut test, &name(what));
        let over = matches!(
            scene,
            Picker | Palette | AgentsChange | AgentsChanged | AgentsSteps | Decoding | Chat | Reply
        );
        if !over {
            in_place(&test, &name(what));
        }
        if scene != Scene::Settings {
            continue;
        }
        for page in PAGES {
            window(&test).inbox().push(Msg::Settings(SettingsMsg::Page(page)));
            test.run_steps(6);
            let name = name(&format!("settings-{page:?}"));
            keep(&mut test, &name);
            in_place(&test, &name);
        }
    }
}

/// The cards of a new chat lay over the composer.
#[test]
fn a_chat_begins_in_a_small_window_with_large_text() {
    let mut settings = speaking(Language::English);
    settings.appearance.text_scale = 170;
    let mut test = set(Empty, settings, [900.0, 640.0]);
    in_place(&test, "empty at 170 %");
    if let Some(folder) = std::env::var_os("LANGUAGE_PICTURES") {
        let image = test.render().or_else(|_| test.render()).unwrap();
        image.save(std::path::Path::new(&folder).join("empty-large.png")).unwrap();
    }
}

#[test]
fn every_screen_in_english() {
    every_screen(Language::English, [900.0, 640.0], 100);
}

#[test]
fn every_screen_in_german() {
    every_screen(Language::German, [900.0, 640.0], 100);
}

#[test]
fn every_screen_in_german_with_larger_text() {
    every_screen(Language::German, [1280.0, 800.0], 150);
}

#[test]
fn every_screen_in_chinese() {
    every_screen(Language::Chinese, [1280.0, 800.0], 100);
}

#[test]
fn every_screen_in_japanese() {
    every_screen(Language::Japanese, [1280.0, 800.0], 100);
}

#[test]
fn the_card_of_a_race_is_in_the_language_too() {
    let race = stage::scene::race::two();
    let cards = Language::ALL.map(|language| {
        let card = dspark_strings::speaking(language, || dspark_window::screens::lab::card::png(&race)).unwrap();
        if let Some(folder) = std::env::var_os("LANGUAGE_PICTURES") {
            std::fs::write(std::path::Path::new(&folder).join(format!("{}-card.png", language.tag())), &card).unwrap();
        }
        card
    });
    for (at, card) in cards.iter().enumerate() {
        assert!(cards[at + 1..].iter().all(|other| other != card), "{:?}", Language::ALL[at]);
    }
}

#[test]
fn lists_of_the_header_follow_the_language() {
    let mut test = set(Models, speaking(Language::German), [1280.0, 800.0]);
    assert_eq!(window(&test).state.models.tab, ModelsTab::Recommended);
    let words = key!(search_hub).text_in(Language::German);
    test.get_by_role_and_label(Role::Tab, words).click();
    test.run_steps(4);
    assert_eq!(window(&test).state.models.tab, ModelsTab::Search);
}
