//! The first pages: what this machine is, which models sit well in it, and how the chosen one comes up.

mod check;
mod go;

use crate::{
    bridge::{FitAt, FitLevel, ModelEntry, Offer},
    screens::models::failure_card,
    shell::text::bytes,
    state::{Choice, FirstRunMsg, Loading, ModelsMsg, ModelsTab, Msg, Screen, State, Step},
};
use dspark_look::{Button, Icon, OptionRow, Progress, Theme, Tone, Type, card_flush, list_heading, paint, progress_row, tip};
use dspark_strings::t;
use egui::{Ui, vec2};
use std::borrow::Cow;

/// `height` is what can be seen at once: the list is cut so that the button below it is in sight.
pub fn show(ui: &mut Ui, state: &State, height: f32, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
    // A low window needs the room below, between the checks and the composer.
    ui.add_space(if height < 560.0 { 24.0 } else { 44.0 });
    let mac = cfg!(target_os = "macos");
    let look = if mac { t!(look_at_mac) } else { t!(look_at_machine) };
    let pick = if mac { t!(pick_for_mac) } else { t!(pick_for_machine) };
    let step = state.first_step();
    let (title, line, nth) = match step {
        Step::Check => (look.to_owned(), machine_line(state, t!(nothing_leaves)), 1),
        Step::Pick => (pick.to_owned(), machine_line(state, t!(everything_runs_here)), 2),
        Step::Go => (getting(state), t!(write_already).into(), 3),
    };
    let top = ui.cursor().min;
    ui.label(Type::TITLE.rich(title, theme.t1));
    let place = egui::Rect::from_min_size(top, vec2(ui.available_width(), 30.0));
    paint::over_right(ui, place, |ui| ui.label(Type::LABEL.rich(t!(step_of_3, nth = nth), theme.t3)));
    ui.add_space(4.0);
    ui.add(egui::Label::new(Type::PROSE.rich(line, theme.t2)).wrap());
    ui.add_space(20.0);
    failure_card(ui, state, out);
    match step {
        Step::Check => return check::show(ui, state, out),
        Step::Go => return go::show(ui, state, out),
        Step::Pick => {}
    }
    let headings = state.models.survey.as_ref().map_or(0, |survey| {
        usize::from(!survey.installed.is_empty()) + usize::from(survey.suggestions().next().is_some())
    });
    let rows = ((height - 240.0 - 36.0 * headings as f32) / 61.0).floor().max(2.0) as usize;
    let all = choices(ui, state, rows, out);
    ui.add_space(16.0);
    buttons(ui, state, all, out);
    checks(ui, state);
    ui.add_space(24.0);
}

fn machine_line(state: &State, end: &str) -> String {
    let machine = &state.engine.machine;
    let mut line = String::new();
    if !machine.device.is_empty() {
        line = t!(
            device_memory,
            device = machine.device,
            memory = format!("{:.0}", machine.ram as f64 / (1u64 << 30) as f64)
        );
    }
    line.push_str(end);
    line
}

/// "Getting Qwen3-8B ready".
fn getting(state: &State) -> String {
    let models = &state.models;
    let name = models.fetching.as_ref().map(|fetching| &fetching.name);
    let name = name.or(models.loading.as_ref().map(|loading| &loading.name));
    let name = name.or(state.engine.model.as_ref().map(|model| &model.name));
    name.map_or_else(|| t!(getting_ready).into(), |name| t!(getting_named_ready, name = name))
}

pub(crate) fn loading_card(ui: &mut Ui, loading: &Loading, out: &mut Vec<Msg>) {
    use dspark_protocol::LoadStage as Stage;
    let words = match loading.stage {
        _ if loading.cancelled => t!(cancelling).to_owned(),
        Stage::Checking => t!(checking_files).into(),
        Stage::Reading if loading.total > 0 => t!(reading_weights_of, done = bytes(loading.done), total = bytes(loading.total)),
        Stage::Reading => t!(reading_weights).into(),
        Stage::Preparing => t!(preparing_model).into(),
        Stage::Calibrating => t!(measuring_fastest).into(),
        Stage::WarmingUp => t!(warming_up).into(),
    };
    // The bar goes on through the stages that count nothing.
    let part = match loading.stage {
        Stage::Checking => Some(0.02),
        Stage::Reading => Some(0.05 + 0.75 * loading.part().unwrap_or(0.0)),
        Stage::Preparing => Some(0.82),
        Stage::Calibrating => Some(0.88),
        Stage::WarmingUp => Some(0.94),
    };
    let progress = Progress {
        name: &loading.name,
        detail: &words,
        part,
        paused: false,
        pausable: false,
    };
    if progress_row(ui, &progress).cancel {
        out.push(Msg::Models(ModelsMsg::CancelLoad));
    }
}

/// Returns whether everything is shown.
fn choices(ui: &mut Ui, state: &State, rows: usize, out: &mut Vec<Msg>) -> bool {
    let Some(survey) = &state.models.survey else {
        card_flush(ui, |ui| list_heading(ui, t!(looking_for_models_here)));
        return true;
    };
    // Something to fetch is always among them.
    let suggestions: Vec<&Offer> = survey.suggestions().collect();
    let offered = suggestions.len().min(rows.saturating_sub(survey.installed.len()).max(1));
    let here = survey.installed.len().min(rows.saturating_sub(offered).max(1));
    card_flush(ui, |ui| {
        let installed: Vec<&ModelEntry> = survey.installed.iter().take(here).collect();
        if !installed.is_empty() {
            list_heading(ui, t!(already_on_disk));
        }
        for entry in installed {
            let choice = Choice::Installed(entry.path.clone());
            let detail = entry
                .problem
                .clone()
                .unwrap_or_else(|| join(&entry.detail, &t!(found_in, source = entry.source)));
            let verdict = chip(&entry.fit.at);
            let row = OptionRow {
                name: &entry.name,
                detail: &detail,
                chip: borrowed(verdict.as_ref()),
                figures: (t!(use_now), t!(no_download)),
                selected: state.models.choice.as_ref() == Some(&choice),
                enabled: entry.problem.is_none(),
            };
            option(ui, row, choice, out);
        }
        let ram = state.engine.machine.ram as f64 / (1u64 << 30) as f64;
        if suggestions.is_empty() {
            return;
        }
        if ram >= 1.0 {
            list_heading(ui, &t!(recommended_for, ram = format!("{ram:.0}")));
        } else {
            list_heading(ui, t!(recommended));
        }
        for offer in suggestions.iter().take(offered) {
            offer_row(ui, state, offer, out);
        }
    });
    offered == suggestions.len() && here == survey.installed.len()
}

fn offer_row(ui: &mut Ui, state: &State, offer: &Offer, out: &mut Vec<Msg>) {
    let choice = Choice::Offer(offer.id.clone());
    let size = if offer.bytes > 0 {
        bytes(offer.bytes)
    } else {
        t!(size_unknown).into()
    };
    let note = if offer.starter { t!(small_and_quick) } else { t!(download_note) };
    let verdict = chip(&offer.fit.at);
    let row = OptionRow {
        name: &offer.name,
        detail: &offer.detail,
        chip: borrowed(verdict.as_ref()),
        figures: (&size, note),
        selected: state.models.choice.as_ref() == Some(&choice),
        enabled: offer.fit.level() != FitLevel::TooBig,
    };
    option(ui, row, choice, out);
}

fn option(ui: &mut Ui, row: OptionRow<'_>, choice: Choice, out: &mut Vec<Msg>) {
    let response = row.show(ui);
    if response.double_clicked() {
        out.push(Msg::Models(ModelsMsg::Choose(choice)));
        out.push(Msg::Models(ModelsMsg::Start));
    } else if response.clicked() {
        out.push(Msg::Models(ModelsMsg::Choose(choice)));
    }
}

fn join(first: &str, second: &str) -> String {
    if first.is_empty() {
        second.into()
    } else {
        format!("{first}, {second}")
    }
}

/// The words of a verdict come in English, with the model; those that are known are said in the window's language.
fn verdict(words: &str) -> Cow<'_, str> {
    match words {
        "Fits well" => t!(fits_well).into(),
        "Fits" => t!(fits).into(),
        "Too big" => t!(too_big).into(),
        other => other
            .strip_prefix("Fits to ")
            .map_or(other.into(), |window| t!(fits_to, window = window).into()),
    }
}

fn borrowed<'a>(chip: Option<&'a (Cow<'_, str>, Tone, Icon)>) -> Option<(&'a str, Tone, Icon)> {
    chip.map(|(words, tone, icon)| (words.as_ref(), *tone, *icon))
}

pub(crate) fn chip(fit: &FitAt) -> Option<(Cow<'_, str>, Tone, Icon)> {
    let (tone, icon) = match fit.level {
        FitLevel::Unknown => return None,
        FitLevel::Well | FitLevel::Fits => (Tone::Ok, Icon::Check),
        FitLevel::Limited => (Tone::Warn, Icon::CircleHalf),
        FitLevel::TooBig => (Tone::Bad, Icon::Prohibit),
    };
    Some((verdict(&fit.words), tone, icon))
}

fn buttons(ui: &mut Ui, state: &State, all: bool, out: &mut Vec<Msg>) {
    dspark_look::controls(ui, |ui| {
        if ui.add(Button::quiet(t!(use_folder)).icon(Icon::FolderOpen)).clicked() {
            out.push(Msg::Show(Screen::Models));
            out.push(Msg::Models(ModelsMsg::Tab(ModelsTab::Here)));
        }
        if !all && ui.add(Button::quiet(t!(more_models)).icon(Icon::Cube)).clicked() {
            out.push(Msg::Show(Screen::Models));
        }
        dspark_look::from_right(ui, |ui| {
            let words = match (&state.models.choice, &state.models.survey) {
                (Some(Choice::Installed(path)), Some(survey)) => survey
                    .installed
                    .iter()
                    .find(|entry| entry.path == *path)
                    .map(|entry| t!(load_named, name = entry.name)),
                (Some(Choice::Offer(id)), Some(survey)) => survey
                    .offers
                    .iter()
                    .find(|offer| offer.id == *id)
                    .map(|offer| t!(get_named, name = offer.name)),
                _ => None,
            };
            let enabled = words.is_some();
            let words = words.unwrap_or_else(|| t!(load).into());
            if ui.add(Button::primary(&words).detail("⏎").enabled(enabled)).clicked() {
                out.push(Msg::Models(ModelsMsg::Start));
            }
            if ui.add(Button::quiet(t!(skip_for_now))).clicked() {
                out.push(FirstRunMsg::Skip.into());
            }
        });
    });
}

fn checks(ui: &mut Ui, state: &State) {
    let Some(survey) = state.models.survey.as_ref().filter(|survey| !survey.checks.is_empty()) else {
        return;
    };
    let theme = Theme::of(ui);
    ui.add_space(26.0);
    let y = ui.cursor().top();
    paint::hline(ui.painter(), ui.max_rect().x_range(), y, theme.line);
    ui.add_space(15.0);
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing = vec2(6.0, 6.0);
        for check in &survey.checks {
            let (icon, color) = if check.ok {
                (Icon::CheckCircleFill, theme.ok)
            } else {
                (Icon::WarningFill, theme.warn)
            };
            icon.show(ui, 14.0, color);
            let label = ui.label(Type::SMALL.rich(&check.words, theme.t2));
            if !check.reason.is_empty() {
                tip(label, &check.words, &check.reason);
            }
            ui.add_space(16.0);
        }
    });
}
