//! Models: what is recommended, what is on this machine, what the hub has, and what is on its way.

mod detail;
mod downloads;
mod hub;
mod line;
mod loaded;
mod rows;
mod sheet;

use crate::{
    bridge::FitLevel,
    screens::first_run::loading_card,
    shell::{header::fetching_words, picker::path_field, text::bytes},
    state::{DownloadMsg, HubMsg, ModelsMsg, ModelsTab, Msg, Question, Screen, SettingsMsg, SettingsPage, ShelfMsg, State, Then},
};
use dspark_look::{
    Answer, Button, ErrorCard, Icon, Progress, TextField, Theme, Type, card, column, confirm, modal, progress_row, select, tabs,
};
use egui::{Context, Label, ScrollArea, Ui, vec2};
use line::Line;
use rows::{Column, table};

pub fn show(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let tab = state.models.tab;
    ScrollArea::vertical()
        .id_salt(("models", tab))
        .auto_shrink([false, false])
        .show(ui, |ui| {
            column(ui, 1000.0, 24.0, |ui| {
                ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
                ui.add_space(16.0);
                match tab {
                    ModelsTab::Recommended => {
                        top(ui, state, true, out);
                        under_way(ui, state, out);
                        recommended(ui, state, out);
                    }
                    ModelsTab::Here => {
                        top(ui, state, false, out);
                        under_way(ui, state, out);
                        here(ui, state, out);
                    }
                    ModelsTab::Search => {
                        under_way(ui, state, out);
                        hub::show(ui, state, out);
                    }
                    ModelsTab::Downloads => {
                        loading(ui, state, out);
                        downloads::show(ui, state, out);
                    }
                }
                ui.add_space(24.0);
            });
        });
    sheet::show(ui.ctx(), state, out);
    questions(ui.ctx(), state, out);
}

/// The parts of the screen, in the header. A list where they do not fit beside each other.
pub(crate) fn choose_tab(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let mut tab = state.models.tab;
    let here = if cfg!(target_os = "macos") {
        "On this Mac"
    } else {
        "On this machine"
    };
    let downloads = &state.models.downloads;
    let busy = usize::from(state.models.fetching.is_some()) + downloads.queue.len();
    let arriving = if busy > 0 {
        format!("Downloads ({busy})")
    } else {
        "Downloads".into()
    };
    let choices = [
        (ModelsTab::Recommended, "Recommended"),
        (ModelsTab::Here, here),
        (ModelsTab::Search, "Search the hub"),
        (ModelsTab::Downloads, arriving.as_str()),
    ];
    let theme = Theme::of(ui);
    let wanted: f32 = choices
        .iter()
        .map(|(_, words)| Type::CONTROL.galley(ui, *words, theme.t1).size().x + 26.0)
        .sum();
    let changed = if wanted + 8.0 <= ui.available_width() {
        tabs(ui, &mut tab, &choices).changed()
    } else {
        let width = ui.available_width().clamp(96.0, 170.0);
        select(ui, "Part of the screen", &mut tab, &choices, width)
    };
    if changed {
        out.push(Msg::Models(ModelsMsg::Tab(tab)));
    }
}

/// Filter at the left; at the right the machine that all verdicts are about.
fn top(ui: &mut Ui, state: &State, recommended: bool, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let mut filter = state.models.filter.clone();
    dspark_look::controls(ui, |ui| {
        let hint = if recommended { "Filter, or paste a repository" } else { "Filter" };
        let response = ui.add(
            TextField::new(&mut filter, "Filter models")
                .hint(hint)
                .icon(Icon::MagnifyingGlass)
                .width(280.0),
        );
        let entered = response.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
        if entered && crate::state::hub::is_repository(&filter) {
            out.extend(search_for(&filter));
        }
        if recommended {
            let all = state.models.any_size;
            let fits = if cfg!(target_os = "macos") {
                "Fits this Mac"
            } else {
                "Fits this machine"
            };
            let words = if all { "Any size" } else { fits };
            let button = Button::quiet(words).icon(Icon::FunnelSimple).label("Size of the models shown");
            if ui.add(button).clicked() {
                out.push(Msg::Models(ModelsMsg::AnySize(!all)));
            }
        }
        let again = Button::quiet("Look again")
            .icon(Icon::ArrowsClockwise)
            .enabled(!state.models.surveying);
        if !recommended && ui.add(again).clicked() {
            out.push(Msg::Models(ModelsMsg::Survey));
        }
        dspark_look::from_right(ui, |ui| {
            ui.add(Label::new(Type::SMALL.rich(machine(state), theme.t3)).truncate());
        });
    });
    if filter != state.models.filter {
        out.push(Msg::Models(ModelsMsg::Filter(filter)));
    }
    ui.add_space(14.0);
    let filter = state.models.filter.trim();
    if recommended && crate::state::hub::is_repository(filter) {
        card(ui, |ui| {
            ui.horizontal(|ui| {
                ui.add(Label::new(Type::NOTE.rich(format!("Look for “{filter}” on the hub?"), theme.t2)).truncate());
                if ui.add(Button::secondary("Look it up").small()).clicked() {
                    out.extend(search_for(filter));
                }
            });
        });
        ui.add_space(12.0);
    }
}

fn search_for(text: &str) -> Vec<Msg> {
    vec![
        HubMsg::Query(text.trim().to_owned()).into(),
        Msg::Models(ModelsMsg::Filter(String::new())),
        Msg::Models(ModelsMsg::Tab(ModelsTab::Search)),
        HubMsg::Go.into(),
    ]
}

/// `Apple M4 Pro, 226 GB/s measured, 38.7 GB for models`.
fn machine(state: &State) -> String {
    let mut words = Vec::new();
    if !state.engine.machine.device.is_empty() {
        words.push(state.engine.machine.device.clone());
    }
    if let Some(known) = state.bandwidth() {
        words.push(format!("{:.0} GB/s measured", known.bandwidth.gigabytes_per_second));
    }
    if state.engine.memory.limit > 0 {
        words.push(format!("{} for models", bytes(state.engine.memory.limit)));
    }
    words.join(", ")
}

fn under_way(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    if let Some(fetching) = &state.models.fetching {
        let detail = if fetching.cancelled {
            "Stopping".into()
        } else {
            fetching_words(fetching)
        };
        let progress = Progress {
            name: &fetching.name,
            detail: &detail,
            part: fetching.percent().map(|percent| f32::from(percent) / 100.0),
            paused: false,
            pausable: true,
        };
        let action = progress_row(ui, &progress);
        if action.pause_or_resume {
            out.push(DownloadMsg::Pause.into());
        }
        if action.cancel {
            out.push(Msg::Models(ModelsMsg::Ask(Question::Stop)));
        }
        ui.add_space(12.0);
    }
    loading(ui, state, out);
}

fn loading(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    if let Some(loading) = &state.models.loading {
        loading_card(ui, loading, out);
        ui.add_space(12.0);
    }
    if let Some(checking) = &state.models.shelf.checking {
        let at = &checking.progress;
        let detail = match (checking.cancelled, at.total) {
            (true, _) => "Cancelling".into(),
            (false, 0) => "Reading every byte".into(),
            (false, total) => format!("Reading every byte, {} of {}", bytes(at.done), bytes(total)),
        };
        let progress = Progress {
            name: &format!("Verifying {}", checking.name),
            detail: &detail,
            part: (at.total > 0).then(|| at.done as f32 / at.total as f32),
            paused: false,
            pausable: false,
        };
        if progress_row(ui, &progress).cancel {
            out.push(ShelfMsg::CancelVerify.into());
        }
        ui.add_space(12.0);
    }
    // A download that failed stands with the downloads.
    if state.models.failure.as_ref().is_some_and(|failure| !failure.download) {
        failure_card(ui, state, out);
    }
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

fn matches(state: &State, line: &Line<'_>) -> bool {
    let wanted = state.models.filter.trim().to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&wanted);
    wanted.is_empty() || crate::state::hub::is_repository(&wanted) || has(line.name) || has(line.detail) || has(&line.key)
}

fn recommended(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let Some(survey) = &state.models.survey else { return looking(ui) };
    let lines: Vec<_> = survey
        .offers
        .iter()
        .map(|offer| Line::offered(state, offer))
        .filter(|line| matches(state, line))
        .filter(|line| state.models.any_size || line.entry.is_some() || line.fit.level() != FitLevel::TooBig)
        .map(|line| (line, 0))
        .collect();
    if lines.is_empty() {
        return nothing(ui, state, "No known pair has this in its name.", out);
    }
    table(
        ui,
        state,
        &[Column::Download, Column::Plain, Column::Drafts, Column::Fit],
        &lines,
        out,
    );
    ui.add_space(12.0);
    let mut words = String::from("Tok/s is the decode rate at short context.");
    if state.bandwidth().is_none() {
        words.push_str(" Ceilings appear once this machine’s memory is measured, in the Lab under This machine.");
    } else if state.engine.machine.backend == "metal" {
        words.push_str(" Estimates scale pairs that others measured to this machine.");
    } else {
        words.push_str(" What others measured is not scaled to this machine: it waits for arithmetic more than for memory.");
    }
    ui.add(Label::new(Type::SMALL.rich(words, Theme::of(ui).t3)).wrap());
}

fn looking(ui: &mut Ui) {
    let line = "In the usual places and in your folders.";
    dspark_look::empty_card(ui, 160.0, Icon::Cube, "Looking for models", line, "");
}

fn nothing(ui: &mut Ui, state: &State, line: &str, out: &mut Vec<Msg>) {
    let filtered = !state.models.filter.trim().is_empty();
    let button = if filtered { "Show all" } else { "" };
    if dspark_look::empty_card(ui, 160.0, Icon::Cube, "Nothing matches", line, button) {
        out.push(Msg::Models(ModelsMsg::Filter(String::new())));
    }
}

fn here(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let Some(survey) = &state.models.survey else { return looking(ui) };
    let lines: Vec<_> = survey
        .installed
        .iter()
        .map(|entry| Line::here(state, entry))
        .filter(|line| matches(state, line))
        .map(|line| (line, 0))
        .collect();
    if survey.installed.is_empty() {
        let line = "Own downloads, the Hugging Face cache, LM Studio and your folders were looked through.";
        if dspark_look::empty_card(
            ui,
            180.0,
            Icon::Cube,
            "No model is on this machine",
            line,
            "See what is recommended",
        ) {
            out.push(Msg::Models(ModelsMsg::Tab(ModelsTab::Recommended)));
        }
    } else if lines.is_empty() {
        nothing(ui, state, "No model on this machine has this in its name.", out);
    } else {
        table(
            ui,
            state,
            &[Column::Download, Column::Where, Column::Used, Column::Fit],
            &lines,
            out,
        );
    }
    ui.add_space(12.0);
    folder(ui, state, out);
    if state.has_model() {
        ui.add_space(12.0);
        loaded::show(ui, state);
    }
}

fn folder(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    card(ui, |ui| {
        ui.spacing_mut().item_spacing = vec2(8.0, 6.0);
        ui.label(Type::PANEL.rich("Any folder", theme.t1));
        let words =
            "A folder with config.json and safetensors weights, as the model hub keeps them. Type its path, or drop it on the window.";
        ui.add(Label::new(Type::NOTE.rich(words, theme.t2)).wrap());
        ui.add_space(2.0);
        path_field(ui, state, out);
        ui.horizontal(|ui| {
            let disk = state.models.survey.as_ref().map(|survey| survey.disk).unwrap_or_default();
            let free = disk
                .free
                .map_or_else(String::new, |free| format!(", {} free on the disk", bytes(free)));
            ui.label(Type::SMALL.rich(format!("{} brought by this program{free}.", bytes(disk.ours)), theme.t3));
            if ui
                .add(Button::quiet("Folders that are searched").small().icon(Icon::FolderPlus))
                .clicked()
            {
                out.push(Msg::Settings(SettingsMsg::Page(SettingsPage::Models)));
                out.push(Msg::Show(Screen::Settings));
            }
        });
    });
}

/// What is asked before something that cannot be taken back.
fn questions(ctx: &Context, state: &State, out: &mut Vec<Msg>) {
    let Some(question) = &state.models.question else { return };
    let dismiss = Msg::Models(ModelsMsg::Dismiss);
    let (answer, yes) = match question {
        Question::Stop => return stop(ctx, state, out),
        Question::Delete(entry) => {
            let frees = entry
                .removal
                .as_ref()
                .and_then(|removal| removal.as_ref().ok())
                .copied()
                .unwrap_or(0);
            let place = entry.path.display();
            let words = format!(
                "{} come free. The files in {place} are gone then; they can be downloaded again.",
                bytes(frees)
            );
            let answer = confirm(ctx, &format!("Delete {}?", entry.name), &words, "Delete", "Keep", true);
            (answer, ShelfMsg::Delete(entry.path.clone()).into())
        }
        Question::Discard(left) => {
            let words = format!("{} that have come are deleted. A later download begins anew.", bytes(left.bytes));
            let title = format!("Delete what is here of {}?", crate::state::short(&left.id));
            let answer = confirm(ctx, &title, &words, "Delete", "Keep", true);
            (answer, DownloadMsg::Discard(left.id.clone()).into())
        }
        Question::Load(entry, decoding) => {
            let needs = bytes(entry.fit.at.total());
            let words = format!(
                "It needs about {needs}, and this machine gives a model {}. It may swap and everything may become slow; whatever is loaded now comes back if it fails.",
                bytes(entry.fit.budget)
            );
            let answer = confirm(
                ctx,
                &format!("Load {} although it is too big?", entry.name),
                &words,
                "Load anyway",
                "Do not load",
                true,
            );
            let (entry, decoding) = ((**entry).clone(), decoding.clone());
            (answer, Msg::Models(ModelsMsg::LoadAnyway { entry, decoding }))
        }
    };
    match answer {
        Some(Answer::Yes) => out.push(yes),
        Some(Answer::No) => out.push(dismiss),
        None => {}
    }
}

/// Three ways out of a download.
fn stop(ctx: &Context, state: &State, out: &mut Vec<Msg>) {
    let Some(fetching) = &state.models.fetching else {
        out.push(Msg::Models(ModelsMsg::Dismiss));
        return;
    };
    let ((), close) = modal(ctx, "stop download", 460.0, |ui| {
        let theme = Theme::of(ui);
        ui.spacing_mut().item_spacing.y = 6.0;
        ui.label(Type::HEADING.rich(format!("Stop the download of {}?", fetching.name), theme.t1));
        let words = format!(
            "{} have come. Kept, the next try goes on from there.",
            bytes(fetching.progress.done)
        );
        ui.add(Label::new(Type::BASE.rich(words, theme.t2)).wrap());
        ui.add_space(8.0);
        dspark_look::controls(ui, |ui| {
            dspark_look::from_right(ui, |ui| {
                if ui.add(Button::primary("Stop and keep")).clicked() {
                    out.push(DownloadMsg::Stop(Then::Keep).into());
                }
                if ui.add(Button::danger("Stop and delete")).clicked() {
                    out.push(DownloadMsg::Stop(Then::Delete).into());
                }
                if ui.add(Button::quiet("Go on")).clicked() {
                    out.push(Msg::Models(ModelsMsg::Dismiss));
                }
            });
        });
    });
    if close {
        out.push(Msg::Models(ModelsMsg::Dismiss));
    }
}
