//! A card for every client with a settings file or a command of its own, and a row for those that are set up in their own
//! pages.

use super::words::{self, Line, undoes};
use crate::state::{AgentsMsg, Msg, State};
use dspark_agents::{Standing, State as Setting, Step};
use dspark_look::{
    Button, Columns, Density, Icon, TableRow, Theme, Type, card_flush, card_frame, list_heading, middle_ellipsis, paint,
    space::{self, radius},
    tip,
};
use dspark_strings::t;
use egui::{Align, Rect, Role, Sense, Ui, UiBuilder, WidgetInfo, pos2, vec2};

const HEIGHT: f32 = 180.0;

pub(super) fn show(ui: &mut Ui, state: &State, standings: &[Standing], out: &mut Vec<Msg>) {
    let (cards, rows): (Vec<&Standing>, Vec<&Standing>) = standings.iter().partition(|standing| standing.client.file.is_some());
    // Those that are here come first; each keeps its place among its like.
    let (here, elsewhere): (Vec<&Standing>, Vec<&Standing>) = cards
        .into_iter()
        .partition(|standing| standing.found.is_some() || !matches!(standing.state, Setting::NotSetUp));
    let cards: Vec<&Standing> = here.into_iter().chain(elsewhere).collect();
    // One primary button a page: the first that needs somebody.
    let urgent = cards
        .iter()
        .find(|standing| standing.state == Setting::Stale)
        .map(|standing| standing.client.id);
    let columns = Density::of(ui.ctx()).card_columns();
    let gap = space::PANEL_GAP;
    let width = ((ui.available_width() - gap * (columns - 1) as f32) / columns as f32).floor();
    for row in cards.chunks(columns) {
        let (place, _) = ui.allocate_exact_size(vec2(ui.available_width(), HEIGHT), Sense::hover());
        for (at, standing) in row.iter().enumerate() {
            let left = place.left() + at as f32 * (width + gap);
            let rect = Rect::from_min_size(pos2(left, place.top()), vec2(width, HEIGHT));
            ui.scope_builder(UiBuilder::new().max_rect(rect).id_salt(standing.client.id), |ui| {
                let response = card(ui, state, standing, urgent == Some(standing.client.id), out);
                response.widget_info(|| WidgetInfo::labeled(Role::Group, true, standing.client.name));
            });
        }
    }
    by_hand(ui, state, &rows, out);
    let theme = Theme::of(ui);
    ui.label(Type::SMALL.rich(t!(write_shows_changes), theme.t3));
}

fn card(ui: &mut Ui, state: &State, standing: &Standing, urgent: bool, out: &mut Vec<Msg>) -> egui::Response {
    let theme = Theme::of(ui);
    let frame = card_frame(theme).inner_margin(egui::Margin::symmetric(16, 16));
    let shown = frame.show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.set_min_height(HEIGHT - 34.0);
        ui.spacing_mut().item_spacing = vec2(8.0, 0.0);
        head(ui, state, standing);
        ui.add_space(10.0);
        fact(ui, &words::fact(state, standing));
        ui.add_space(12.0);
        strip(ui, &told(state, standing), out);
        ui.add_space(10.0);
        actions(ui, state, standing, urgent, out);
    });
    shown.response
}

fn mark(id: &str) -> Icon {
    match id {
        "codex" => Icon::CodeSimple,
        "opencode" | "crush" => Icon::BracketsCurly,
        "pi" => Icon::Pi,
        "zed" => Icon::Lightning,
        "continue" => Icon::GlobeSimple,
        "raycast" => Icon::MagnifyingGlass,
        "aider" => Icon::GitBranch,
        "cline" => Icon::Stack,
        "open-webui" | "librechat" | "sillytavern" => Icon::ChatCircle,
        _ => Icon::TerminalWindow,
    }
}

fn head(ui: &mut Ui, state: &State, standing: &Standing) {
    let theme = Theme::of(ui);
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 36.0), Sense::hover());
    let place = Rect::from_min_size(pos2(rect.left(), rect.top() + 2.0), vec2(32.0, 32.0));
    paint::boxed(ui.painter(), place, radius::CONTROL, theme.hover, theme.line);
    mark(standing.client.id).paint(ui.painter(), place.center(), dspark_look::icon::size::LARGE, theme.t1);
    let left = place.right() + 12.0;
    let version = standing.found.as_ref().and_then(|found| found.version.clone()).unwrap_or_default();
    let mut job = dspark_look::runs(&[(standing.client.name, Type::PANEL, theme.t1)]);
    if !version.is_empty() {
        job.append(&version, 5.0, Type::BASE.format(theme.t3));
    }
    job.wrap = egui::text::TextWrapping::truncate_at_width(rect.right() - left);
    let name = ui.fonts_mut(|fonts| fonts.layout_job(job));
    let name_place = Rect::from_min_size(pos2(left, rect.top() - 1.0), name.size());
    ui.painter().galley(name_place.min, name, theme.t1);
    let name = ui.interact(name_place, ui.scope_id().with("name"), Sense::hover());
    name.widget_info(|| WidgetInfo::labeled(Role::Heading, true, format!("{} {version}", standing.client.name).trim_end()));
    if let Some(found) = &standing.found {
        tip(name, standing.client.name, &t!(found_at, path = state.agents.short(&found.path)));
    }
    let line = words::standing(state, standing);
    let ink = if line.quiet { theme.t3 } else { line.tone.ink(theme) };
    let y = rect.bottom() - 9.0;
    line.icon
        .paint(ui.painter(), pos2(left + 7.0, y), dspark_look::icon::size::SMALL, ink);
    let words = Type::SMALL.ellipsis(ui, &line.words, ink, rect.right() - left - 20.0);
    let at = Rect::from_min_size(pos2(left + 20.0, y - words.size().y / 2.0), words.size());
    ui.painter().galley(at.min, words, ink);
    let response = ui.interact(at, ui.scope_id().with("state"), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &line.words));
}

fn fact(ui: &mut Ui, line: &Line) {
    let theme = Theme::of(ui);
    let ink = line.tone.ink(theme);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 18.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &line.words));
    let words = Type::SMALL.ellipsis(ui, &line.words, ink, rect.width());
    let cut = words.elided;
    ui.painter().galley(rect.min, words, ink);
    if cut {
        tip(response, &line.words, "");
    }
}

/// What a card shows in its strip: the text, and what is copied.
struct Told {
    shown: String,
    copied: String,
}

fn told(state: &State, standing: &Standing) -> Told {
    let command = match standing.client.id {
        "claude" => Some("mlx-dspark claude".to_owned()),
        _ => None,
    };
    let path = standing
        .file
        .as_ref()
        .map(|path| (state.agents.short(path), path.display().to_string()));
    match (command, path) {
        (Some(command), _) => Told {
            shown: command.clone(),
            copied: command,
        },
        (None, Some((shown, copied))) => Told { shown, copied },
        (None, None) => Told {
            shown: String::new(),
            copied: String::new(),
        },
    }
}

/// 28 high, with a copy button.
fn strip(ui: &mut Ui, told: &Told, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 28.0), Sense::hover());
    paint::boxed(ui.painter(), rect, radius::SMALL_BUTTON, theme.code, theme.line);
    let shown = middle_ellipsis(ui, Type::CODE_SMALL, &told.shown, rect.width() - 48.0);
    let text = Type::CODE_SMALL.galley(ui, shown, theme.t2);
    let at = Rect::from_min_size(pos2(rect.left() + 10.0, rect.center().y - text.size().y / 2.0), text.size());
    ui.painter().galley(at.min, text, theme.t2);
    let label = ui.interact(at, ui.scope_id().with("strip"), Sense::hover());
    label.widget_info(|| WidgetInfo::labeled(Role::Label, true, &told.shown));
    let words = t!(copy_named, name = told.shown);
    let copy = paint::over_right(ui, rect.shrink2(vec2(2.0, 0.0)), |ui| {
        ui.add(dspark_look::IconButton::new(Icon::Copy, &words).small())
    });
    if copy.clicked() {
        out.push(Msg::Copy(told.copied.clone()));
    }
}

fn actions(ui: &mut Ui, state: &State, standing: &Standing, urgent: bool, out: &mut Vec<Msg>) {
    let client = standing.client;
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 26.0), Sense::hover());
    let label = |verb: &str| t!(verb_name, verb = verb, name = client.name);
    let here = standing.found.is_some();
    paint::over_right(ui, rect, |ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        if undoes(standing) && ui.add(Button::quiet(t!(undo)).small().label(&label(t!(undo)))).clicked() {
            out.push(AgentsMsg::Undo(client.id).into());
        }
        if !here {
            let get = ui.add(Button::quiet(t!(how_to_get_it)).small().label(&label(t!(how_to_get_it))));
            let get = tip(get, client.page, t!(opens_in_browser));
            if get.clicked() {
                out.push(Msg::Open(client.page.to_owned()));
            }
        }
        if client.id == "claude" && matches!(standing.state, Setting::NotSetUp) {
            let file = ui.add(Button::quiet(t!(settings_file)).small().label(&label(t!(settings_file))));
            if tip(file, t!(settings_file), t!(settings_file_definition)).clicked() {
                out.push(AgentsMsg::Change(client.id).into());
            }
        }
    });
    paint::over_left(ui, rect, |ui| {
        ui.spacing_mut().item_spacing.x = 8.0;
        let steps = |ui: &mut Ui, words: &str, out: &mut Vec<Msg>| {
            if ui.add(Button::secondary(words).small().label(&label(words))).clicked() {
                out.push(AgentsMsg::Steps(client.id).into());
            }
        };
        match &standing.state {
            Setting::Unreadable(_) => {
                steps(ui, t!(show_entry), out);
                if let Some(path) = &standing.file
                    && ui
                        .add(Button::secondary(t!(open_file)).small().label(&label(t!(open_file))))
                        .clicked()
                {
                    out.push(Msg::Open(format!("file://{}", path.display())));
                }
            }
            Setting::NotSetUp if client.id == "claude" => steps(ui, t!(how_to_start), out),
            Setting::Current | Setting::SetUp => {
                steps(ui, t!(how_to_start), out);
                changes(ui, standing, false, out);
            }
            _ => {
                changes(ui, standing, urgent, out);
                steps(ui, t!(by_hand), out);
            }
        }
        if state.agents.sheet.as_ref().is_some_and(|sheet| sheet.id == client.id && sheet.busy) {
            dspark_look::busy_ring(ui, 14.0, Theme::of(ui).t3, t!(writing));
        }
    });
}

fn changes(ui: &mut Ui, standing: &Standing, urgent: bool, out: &mut Vec<Msg>) {
    let client = standing.client;
    let words = t!(show_changes);
    let button = if urgent { Button::primary(words) } else { Button::secondary(words) };
    let shown = t!(verb_name, verb = words, name = client.name);
    let changes = standing.plan.as_ref().is_none_or(dspark_agents::Plan::changes);
    if changes && ui.add(button.small().label(&shown)).clicked() {
        out.push(AgentsMsg::Change(client.id).into());
    }
}

/// Clients whose settings are typed into their own pages, or that a command starts.
fn by_hand(ui: &mut Ui, state: &State, rows: &[&Standing], out: &mut Vec<Msg>) {
    if rows.is_empty() {
        return;
    }
    let narrow = Density::of(ui.ctx()) == Density::Narrow;
    let columns = if narrow {
        Columns::new([None, Some(200.0)])
    } else {
        Columns::new([None, Some(220.0), Some(210.0)])
    };
    card_flush(ui, |ui| {
        list_heading(ui, t!(also_ready));
        for standing in rows {
            let client = standing.client;
            let mut row = TableRow::new(ui, &columns, client.name, 58.0, false);
            row.cell(ui, Align::Min, |ui| {
                let theme = Theme::of(ui);
                let icon = mark(client.id);
                let (place, _) = ui.allocate_exact_size(vec2(20.0, 20.0), Sense::hover());
                icon.paint(ui.painter(), place.center(), dspark_look::icon::size::NORMAL, theme.t2);
                ui.add_space(4.0);
                let name = dspark_look::runs(&[(client.name, Type::CONTROL, theme.t1)]);
                dspark_look::two_lines(ui, name, client.summary, Align::Min);
            });
            if !narrow {
                row.cell(ui, Align::Min, |ui| {
                    let theme = Theme::of(ui);
                    let line = words::standing(state, standing);
                    let quiet = line.quiet || standing.found.is_none();
                    let words = if quiet && words::seen(state, standing).is_none() {
                        String::new()
                    } else {
                        line.words
                    };
                    let ink = if quiet { theme.t3 } else { line.tone.ink(theme) };
                    ui.label(Type::SMALL.rich(words, ink));
                });
            }
            row.cell(ui, Align::Max, |ui| {
                ui.spacing_mut().item_spacing.x = 8.0;
                let label = t!(how_set_up, name = client.name);
                if ui.add(Button::secondary(t!(set_up)).small().label(&label)).clicked() {
                    out.push(AgentsMsg::Steps(client.id).into());
                }
                copy_command(ui, state, standing, out);
            });
            if row.response().clicked() {
                out.push(AgentsMsg::Steps(client.id).into());
            }
        }
    });
}

/// Clients that a command starts need no page.
fn copy_command(ui: &mut Ui, state: &State, standing: &Standing, out: &mut Vec<Msg>) {
    let Some(serving) = state.serving() else { return };
    let command = standing.client.commands(&serving).into_iter().find_map(|step| match step {
        Step::Command { command, .. } => Some(command),
        _ => None,
    });
    let Some(command) = command else { return };
    let label = t!(copy_command_of, name = standing.client.name);
    if ui.add(Button::quiet(t!(copy_command)).small().label(&label)).clicked() {
        out.push(Msg::Copy(command));
    }
}
