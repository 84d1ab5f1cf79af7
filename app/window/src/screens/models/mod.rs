//! What is on disk, what can be fetched, and any folder.

use crate::{
    bridge::{FitLevel, ModelEntry, Offer},
    screens::{
        first_run::{chip, loading_card},
        lab::words::{mode, mode_named},
    },
    shell::{
        header::fetching_words,
        picker::path_field,
        text::{bytes, count},
    },
    state::{ModelsMsg, Msg, State},
};
use dspark_look::{
    Button, Chip, Columns, Density, ErrorCard, Icon, Progress, TableRow, TextField, Theme, Tone, Type, card, card_flush, column,
    progress_row, table_head, tip, two_lines,
};
use dspark_protocol::ModelInfo;
use egui::{Align, ScrollArea, Ui, vec2};

pub fn show(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let density = Density::of(ui.ctx());
    ScrollArea::vertical().id_salt("models").auto_shrink([false, false]).show(ui, |ui| {
        column(ui, 1000.0, 24.0, |ui| {
            ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
            ui.add_space(16.0);
            top(ui, state, out);
            ui.add_space(14.0);
            under_way(ui, state, out);
            table(ui, state, density, out);
            ui.add_space(12.0);
            folder(ui, state, out);
            ui.add_space(24.0);
        });
    });
}

fn top(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    dspark_look::controls(ui, |ui| {
        let mut filter = state.models.filter.clone();
        ui.add(
            TextField::new(&mut filter, "Filter models")
                .hint("Filter")
                .icon(Icon::MagnifyingGlass)
                .width(280.0),
        );
        if filter != state.models.filter {
            out.push(Msg::Models(ModelsMsg::Filter(filter)));
        }
        let again = ui.add(
            Button::quiet("Look again")
                .icon(Icon::ArrowsClockwise)
                .enabled(!state.models.surveying),
        );
        if again.clicked() {
            out.push(Msg::Models(ModelsMsg::Survey));
        }
        dspark_look::from_right(ui, |ui| {
            let machine = &state.engine.machine;
            let mut words = machine.device.clone();
            if state.engine.memory.limit > 0 {
                let limit = format!("{} for models", bytes(state.engine.memory.limit));
                words = if words.is_empty() { limit } else { format!("{words}, {limit}") };
            }
            ui.add(egui::Label::new(Type::SMALL.rich(words, theme.t3)).truncate());
        });
    });
}

fn under_way(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    if let Some(fetching) = &state.models.fetching {
        let detail = if fetching.cancelled {
            "Cancelling".into()
        } else {
            fetching_words(fetching)
        };
        let progress = Progress {
            name: &fetching.name,
            detail: &detail,
            part: fetching.percent().map(|percent| f32::from(percent) / 100.0),
            paused: false,
            pausable: false,
        };
        if progress_row(ui, &progress).cancel {
            out.push(Msg::Models(ModelsMsg::CancelFetch));
        }
        ui.add_space(12.0);
    }
    if let Some(loading) = &state.models.loading {
        loading_card(ui, loading, out);
        ui.add_space(12.0);
    }
    failure_card(ui, state, out);
}

/// What went wrong with the last load or download, with another try.
pub(crate) fn failure_card(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    if let Some(failure) = &state.models.failure {
        let verb = if failure.download { "was not downloaded" } else { "did not load" };
        let title = format!("{} {verb}", failure.name);
        let card = ErrorCard {
            title: &title,
            cause: &failure.reason,
            primary: "Try again",
            details: "",
        };
        let action = card.show(ui);
        if action.primary {
            out.push(Msg::Models(ModelsMsg::Retry));
        }
        if action.copy {
            out.push(Msg::Copy(format!("{title}: {}", failure.reason)));
        }
        ui.add_space(12.0);
    }
}

fn columns(density: Density) -> Columns {
    match density {
        Density::Narrow => Columns::new([None, Some(80.0), Some(120.0), Some(84.0)]),
        _ => Columns::new([None, Some(110.0), Some(170.0), Some(150.0), Some(92.0)]),
    }
}

fn table(ui: &mut Ui, state: &State, density: Density, out: &mut Vec<Msg>) {
    let Some(survey) = &state.models.survey else {
        dspark_look::empty_card(
            ui,
            160.0,
            Icon::Cube,
            "Looking for models",
            "In the usual places and in your folders.",
            "",
        );
        return;
    };
    let wanted = state.models.filter.trim().to_lowercase();
    let matches =
        |name: &str, detail: &str| wanted.is_empty() || name.to_lowercase().contains(&wanted) || detail.to_lowercase().contains(&wanted);
    let installed: Vec<&ModelEntry> = survey
        .installed
        .iter()
        .filter(|entry| matches(&entry.name, &entry.detail))
        .collect();
    let offers: Vec<&Offer> = survey.offers.iter().filter(|offer| matches(&offer.name, &offer.detail)).collect();
    if installed.is_empty() && offers.is_empty() {
        let clear = dspark_look::empty_card(
            ui,
            160.0,
            Icon::Cube,
            "Nothing matches",
            "No model on disk or on offer has this in its name.",
            "Show all",
        );
        if clear {
            out.push(Msg::Models(ModelsMsg::Filter(String::new())));
        }
        return;
    }
    let columns = columns(density);
    let narrow = density == Density::Narrow;
    card_flush(ui, |ui| {
        if narrow {
            let labels = [
                ("Model", Align::Min),
                ("Size", Align::Max),
                ("Memory fit", Align::Min),
                ("", Align::Max),
            ];
            table_head(ui, &columns, &labels);
        } else {
            let labels = [
                ("Model", Align::Min),
                ("Size", Align::Max),
                ("Where", Align::Min),
                ("Memory fit", Align::Min),
                ("", Align::Max),
            ];
            table_head(ui, &columns, &labels);
        }
        for entry in installed {
            installed_row(ui, state, &columns, narrow, entry, out);
        }
        for offer in offers {
            offer_row(ui, state, &columns, narrow, offer, out);
        }
    });
}

fn name_cell(ui: &mut Ui, name: &str, detail: &str, chips: &[(&str, Tone)]) {
    let theme = Theme::of(ui);
    ui.vertical(|ui| {
        ui.spacing_mut().item_spacing = vec2(8.0, 0.0);
        ui.spacing_mut().interact_size.y = 20.0;
        ui.add_space(10.0);
        ui.horizontal(|ui| {
            let chips_width: f32 = chips.iter().map(|(text, _)| text.len() as f32 * 6.5 + 24.0).sum();
            let galley = Type::CONTROL.ellipsis(ui, name, theme.t1, (ui.available_width() - chips_width).max(40.0));
            ui.add(egui::Label::new(galley));
            for (text, tone) in chips {
                ui.add(Chip::new(text).tone(*tone).tight());
            }
        });
        ui.spacing_mut().interact_size.y = 18.0;
        let galley = Type::SMALL.ellipsis(ui, detail, theme.t3, ui.available_width());
        ui.add(egui::Label::new(galley));
    });
}

fn fit_cell(ui: &mut Ui, fit: &crate::bridge::Fit) {
    if let Some((words, tone, icon)) = chip(fit) {
        let response = ui.add(Chip::new(words).tone(tone).icon(icon));
        let sum: Vec<String> = fit.parts.iter().map(|(name, size)| format!("{name} {}", bytes(*size))).collect();
        if !sum.is_empty() {
            tip(response, words, &sum.join(", "));
        }
    }
}

fn plain(ui: &Ui, text: &str) -> egui::text::LayoutJob {
    dspark_look::runs(&[(text, Type::BASE, Theme::of(ui).t1)])
}

fn installed_row(ui: &mut Ui, state: &State, columns: &Columns, narrow: bool, entry: &ModelEntry, out: &mut Vec<Msg>) {
    let loaded = state.engine.model.as_ref().is_some_and(|model| model.path == entry.path);
    let loading = state.models.loading.as_ref().is_some_and(|loading| loading.path == entry.path);
    let mut row = TableRow::new(ui, columns, &entry.name, 58.0, false);
    row.cell(ui, Align::Min, |ui| {
        let mut chips = Vec::new();
        if loaded {
            chips.push(("Loaded", Tone::Accent));
        }
        let detail = entry.problem.as_deref().unwrap_or(&entry.detail);
        name_cell(ui, &entry.name, detail, &chips);
    });
    row.cell(ui, Align::Max, |ui| {
        two_lines(ui, plain(ui, &bytes(entry.bytes)), "on disk", Align::Max)
    });
    if !narrow {
        row.cell(ui, Align::Min, |ui| {
            let response = ui.add(egui::Label::new(Type::SMALL.rich(&entry.source, Theme::of(ui).t2)).truncate());
            tip(response, "Folder", &entry.path.display().to_string());
        });
    }
    row.cell(ui, Align::Min, |ui| fit_cell(ui, &entry.fit));
    row.cell(ui, Align::Max, |ui| {
        if loaded {
            if ui
                .add(Button::quiet("Unload").small().flush_right().enabled(!state.models.unloading))
                .clicked()
            {
                out.push(Msg::Models(ModelsMsg::Unload));
            }
        } else if loading {
            dspark_look::busy_ring(ui, 14.0, Theme::of(ui).accent, "Loading");
        } else {
            let label = format!("Load {}", entry.name);
            let enabled = entry.problem.is_none() && state.models.loading.is_none();
            if ui.add(Button::secondary("Load").small().enabled(enabled).label(&label)).clicked() {
                out.push(Msg::Models(ModelsMsg::Load(entry.clone())));
            }
        }
    });
}

fn offer_row(ui: &mut Ui, state: &State, columns: &Columns, narrow: bool, offer: &Offer, out: &mut Vec<Msg>) {
    let mut row = TableRow::new(ui, columns, &offer.name, 58.0, false);
    row.cell(ui, Align::Min, |ui| {
        let chips: &[(&str, Tone)] = if offer.starter { &[("Starter", Tone::Neutral)] } else { &[] };
        name_cell(ui, &offer.name, &offer.detail, chips);
    });
    row.cell(ui, Align::Max, |ui| {
        let size = if offer.bytes > 0 { bytes(offer.bytes) } else { "unknown".into() };
        two_lines(ui, plain(ui, &size), "download", Align::Max)
    });
    if !narrow {
        row.cell(ui, Align::Min, |ui| {
            let place = if offer.starter { "Model hub or package index" } else { "Model hub" };
            ui.add(egui::Label::new(Type::SMALL.rich(place, Theme::of(ui).t2)).truncate());
        });
    }
    row.cell(ui, Align::Min, |ui| fit_cell(ui, &offer.fit));
    row.cell(ui, Align::Max, |ui| {
        let enabled = state.models.fetching.is_none() && offer.fit.level != FitLevel::TooBig;
        let label = format!("Get {}", offer.name);
        let button = Button::secondary("Get")
            .small()
            .icon(Icon::DownloadSimple)
            .enabled(enabled)
            .label(&label);
        if ui.add(button).clicked() {
            out.push(Msg::Models(ModelsMsg::Fetch(offer.clone())));
        }
    });
}

fn folder(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    card(ui, |ui| {
        ui.spacing_mut().item_spacing = vec2(8.0, 6.0);
        ui.label(Type::PANEL.rich("Any folder", theme.t1));
        ui.add(
            egui::Label::new(Type::NOTE.rich(
                "A folder with config.json and safetensors weights, as the model hub keeps them. Type its path, or drop it on the window.",
                theme.t2,
            ))
            .wrap(),
        );
        ui.add_space(2.0);
        path_field(ui, state, out);
    });
    if let Some(model) = &state.engine.model {
        ui.add_space(12.0);
        card(ui, |ui| {
            ui.spacing_mut().item_spacing = vec2(8.0, 0.0);
            ui.label(Type::PANEL.rich(format!("Loaded: {}", model.name), theme.t1));
            ui.add_space(8.0);
            let parameters = model.parameters as f64;
            let size = if parameters >= 1e9 {
                format!("{:.1} billion", parameters / 1e9)
            } else {
                format!("{:.0} million", parameters / 1e6)
            };
            let rows = [
                ("Architecture", model.model_type.clone()),
                ("Parameters", size),
                ("Weights", format!("{}, {}", model.quantization, bytes(model.weight_bytes))),
                ("Drafter", drafter(state)),
                ("Decoding", decoding(state)),
                ("Context window", format!("{} tokens", count(model.context_window))),
                ("Cache per 1,000 tokens", bytes(model.kv_bytes_per_token * 1000)),
                ("Memory", memory(state, model)),
                ("Folder", model.path.display().to_string()),
            ];
            for (key, value) in rows {
                let shown = dspark_look::middle_ellipsis(ui, Type::NOTE, &value, ui.available_width() - 190.0);
                dspark_look::key_value(ui, key, &shown);
            }
            for note in &model.notes {
                ui.add_space(6.0);
                ui.add(egui::Label::new(Type::NOTE.rich(note, theme.t2)).wrap());
            }
        });
    }
}

/// `Qwen3-8B-DSpark, DSpark, 780 MB`.
fn drafter(state: &State) -> String {
    let loaded = state.engine.speculation.as_ref().and_then(|state| state.drafter.as_ref());
    loaded.map_or_else(
        || "none".into(),
        |drafter| format!("{}, {}, {}", drafter.name, mode_named(&drafter.kind), bytes(drafter.weight_bytes)),
    )
}

/// What is done with it, or why nothing is.
fn decoding(state: &State) -> String {
    let Some(speculation) = &state.engine.speculation else {
        return "plain".into();
    };
    let name = mode(speculation.mode);
    match (&speculation.reason, speculation.cap) {
        (Some(reason), _) => format!("{name}: {reason}"),
        (None, 0) => name.into(),
        (None, cap) => format!("{name}, up to {cap} drafted a round"),
    }
}

/// What MLX holds now, against what was expected before loading.
fn memory(state: &State, model: &ModelInfo) -> String {
    let now = format!("{} in use", bytes(state.engine.memory.active));
    let survey = state.models.survey.as_ref();
    let entry = survey.and_then(|survey| survey.installed.iter().find(|entry| entry.path == model.path));
    let expected: u64 = entry.map_or(0, |entry| entry.fit.parts.iter().map(|part| part.1).sum());
    if expected > 0 {
        format!("{now}, estimate with a full context {}", bytes(expected))
    } else {
        now
    }
}
