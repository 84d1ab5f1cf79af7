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
use dspark_strings::t;
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
        t!(on_this_mac)
    } else {
        t!(on_this_machine)
    };
    let downloads = &state.models.downloads;
    let busy = usize::from(state.models.fetching.is_some()) + downloads.queue.len();
    let arriving = if busy > 0 {
        t!(downloads_busy, busy = busy)
    } else {
        t!(downloads).into()
    };
    let choices = [
        (ModelsTab::Recommended, t!(recommended)),
        (ModelsTab::Here, here),
        (ModelsTab::Search, t!(search_hub)),
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
        select(ui, t!(part_of_screen), &mut tab, &choices, width)
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
        let hint = if recommended { t!(filter_or_paste) } else { t!(filter) };
        let response = ui.add(
            TextField::new(&mut filter, t!(filter_models))
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
                t!(fits_this_mac)
            } else {
                t!(fits_this_machine)
            };
            let words = if all { t!(any_size) } else { fits };
            let button = Button::quiet(words).icon(Icon::FunnelSimple).label(t!(size_of_shown));
            if ui.add(button).clicked() {
                out.push(Msg::Models(ModelsMsg::AnySize(!all)));
            }
        }
        let again = Button::quiet(t!(look_again))
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
                ui.add(Label::new(Type::NOTE.rich(t!(look_on_hub, filter = filter), theme.t2)).truncate());
                if ui.add(Button::secondary(t!(look_it_up)).small()).clicked() {
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
        words.push(t!(gbs_measured, rate = format!("{:.0}", known.bandwidth.gigabytes_per_second)));
    }
    // What verdicts are held against: a machine keeps some of its memory for itself.
    let survey = state.models.survey.iter();
    let budget = survey
        .flat_map(|survey| &survey.offers)
        .map(|offer| offer.fit.budget)
        .find(|budget| *budget > 0);
    let budget = budget.unwrap_or(state.engine.memory.limit);
    if budget > 0 {
        words.push(t!(for_models, size = bytes(budget)));
    }
    words.join(", ")
}

fn under_way(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    if let Some(fetching) = &state.models.fetching {
        let detail = if fetching.cancelled {
            t!(stopping).into()
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
            (true, _) => t!(cancelling).into(),
            (false, 0) => t!(reading_every_byte).into(),
            (false, total) => t!(reading_every_byte_of, done = bytes(at.done), total = bytes(total)),
        };
        let progress = Progress {
            name: &t!(verifying, name = checking.name),
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
        let title = if failure.download {
            t!(was_not_downloaded, name = failure.name)
        } else {
            t!(did_not_load, name = failure.name)
        };
        let card = ErrorCard {
            title: &title,
            cause: &failure.reason,
            primary: t!(try_again),
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
        return nothing(ui, state, t!(no_known_pair), out);
    }
    table(
        ui,
        state,
        &[Column::Download, Column::Plain, Column::Drafts, Column::Fit],
        &lines,
        out,
    );
    ui.add_space(12.0);
    let mut words = String::from(t!(tok_s_note));
    if state.bandwidth().is_none() {
        words.push_str(t!(ceilings_note));
    } else if state.engine.machine.backend == "metal" {
        words.push_str(t!(scaled_note));
    } else {
        words.push_str(t!(not_scaled_note));
    }
    ui.add(Label::new(Type::SMALL.rich(words, Theme::of(ui).t3)).wrap());
}

fn looking(ui: &mut Ui) {
    let line = t!(usual_places);
    dspark_look::empty_card(ui, 160.0, Icon::Cube, t!(looking_for_models), line, "");
}

fn nothing(ui: &mut Ui, state: &State, line: &str, out: &mut Vec<Msg>) {
    let filtered = !state.models.filter.trim().is_empty();
    let button = if filtered { t!(show_all) } else { "" };
    if dspark_look::empty_card(ui, 160.0, Icon::Cube, t!(nothing_matches), line, button) {
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
        let line = t!(looked_through);
        if dspark_look::empty_card(ui, 180.0, Icon::Cube, t!(no_model_here), line, t!(see_recommended)) {
            out.push(Msg::Models(ModelsMsg::Tab(ModelsTab::Recommended)));
        }
    } else if lines.is_empty() {
        nothing(ui, state, t!(no_model_in_name), out);
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
        ui.label(Type::PANEL.rich(t!(any_folder), theme.t1));
        let words = t!(any_folder_line);
        ui.add(Label::new(Type::NOTE.rich(words, theme.t2)).wrap());
        ui.add_space(2.0);
        path_field(ui, state, out);
        ui.horizontal(|ui| {
            let disk = state.models.survey.as_ref().map(|survey| survey.disk).unwrap_or_default();
            let free = disk.free.map_or_else(String::new, |free| t!(free_on_disk, size = bytes(free)));
            ui.label(Type::SMALL.rich(t!(brought_by, size = bytes(disk.ours), free = free), theme.t3));
            if ui.add(Button::quiet(t!(folders_searched)).small().icon(Icon::FolderPlus)).clicked() {
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
            let words = t!(come_free, size = bytes(frees), place = place);
            let answer = confirm(ctx, &t!(delete_question, name = entry.name), &words, t!(delete), t!(keep), true);
            (answer, ShelfMsg::Delete(entry.path.clone()).into())
        }
        Question::Discard(left) => {
            let words = t!(arrived_deleted, size = bytes(left.bytes));
            let title = t!(delete_part_question, name = crate::state::short(&left.id));
            let answer = confirm(ctx, &title, &words, t!(delete), t!(keep), true);
            (answer, DownloadMsg::Discard(left.id.clone()).into())
        }
        Question::Load(entry, decoding) => {
            let needs = bytes(entry.fit.at.total());
            let words = t!(needs_about, needs = needs, budget = bytes(entry.fit.budget));
            let answer = confirm(
                ctx,
                &t!(load_although_big, name = entry.name),
                &words,
                t!(load_anyway),
                t!(do_not_load),
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
        ui.label(Type::HEADING.rich(t!(stop_download_of, name = fetching.name), theme.t1));
        let words = t!(come_kept, size = bytes(fetching.progress.done));
        ui.add(Label::new(Type::BASE.rich(words, theme.t2)).wrap());
        ui.add_space(8.0);
        dspark_look::controls(ui, |ui| {
            dspark_look::from_right(ui, |ui| {
                if ui.add(Button::primary(t!(stop_and_keep))).clicked() {
                    out.push(DownloadMsg::Stop(Then::Keep).into());
                }
                if ui.add(Button::danger(t!(stop_and_delete))).clicked() {
                    out.push(DownloadMsg::Stop(Then::Delete).into());
                }
                if ui.add(Button::quiet(t!(go_on))).clicked() {
                    out.push(Msg::Models(ModelsMsg::Dismiss));
                }
            });
        });
    });
    if close {
        out.push(Msg::Models(ModelsMsg::Dismiss));
    }
}
