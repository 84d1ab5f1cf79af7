//! Downloads: the one that runs, those that wait, those that stand still and why, what is left of earlier ones.

use super::hub::words;
use crate::{
    bridge::{Kind, Leftover},
    shell::{header::fetching_words, text::bytes},
    state::{DownloadMsg, Fetching, Held, HubMsg, ModelsMsg, ModelsTab, Msg, Question, State, TokenMsg, short},
};
use dspark_look::{Button, Icon, Progress, Theme, Type, card, empty_card, progress_row};
use dspark_strings::t;
use egui::{Align, Label, Layout, Ui, vec2};

pub(super) fn show(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let models = &state.models;
    let downloads = &models.downloads;
    let known = |id: &str| {
        models.fetching.as_ref().is_some_and(|fetching| fetching.id == id)
            || downloads.queue.iter().any(|offer| offer.id == id)
            || downloads.held.iter().any(|held| held.offer.id == id)
    };
    let left: Vec<&Leftover> = models
        .survey
        .iter()
        .flat_map(|survey| &survey.leftovers)
        .filter(|left| !known(&left.id))
        .collect();
    if models.fetching.is_none() && downloads.queue.is_empty() && downloads.held.is_empty() && downloads.done.is_empty() && left.is_empty()
    {
        let line = t!(downloads_empty_line);
        if empty_card(ui, 180.0, Icon::DownloadSimple, t!(no_downloads), line, t!(see_recommended)) {
            out.push(Msg::Models(ModelsMsg::Tab(ModelsTab::Recommended)));
        }
        return room(ui, state);
    }
    if let Some(fetching) = &models.fetching {
        running(ui, fetching, state.settings.models.download_limit, out);
    }
    for offer in &downloads.queue {
        let size = if offer.bytes > 0 {
            t!(waiting_size, size = bytes(offer.bytes))
        } else {
            t!(waiting_small).into()
        };
        task(ui, &offer.name, &size, |ui| {
            small(ui, t!(drop), &offer.name, None, DownloadMsg::Drop(offer.id.clone()).into(), out);
        });
    }
    heading(ui, t!(stopped), !downloads.held.is_empty());
    for held in &downloads.held {
        stopped(ui, held, out);
    }
    heading(ui, t!(left_of_earlier), !left.is_empty());
    for left in left {
        leftover(ui, left, out);
    }
    heading(ui, t!(arrived), !downloads.done.is_empty());
    for entry in &downloads.done {
        task(ui, &entry.name, &t!(size_checked, size = bytes(entry.bytes)), |ui| {
            if state.engine.model.as_ref().is_some_and(|model| model.path == entry.path) {
                ui.label(Type::SMALL.rich(t!(loaded_small), Theme::of(ui).t3));
            } else if models.loading.is_none() {
                small(ui, t!(load), &entry.name, None, Msg::Models(ModelsMsg::Load(entry.clone())), out);
            }
        });
    }
    if !downloads.done.is_empty() {
        ui.horizontal(|ui| {
            if ui.add(Button::quiet(t!(clear_list)).small()).clicked() {
                out.push(DownloadMsg::ClearDone.into());
            }
        });
    }
    room(ui, state);
}

fn heading(ui: &mut Ui, text: &str, some: bool) {
    if some {
        ui.add_space(10.0);
        let label = ui.label(Type::LABEL.rich(text, Theme::of(ui).t3));
        label.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Heading, true, text));
        ui.add_space(6.0);
    }
}

/// `cap`: MB a second, 0 for none.
fn running(ui: &mut Ui, fetching: &Fetching, cap: u32, out: &mut Vec<Msg>) {
    let detail = if fetching.cancelled {
        t!(stopping).into()
    } else {
        fetching_words(fetching)
    };
    let detail = match cap {
        0 => detail,
        cap => t!(at_most_rate, detail = detail, cap = cap),
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
    ui.add_space(8.0);
}

/// A name over a quieter line, and buttons at the right.
fn task(ui: &mut Ui, name: &str, detail: &str, buttons: impl FnOnce(&mut Ui)) {
    let theme = Theme::of(ui);
    card(ui, |ui| {
        ui.allocate_ui_with_layout(vec2(ui.available_width(), 36.0), Layout::right_to_left(Align::Center), |ui| {
            ui.spacing_mut().item_spacing.x = 6.0;
            buttons(ui);
            ui.add_space(10.0);
            ui.with_layout(Layout::top_down(Align::Min), |ui| {
                ui.spacing_mut().item_spacing.y = 0.0;
                ui.add(Label::new(Type::CONTROL.with_line(18.0).rich(name, theme.t1)).truncate());
                ui.add(Label::new(Type::SMALL.rich(detail, theme.t3)).truncate());
            });
        });
    });
    ui.add_space(8.0);
}

fn small(ui: &mut Ui, words: &str, name: &str, icon: Option<Icon>, message: Msg, out: &mut Vec<Msg>) {
    let label = t!(words_name, words = words, name = name);
    let mut button = Button::secondary(words).small().label(&label);
    if let Some(icon) = icon {
        button = button.icon(icon);
    }
    if ui.add(button).clicked() {
        out.push(message);
    }
}

/// Paused, or failed with the one thing to do about it.
fn stopped(ui: &mut Ui, held: &Held, out: &mut Vec<Msg>) {
    let (name, id) = (&held.offer.name, &held.offer.id);
    let here = match (held.progress.done, held.progress.total) {
        (0, _) => t!(nothing_come_yet).to_owned(),
        (done, 0) => t!(size_here, size = bytes(done)),
        (done, total) => t!(size_of_here, done = bytes(done), total = bytes(total)),
    };
    let Some(trouble) = &held.trouble else {
        task(ui, name, &t!(paused_here, here = here), |ui| {
            delete(ui, id, name, held.progress.done, held.progress.total, out);
            small(ui, t!(resume), name, Some(Icon::Play), DownloadMsg::Resume(id.clone()).into(), out);
        });
        return;
    };
    let (title, primary) = words(trouble);
    card(ui, |ui| {
        let theme = Theme::of(ui);
        ui.spacing_mut().item_spacing = vec2(6.0, 2.0);
        ui.horizontal(|ui| {
            Icon::WarningOctagonFill.show(ui, 16.0, theme.bad);
            ui.label(Type::PANEL.rich(format!("{name}: {}", dspark_strings::within(title)), theme.t1));
        });
        dspark_look::linked(ui, &trouble.words, Type::NOTE, theme.t2);
        ui.add(Label::new(Type::SMALL.rich(here, theme.t3)).wrap());
        ui.add_space(8.0);
        ui.horizontal(|ui| {
            let label = t!(verb_name, verb = primary, name = name);
            if ui.add(Button::primary(primary).small().label(&label)).clicked() {
                out.extend(remedy(held));
            }
            if matches!(trouble.kind, Kind::Gated | Kind::Refused) {
                small(ui, t!(enter_token), name, None, TokenMsg::Enter.into(), out);
                small(ui, t!(try_again), name, None, DownloadMsg::Resume(id.clone()).into(), out);
            }
            small(ui, t!(drop), name, None, DownloadMsg::Drop(id.clone()).into(), out);
        });
    });
    ui.add_space(8.0);
}

/// What the one button of a failed download does.
fn remedy(held: &Held) -> Vec<Msg> {
    let Some(trouble) = &held.trouble else { return Vec::new() };
    match trouble.kind {
        Kind::NoSpace => super::rows::show_here(),
        Kind::Gated | Kind::Refused if !trouble.page.is_empty() => vec![Msg::Open(trouble.page.clone())],
        Kind::Missing | Kind::Unsupported => vec![
            HubMsg::Query(held.offer.name.clone()).into(),
            Msg::Models(ModelsMsg::Tab(ModelsTab::Search)),
            HubMsg::Go.into(),
        ],
        _ => vec![DownloadMsg::Resume(held.offer.id.clone()).into()],
    }
}

fn delete(ui: &mut Ui, id: &str, name: &str, bytes: u64, total: u64, out: &mut Vec<Msg>) {
    let left = Leftover {
        id: id.to_owned(),
        bytes,
        total,
    };
    small(
        ui,
        t!(delete),
        name,
        Some(Icon::Trash),
        Msg::Models(ModelsMsg::Ask(Question::Discard(left))),
        out,
    );
}

fn leftover(ui: &mut Ui, left: &Leftover, out: &mut Vec<Msg>) {
    let detail = match left.total {
        0 => t!(size_here, size = bytes(left.bytes)),
        total => t!(size_of_here, done = bytes(left.bytes), total = bytes(total)),
    };
    task(ui, short(&left.id), &format!("{detail}, {}", left.id), |ui| {
        delete(ui, &left.id, short(&left.id), left.bytes, left.total, out);
        small(
            ui,
            t!(resume),
            short(&left.id),
            Some(Icon::Play),
            DownloadMsg::Resume(left.id.clone()).into(),
            out,
        );
    });
}

/// What lies on the disk, and how much more may.
fn room(ui: &mut Ui, state: &State) {
    let Some(disk) = state.models.survey.as_ref().map(|survey| survey.disk) else {
        return;
    };
    let free = disk.free.map_or_else(String::new, |free| t!(free_on_disk, size = bytes(free)));
    ui.add_space(12.0);
    let words = t!(models_brought, size = bytes(disk.ours), free = free);
    ui.add(Label::new(Type::SMALL.rich(words, Theme::of(ui).t3)).wrap());
}
