use super::SettingsView;
use crate::{
    bridge::ServerFailure,
    screens::chat::sampling,
    settings::{LanguageChoice, Settings, ThemeChoice},
    shell::{
        keys::{self, MAP},
        picker::expand,
    },
    state::{FilesMsg, ModelsMsg, Msg, Purpose, ServerState, SettingsMsg, SettingsPage, State},
};
use dspark_look::{
    Button, Chip, Icon, IconButton, SettingsRow, Slider, TextField, Theme, Tone, Type, command_strip, segmented, select, settings_group,
    toggle,
};
use dspark_strings::{Key, t};
use egui::{Frame, TextEdit, Ui, vec2};

pub(super) fn show(ui: &mut Ui, state: &State, view: &mut SettingsView, out: &mut Vec<Msg>) {
    let mut settings = state.settings.clone();
    match state.settings_page {
        SettingsPage::General => general(ui, state, &mut settings, out),
        SettingsPage::Server => server(ui, state, &mut settings, view, out),
        SettingsPage::Models => {
            models(ui, state, view, out);
            super::hub::show(ui, state, &mut settings, view, out);
        }
        SettingsPage::Decoding => super::decoding::show(ui, state, view, out),
        SettingsPage::Chat => chat(ui, &mut settings),
        SettingsPage::Data => data(ui, state, view, out),
        SettingsPage::About => about(ui, state),
    }
    if settings != state.settings {
        out.push(Msg::Settings(SettingsMsg::Changed(Box::new(settings))));
    }
}

fn gap(ui: &mut Ui) {
    ui.add_space(18.0);
}

fn general(ui: &mut Ui, state: &State, settings: &mut Settings, out: &mut Vec<Msg>) {
    settings_group(ui, t!(appearance), |ui| {
        let appearance = &mut settings.appearance;
        SettingsRow::new(t!(theme)).detail(t!(auto_follows)).show(ui, |ui| {
            let choices = [
                (ThemeChoice::Auto, t!(auto)),
                (ThemeChoice::Light, t!(light)),
                (ThemeChoice::Dark, t!(dark)),
            ];
            segmented(ui, &mut appearance.theme, &choices);
        });
        language(ui, &mut appearance.language);
        SettingsRow::new(t!(text_size)).detail(t!(text_size_detail)).show(ui, |ui| {
            let theme = Theme::of(ui);
            let (rect, _) = ui.allocate_exact_size(vec2(48.0, 20.0), egui::Sense::hover());
            let galley = Type::BASE.galley(ui, format!("{} %", appearance.text_scale), theme.t1);
            dspark_look::paint::text_right(ui.painter(), rect, rect.right(), galley, theme.t1);
            ui.add_space(6.0);
            // Scaling under the pointer would move the knob away from it: only the released value counts.
            let id = ui.make_persistent_id("text scale");
            let mut value: f64 = ui.data(|data| data.get_temp(id)).unwrap_or(f64::from(appearance.text_scale));
            let response = ui.add(
                Slider::new(&mut value, 80.0..=200.0, t!(text_size))
                    .step(10.0)
                    .width(180.0)
                    .surface(theme.panel),
            );
            if response.dragged() {
                ui.data_mut(|data| data.insert_temp(id, value));
            } else {
                ui.data_mut(|data| data.remove::<f64>(id));
                appearance.text_scale = value.round() as u32;
            }
        });
        SettingsRow::new(t!(reduce_motion))
            .detail(t!(reduce_motion_detail))
            .show(ui, |ui| toggle(ui, &mut appearance.reduce_motion, t!(reduce_motion)));
        SettingsRow::new(t!(increase_contrast))
            .detail(t!(increase_contrast_detail))
            .show(ui, |ui| toggle(ui, &mut appearance.increase_contrast, t!(increase_contrast)));
    });
    settings_group(ui, t!(window), |ui| {
        let goes_on = if cfg!(target_os = "macos") {
            t!(server_goes_on_menu)
        } else {
            t!(server_goes_on_tray)
        };
        SettingsRow::new(t!(keep_running_closed))
            .detail(goes_on)
            .show(ui, |ui| toggle(ui, &mut settings.general.keep_running, t!(keep_running_closed)));
        SettingsRow::new(t!(load_last))
            .detail(t!(load_last_detail))
            .show(ui, |ui| toggle(ui, &mut settings.general.load_last_model, t!(load_last)));
    });
    super::desktop::manners(ui, state, settings, out);
    settings_group(ui, t!(keyboard), |ui| {
        let more = [
            (t!(send), "⏎"),
            (t!(new_line), "⇧ ⏎"),
            (t!(edit_last), "↑"),
            (t!(stop_close), "Esc"),
        ];
        for (words, key) in more {
            key_row(ui, words, key);
        }
        let mut said: Vec<Key> = Vec::new();
        for (_, modifiers, key, words) in MAP {
            let Some(words) = words.filter(|words| !said.contains(words)) else {
                continue;
            };
            said.push(words);
            key_row(ui, words.text(), &keys::label(*modifiers, *key));
        }
    });
}

/// Each language is named in itself: whoever has got lost in another one finds back.
fn language(ui: &mut Ui, chosen: &mut LanguageChoice) {
    SettingsRow::new(t!(language)).detail(t!(language_detail)).show(ui, |ui| {
        let name = |choice: &LanguageChoice| match choice {
            LanguageChoice::Is(language) => language.own_name(),
            LanguageChoice::System | LanguageChoice::Other(_) => t!(language_system),
        };
        let choices = LanguageChoice::ALL.map(|choice| {
            let name = name(&choice);
            (choice, name)
        });
        // What this version does not know counts as the system's.
        let mut shown = if let LanguageChoice::Other(_) = chosen {
            LanguageChoice::System
        } else {
            chosen.clone()
        };
        if select(ui, t!(language), &mut shown, &choices, 150.0) {
            *chosen = shown;
        }
    });
}

fn key_row(ui: &mut Ui, words: &str, key: &str) {
    SettingsRow::new(words).show(ui, |ui| dspark_look::key(ui, key));
}

fn server(ui: &mut Ui, state: &State, settings: &mut Settings, view: &mut SettingsView, out: &mut Vec<Msg>) {
    settings_group(ui, t!(local_server), |ui| {
        let detail = match &state.server {
            ServerState::Off => t!(off).to_owned(),
            ServerState::Starting => t!(starting).into(),
            ServerState::On(url) => t!(listening_on, url = url),
            ServerState::Paused => t!(paused_from_tray).into(),
            ServerState::Failed(failure) => failure.reason.clone(),
        };
        SettingsRow::new(t!(serve_others)).detail(&detail).show(ui, |ui| {
            toggle(ui, &mut settings.server.enabled, t!(serve_others));
            ui.add_space(8.0);
            let (word, tone) = match &state.server {
                ServerState::On(_) => (t!(on), Tone::Ok),
                ServerState::Paused => (t!(paused), Tone::Warn),
                ServerState::Failed(_) => (t!(failed), Tone::Bad),
                ServerState::Starting => (t!(starting), Tone::Accent),
                ServerState::Off => return,
            };
            ui.add(Chip::new(word).tone(tone));
        });
        let mut text = view.port.clone().unwrap_or_else(|| settings.server.port.to_string());
        let number = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
        let wrong = number(&text).is_none();
        let detail = if wrong { t!(port_is_number) } else { t!(port_fixed) };
        SettingsRow::new(t!(port)).detail(detail).show(ui, |ui| {
            let field = TextField::new(&mut text, t!(port)).width(90.0).wrong(wrong);
            let response = ui.add(field);
            if response.changed() {
                view.port = Some(text.clone());
            }
            // It holds when the field is left or Enter is pressed: a server on every number in between serves nobody.
            if !response.has_focus()
                && let Some(port) = view.port.as_deref().and_then(number)
            {
                settings.server.port = port;
                view.port = None;
            }
            if let ServerState::Failed(ServerFailure { next_free: Some(free), .. }) = &state.server {
                ui.add_space(4.0);
                if ui.add(Button::secondary(&t!(use_free, free = free)).small()).clicked() {
                    view.port = None;
                    out.push(Msg::Settings(SettingsMsg::UsePort(*free)));
                }
            }
        });
        SettingsRow::new(t!(api_key)).detail(t!(api_key_detail)).show(ui, |ui| {
            let icon = if view.show_key { Icon::EyeSlash } else { Icon::Eye };
            let label = if view.show_key { t!(hide_key) } else { t!(show_key) };
            if ui.add(IconButton::new(icon, label)).clicked() {
                view.show_key = !view.show_key;
            }
            if ui.add(IconButton::new(Icon::ArrowsClockwise, t!(new_key))).clicked() {
                settings.server.api_key = new_key();
                view.show_key = true;
            }
            let field = TextField::new(&mut settings.server.api_key, t!(api_key))
                .hint(t!(key_none))
                .width(240.0)
                .mono();
            ui.add(if view.show_key { field } else { field.password() });
        });
    });
    if let ServerState::On(url) = &state.server {
        gap(ui);
        let theme = Theme::of(ui);
        ui.label(Type::PANEL.rich(t!(for_other_apps), theme.t1));
        ui.add_space(8.0);
        let base = format!("{}/v1", url.trim_end_matches('/'));
        if command_strip(ui, &base) {
            out.push(Msg::Copy(base.clone()));
        }
        ui.add_space(6.0);
        ui.label(Type::SMALL.rich(t!(any_openai_app), theme.t3));
    }
}

/// 32 random bytes from the system, in hexadecimal.
fn new_key() -> String {
    use std::{fmt::Write, hash::BuildHasher};
    let mut key = String::from("sk-");
    for _ in 0..4 {
        // The standard library seeds each of these from the system's random source.
        let word = std::hash::RandomState::new().hash_one(std::time::SystemTime::now());
        let _ = write!(key, "{word:016x}");
    }
    key
}

fn models(ui: &mut Ui, state: &State, view: &mut SettingsView, out: &mut Vec<Msg>) {
    settings_group(ui, t!(folders), |ui| {
        SettingsRow::new(t!(the_usual_places))
            .detail(t!(usual_places_detail))
            .show(ui, |ui| ui.add(Chip::new(t!(always))));
        for folder in &state.settings.models.folders {
            let there = folder.is_dir();
            let name = folder.display().to_string();
            let detail = if there { t!(searched_for_models) } else { t!(not_there_now) };
            SettingsRow::new(&name).detail(detail).show(ui, |ui| {
                if ui.add(IconButton::new(Icon::X, t!(remove_folder))).clicked() {
                    out.push(Msg::Models(ModelsMsg::RemoveFolder(folder.clone())));
                }
            });
        }
        SettingsRow::new(t!(add_folder)).show(ui, |ui| {
            super::desktop::browse(ui, t!(browse_for_folder), Purpose::ModelFolder, out);
            let ready = !view.folder.trim().is_empty();
            let add = ui.add(Button::secondary(t!(add)).small().enabled(ready)).clicked();
            let response = ui.add(
                TextField::new(&mut view.folder, t!(folder_to_add))
                    .hint(t!(folder_to_add_hint))
                    .width(260.0)
                    .mono(),
            );
            let entered = response.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
            if (add || entered) && ready {
                out.push(Msg::Models(ModelsMsg::AddFolder(expand(view.folder.trim()))));
                view.folder.clear();
            }
        });
    });
}

fn chat(ui: &mut Ui, settings: &mut Settings) {
    let theme = Theme::of(ui);
    ui.label(Type::PANEL.rich(t!(system_prompt), theme.t1));
    ui.add_space(8.0);
    Frame::new()
        .fill(theme.field)
        .stroke(egui::Stroke::new(1.0, theme.line2))
        .corner_radius(dspark_look::space::radius::CONTROL)
        .inner_margin(egui::Margin::symmetric(12, 8))
        .show(ui, |ui| {
            let mut layout = |ui: &Ui, text: &dyn egui::TextBuffer, width: f32| {
                let mut job = egui::text::LayoutJob::single_section(text.as_str().into(), Type::BASE.format(theme.t1));
                job.wrap.max_width = width;
                job.keep_trailing_whitespace = true;
                ui.fonts_mut(|fonts| fonts.layout_job(job))
            };
            let response = ui.add(
                TextEdit::multiline(&mut settings.chat.system_prompt)
                    .frame(Frame::NONE)
                    .hint_text(Type::BASE.rich(t!(system_prompt_hint), theme.t3))
                    .desired_rows(3)
                    .desired_width(f32::INFINITY)
                    .layouter(&mut layout),
            );
            response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::MultilineTextInput, true, t!(system_prompt)));
        });
    settings_group(ui, t!(replies), |ui| {
        Frame::new().inner_margin(egui::Margin::symmetric(16, 12)).show(ui, |ui| {
            ui.spacing_mut().item_spacing = vec2(8.0, 4.0);
            sampling(ui, &mut settings.chat);
        });
    });
    settings_group(ui, t!(reading_group), |ui| {
        SettingsRow::new(t!(show_sources))
            .detail(t!(show_sources_detail))
            .show(ui, |ui| toggle(ui, &mut settings.chat.show_sources, t!(show_sources)));
    });
}

fn data(ui: &mut Ui, state: &State, view: &mut SettingsView, out: &mut Vec<Msg>) {
    settings_group(ui, t!(what_leaves), |ui| {
        SettingsRow::new(t!(chats_and_prompts))
            .detail(t!(never_leaves))
            .show(ui, |ui| ui.add(Chip::new(t!(stays_here)).tone(Tone::Ok).icon(Icon::Check)));
        SettingsRow::new(t!(model_downloads))
            .detail(t!(model_downloads_detail))
            .show(ui, |ui| ui.add(Chip::new(t!(when_you_ask))));
        super::data::also_leaves(ui);
        SettingsRow::new(t!(usage_statistics))
            .detail(t!(none_collected))
            .show(ui, |ui| ui.add(Chip::new(t!(statistics_none)).tone(Tone::Ok).icon(Icon::Check)));
    });
    gap(ui);
    settings_group(ui, t!(chats_of_others), |ui| {
        SettingsRow::new(t!(import)).detail(t!(import_detail)).show(ui, |ui| {
            super::desktop::browse(ui, t!(browse_for_chats), Purpose::Import, out);
            let ready = !view.import.trim().is_empty();
            let import = ui.add(Button::secondary(t!(import)).small().enabled(ready)).clicked();
            let field = TextField::new(&mut view.import, t!(export_to_import));
            let response = ui.add(field.hint(t!(file_or_folder_hint)).width(200.0).mono());
            let entered = response.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
            if (import || entered) && ready {
                out.push(Msg::Files(FilesMsg::Import(expand(view.import.trim()))));
                view.import.clear();
            }
        });
    });
    super::data::chats(ui, state, out);
    let theme = Theme::of(ui);
    ui.label(Type::PANEL.rich(t!(where_data_is), theme.t1));
    ui.add_space(8.0);
    let place = state.data_dir.display().to_string();
    if command_strip(ui, &place) {
        out.push(Msg::Copy(place.clone()));
    }
    ui.add_space(6.0);
    ui.label(Type::SMALL.rich(t!(where_data_is_line, path = state.settings_file.display()), theme.t3));
}

fn about(ui: &mut Ui, state: &State) {
    let machine = &state.engine.machine;
    settings_group(ui, "mlx-dspark", |ui| {
        let row = |ui: &mut Ui, name: &str, value: &str| {
            let theme = Theme::of(ui);
            SettingsRow::new(name).show(ui, |ui| ui.label(Type::BASE.rich(value, theme.t2)));
        };
        let (version, commit) = super::about::version(&state.version);
        row(ui, t!(version), version);
        row(ui, t!(engine), &t!(engine_in_program, version = version));
        row(ui, t!(commit), commit.unwrap_or(t!(commit_not_known)));
        row(
            ui,
            "MLX",
            if machine.mlx_version.is_empty() {
                t!(not_loaded)
            } else {
                &machine.mlx_version
            },
        );
        let device = format!("{} ({})", machine.device, machine.backend);
        row(
            ui,
            t!(computes_on),
            if machine.device.is_empty() { t!(not_known_yet) } else { &device },
        );
        row(ui, t!(licence), "MIT");
        row(ui, t!(fonts_and_icons), "Inter, JetBrains Mono (OFL 1.1), Phosphor (MIT)");
    });
    super::about::notices(ui);
}
