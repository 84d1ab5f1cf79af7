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
use egui::{Ui, vec2};

/// `height` is what can be seen at once: the list is cut so that the button below it is in sight.
pub fn show(ui: &mut Ui, state: &State, height: f32, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
    // A low window needs the room below, between the checks and the composer.
    ui.add_space(if height < 560.0 { 24.0 } else { 44.0 });
    let here = if cfg!(target_os = "macos") { "this Mac" } else { "this machine" };
    let step = state.first_step();
    let (title, line, nth) = match step {
        Step::Check => (format!("A look at {here}"), machine_line(state, "Nothing you write leaves it."), 1),
        Step::Pick => (
            format!("Pick a model for {here}"),
            machine_line(state, "Everything below runs here, offline."),
            2,
        ),
        Step::Go => (
            getting(state),
            "You can write already; it is sent as soon as the model is ready.".into(),
            3,
        ),
    };
    let top = ui.cursor().min;
    ui.label(Type::TITLE.rich(title, theme.t1));
    let place = egui::Rect::from_min_size(top, vec2(ui.available_width(), 30.0));
    paint::over_right(ui, place, |ui| ui.label(Type::LABEL.rich(format!("Step {nth} of 3"), theme.t3)));
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
        line = format!("{}, {:.0} GiB. ", machine.device, machine.ram as f64 / (1u64 << 30) as f64);
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
    name.map_or_else(|| "Getting ready".into(), |name| format!("Getting {name} ready"))
}

pub(crate) fn loading_card(ui: &mut Ui, loading: &Loading, out: &mut Vec<Msg>) {
    use dspark_protocol::LoadStage as Stage;
    let words = match loading.stage {
        _ if loading.cancelled => "Cancelling".to_owned(),
        Stage::Checking => "Checking the files".into(),
        Stage::Reading if loading.total > 0 => format!("Reading weights, {} of {}", bytes(loading.done), bytes(loading.total)),
        Stage::Reading => "Reading weights".into(),
        Stage::Preparing => "Preparing the model".into(),
        Stage::Calibrating => "Measuring what is fastest here; once per model".into(),
        Stage::WarmingUp => "Warming up".into(),
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
        card_flush(ui, |ui| list_heading(ui, "Looking for models on this machine"));
        return true;
    };
    // Something to fetch is always among them.
    let suggestions: Vec<&Offer> = survey.suggestions().collect();
    let offered = suggestions.len().min(rows.saturating_sub(survey.installed.len()).max(1));
    let here = survey.installed.len().min(rows.saturating_sub(offered).max(1));
    card_flush(ui, |ui| {
        let installed: Vec<&ModelEntry> = survey.installed.iter().take(here).collect();
        if !installed.is_empty() {
            list_heading(ui, "Already on disk");
        }
        for entry in installed {
            let choice = Choice::Installed(entry.path.clone());
            let detail = entry
                .problem
                .clone()
                .unwrap_or_else(|| join(&entry.detail, &format!("found in {}", entry.source)));
            let row = OptionRow {
                name: &entry.name,
                detail: &detail,
                chip: chip(&entry.fit.at),
                figures: ("Use now", "no download"),
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
            list_heading(ui, &format!("Recommended for {ram:.0} GiB"));
        } else {
            list_heading(ui, "Recommended");
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
        "size unknown".into()
    };
    let note = if offer.starter { "small and quick to get" } else { "download" };
    let row = OptionRow {
        name: &offer.name,
        detail: &offer.detail,
        chip: chip(&offer.fit.at),
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

pub(crate) fn chip(fit: &FitAt) -> Option<(&str, Tone, Icon)> {
    let (tone, icon) = match fit.level {
        FitLevel::Unknown => return None,
        FitLevel::Well | FitLevel::Fits => (Tone::Ok, Icon::Check),
        FitLevel::Limited => (Tone::Warn, Icon::CircleHalf),
        FitLevel::TooBig => (Tone::Bad, Icon::Prohibit),
    };
    Some((fit.words.as_str(), tone, icon))
}

fn buttons(ui: &mut Ui, state: &State, all: bool, out: &mut Vec<Msg>) {
    dspark_look::controls(ui, |ui| {
        if ui.add(Button::quiet("Use a folder").icon(Icon::FolderOpen)).clicked() {
            out.push(Msg::Show(Screen::Models));
            out.push(Msg::Models(ModelsMsg::Tab(ModelsTab::Here)));
        }
        if !all && ui.add(Button::quiet("More models").icon(Icon::Cube)).clicked() {
            out.push(Msg::Show(Screen::Models));
        }
        dspark_look::from_right(ui, |ui| {
            let words = match (&state.models.choice, &state.models.survey) {
                (Some(Choice::Installed(path)), Some(survey)) => survey
                    .installed
                    .iter()
                    .find(|entry| entry.path == *path)
                    .map(|entry| format!("Load {}", entry.name)),
                (Some(Choice::Offer(id)), Some(survey)) => survey
                    .offers
                    .iter()
                    .find(|offer| offer.id == *id)
                    .map(|offer| format!("Get {}", offer.name)),
                _ => None,
            };
            let enabled = words.is_some();
            let words = words.unwrap_or_else(|| "Load".into());
            if ui.add(Button::primary(&words).detail("⏎").enabled(enabled)).clicked() {
                out.push(Msg::Models(ModelsMsg::Start));
            }
            if ui.add(Button::quiet("Skip for now")).clicked() {
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
