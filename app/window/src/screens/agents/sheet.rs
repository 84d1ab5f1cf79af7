//! What stands over the screen for one client: the change, line by line; the steps by hand; or what others changed.

use crate::state::{AgentsMsg, Msg, Sheet, SheetPage, State};
use dspark_agents::{Client, Plan, State as Setting, Step, claude};
use dspark_look::{Button, Icon, TextField, Theme, Tone, Type, busy_ring, command_strip, field_error, modal, paint, space::radius};
use dspark_strings::t;
use egui::{Context, Label, Rect, Role, ScrollArea, Sense, Ui, WidgetInfo, pos2, vec2};

const WIDTH: f32 = 760.0;
/// Most of the window's height that a difference takes. It is also the least where there is more to see: a sheet would
/// otherwise grow to it frame by frame, under the pointer.
const SHARE: f32 = 0.5;
const LINE: f32 = 18.0;

pub(crate) fn show(ctx: &Context, state: &State, out: &mut Vec<Msg>) {
    let Some(sheet) = &state.agents.sheet else { return };
    let Some(client) = dspark_agents::client(sheet.id) else { return };
    let ((), close) = modal(ctx, "agent sheet", WIDTH, |ui| {
        ui.spacing_mut().item_spacing = vec2(8.0, 8.0);
        match &sheet.page {
            SheetPage::Change => change(ui, state, client, sheet, out),
            SheetPage::Steps => steps(ui, state, client, out),
            SheetPage::Changed(both) => changed(ui, state, client, sheet, both, out),
        }
    });
    if close && !sheet.busy {
        out.push(AgentsMsg::Close.into());
    }
}

fn heading(ui: &mut Ui, title: &str, line: &str) {
    let theme = Theme::of(ui);
    let title_label = ui.label(Type::HEADING.rich(title, theme.t1));
    title_label.widget_info(|| WidgetInfo::labeled(Role::Heading, true, title));
    if !line.is_empty() {
        ui.add(Label::new(Type::NOTE.rich(line, theme.t2)).wrap());
    }
}

/// Buttons from the right, with what went wrong above them.
fn foot(ui: &mut Ui, sheet: &Sheet, add: impl FnOnce(&mut Ui)) {
    if let Some(error) = &sheet.error {
        let response = field_error(ui, error);
        response.widget_info(|| WidgetInfo::labeled(Role::Alert, true, error));
    }
    ui.add_space(4.0);
    ui.allocate_ui_with_layout(
        vec2(ui.available_width(), 30.0),
        egui::Layout::right_to_left(egui::Align::Center),
        |ui| {
            add(ui);
            if sheet.busy {
                busy_ring(ui, 14.0, Theme::of(ui).t3, t!(writing));
            }
        },
    );
}

fn change(ui: &mut Ui, state: &State, client: &'static Client, sheet: &Sheet, out: &mut Vec<Msg>) {
    let standing = state.agents.standing(client.id);
    let close = |ui: &mut Ui, words: &str, out: &mut Vec<Msg>| {
        if ui.add(Button::secondary(words).enabled(!sheet.busy)).clicked() {
            out.push(AgentsMsg::Close.into());
        }
    };
    let Some(standing) = standing else {
        heading(ui, client.name, t!(reading_its_settings));
        return foot(ui, sheet, |ui| close(ui, t!(close), out));
    };
    let update = matches!(standing.state, Setting::Stale);
    let title = if update {
        t!(update_client, name = client.name)
    } else {
        t!(set_up_client, name = client.name)
    };
    heading(ui, &title, client.summary);
    if client.id == "claude" {
        project(ui, state, out);
    }
    let Some(plan) = &standing.plan else {
        let why = match &standing.state {
            Setting::Unreadable(reason) => t!(file_left_alone, reason = reason),
            _ => t!(load_first_written).into(),
        };
        note(ui, Tone::Warn, Icon::Warning, &why);
        return foot(ui, sheet, |ui| {
            if matches!(standing.state, Setting::Unreadable(_)) {
                if ui.add(Button::primary(t!(show_entry))).clicked() {
                    out.push(AgentsMsg::Steps(client.id).into());
                }
            } else if ui.add(Button::primary(t!(choose_model))).clicked() {
                out.push(AgentsMsg::Close.into());
                out.push(Msg::Models(crate::state::ModelsMsg::Picker(true)));
            }
            close(ui, t!(close), out);
        });
    };
    if !plan.changes() {
        note(
            ui,
            Tone::Ok,
            Icon::CheckCircleFill,
            &t!(nothing_to_change, path = state.agents.short(&plan.path)),
        );
        return foot(ui, sheet, |ui| close(ui, t!(close), out));
    }
    let key = state.settings.server.api_key.as_str();
    difference(ui, "change", plan, state);
    if standing.edited {
        note(ui, Tone::Warn, Icon::Warning, t!(entry_edited));
    }
    if let Some(conflict) = &standing.conflict {
        note(ui, Tone::Warn, Icon::Warning, conflict);
    }
    if !key.is_empty() && plan.after.contains(key) {
        note(ui, Tone::Neutral, Icon::Key, t!(key_hidden_here));
    }
    foot(ui, sheet, |ui| {
        if ui.add(Button::primary(t!(apply)).enabled(!sheet.busy)).clicked() {
            out.push(AgentsMsg::Apply.into());
        }
        close(ui, t!(cancel), out);
        if ui.add(Button::quiet(t!(by_hand_instead)).enabled(!sheet.busy)).clicked() {
            out.push(AgentsMsg::Steps(client.id).into());
        }
    });
}

/// Claude's file belongs to one project.
fn project(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    ui.label(Type::LABEL.rich(t!(project), theme.t3));
    let mut folder = state.agents.project.clone();
    let hint = state.agents.short(&state.agents.project_found);
    let there = state.agents.project_found.is_dir();
    let field = TextField::new(&mut folder, t!(project_folder))
        .hint(&hint)
        .icon(Icon::Folder)
        .mono()
        .width(ui.available_width())
        .error((!there).then_some(t!(no_such_folder)));
    ui.add(field);
    if folder != state.agents.project {
        out.push(AgentsMsg::Project(folder).into());
    }
}

fn note(ui: &mut Ui, tone: Tone, icon: Icon, words: &str) {
    let theme = Theme::of(ui);
    let width = ui.available_width();
    let text = Type::NOTE.wrapped(ui, words, theme.t2, width - 24.0);
    let (rect, response) = ui.allocate_exact_size(vec2(width, text.size().y), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, words));
    icon.paint(
        ui.painter(),
        pos2(rect.left() + 8.0, rect.top() + 9.5),
        dspark_look::icon::size::NORMAL,
        tone.ink(theme),
    );
    ui.painter().galley(pos2(rect.left() + 24.0, rect.top()), text, theme.t2);
}

/// One line of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Added,
    Removed,
    Same,
    /// `@@ -1,4 +1,9 @@`
    Place,
}

/// The lines of a unified difference without its head, and how many come and go.
fn lines(diff: &str) -> (Vec<(Side, &str)>, usize, usize) {
    let lines: Vec<(Side, &str)> = diff
        .lines()
        .skip_while(|line| line.starts_with("--- ") || line.starts_with("+++ "))
        .filter(|line| !line.starts_with('\\'))
        .map(|line| match line.chars().next() {
            Some('+') => (Side::Added, &line[1..]),
            Some('-') => (Side::Removed, &line[1..]),
            Some('@') => (Side::Place, line),
            _ => (Side::Same, line.get(1..).unwrap_or_default()),
        })
        .collect();
    let count = |side| lines.iter().filter(|line| line.0 == side).count();
    let (added, removed) = (count(Side::Added), count(Side::Removed));
    (lines, added, removed)
}

/// The file, the lines that come and go, and their numbers.
fn difference(ui: &mut Ui, salt: &str, plan: &Plan, state: &State) {
    let theme = Theme::of(ui);
    let text = plan.diff(Some(&state.settings.server.api_key));
    let (lines, added, removed) = lines(&text);
    let counts = if plan.before.is_none() {
        t!(new_file_lines, n = added, added = added, removed = removed)
    } else {
        t!(lines_changed, n = added, added = added, removed = removed)
    };
    let frame = egui::Frame {
        fill: theme.code,
        stroke: egui::Stroke::new(1.0, theme.line),
        corner_radius: radius::CARD,
        ..egui::Frame::NONE
    };
    let path = state.agents.short(&plan.path);
    let shown = frame.show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.spacing_mut().item_spacing.y = 0.0;
        let (bar, _) = ui.allocate_exact_size(vec2(ui.available_width(), 34.0), Sense::hover());
        paint::hline(ui.painter(), bar.x_range(), bar.bottom() - 1.0, theme.line);
        let counted = Type::SMALL.galley(ui, &counts, theme.t3);
        let room = bar.width() - counted.size().x - 42.0;
        let name = dspark_look::middle_ellipsis(ui, Type::CODE_SMALL, &path, room);
        paint::text_left(
            ui.painter(),
            bar,
            bar.left() + 14.0,
            Type::CODE_SMALL.galley(ui, name, theme.t1),
            theme.t1,
        );
        paint::text_right(ui.painter(), bar, bar.right() - 14.0, counted, theme.t3);
        let most = (ui.ctx().content_rect().height() * SHARE - 120.0).max(120.0);
        let view = ScrollArea::both()
            .id_salt(("difference", salt))
            .max_height(most)
            .min_scrolled_height(most)
            .auto_shrink([false, true]);
        view.show(ui, |ui| {
            ui.add_space(6.0);
            for (side, line) in &lines {
                diff_line(ui, *side, line);
            }
            ui.add_space(8.0);
        });
    });
    shown
        .response
        .widget_info(|| WidgetInfo::labeled(Role::Code, true, format!("{path}, {counts}")));
}

fn diff_line(ui: &mut Ui, side: Side, line: &str) {
    let theme = Theme::of(ui);
    let (sign, ink, fill) = match side {
        Side::Added => ("+", theme.ok, Some(theme.ok_soft)),
        Side::Removed => ("−", theme.bad, Some(theme.bad_soft)),
        Side::Same => (" ", theme.t3, None),
        Side::Place => ("", theme.t3, None),
    };
    let text = Type::CODE_SMALL.galley(ui, line, if side == Side::Place { theme.t3 } else { theme.t1 });
    let width = ui.available_width().max(text.size().x + 48.0);
    let (rect, response) = ui.allocate_exact_size(vec2(width, LINE), Sense::hover());
    let said = match side {
        Side::Added => t!(line_added, line = line),
        Side::Removed => t!(line_removed, line = line),
        _ => line.to_owned(),
    };
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &said));
    if !ui.is_rect_visible(rect) {
        return;
    }
    if let Some(fill) = fill {
        // To the edge of the view, however far it is scrolled.
        let band = Rect::from_x_y_ranges(ui.clip_rect().x_range(), rect.y_range());
        ui.painter().rect_filled(band.shrink2(vec2(1.0, 0.0)), 0, fill);
    }
    let sign = Type::CODE_SMALL.galley(ui, sign, ink);
    paint::text_left(ui.painter(), rect, rect.left() + 14.0, sign, ink);
    paint::text_left(ui.painter(), rect, rect.left() + 32.0, text, theme.t1);
}

fn steps(ui: &mut Ui, state: &State, client: &'static Client, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    heading(ui, client.name, client.summary);
    let close = |ui: &mut Ui, out: &mut Vec<Msg>| {
        ui.add_space(4.0);
        ui.allocate_ui_with_layout(
            vec2(ui.available_width(), 30.0),
            egui::Layout::right_to_left(egui::Align::Center),
            |ui| {
                if ui.add(Button::secondary(t!(close))).clicked() {
                    out.push(AgentsMsg::Close.into());
                }
                if ui
                    .add(Button::quiet(t!(how_to_get_it)).label(&t!(how_to_get, name = client.name)))
                    .clicked()
                {
                    out.push(Msg::Open(client.page.to_owned()));
                }
            },
        );
    };
    let Some(serving) = state.serving() else {
        note(ui, Tone::Warn, Icon::Warning, t!(load_first_part));
        return close(ui, out);
    };
    let most = (ui.ctx().content_rect().height() - 240.0).max(160.0);
    ScrollArea::vertical()
        .id_salt("steps")
        .max_height(most)
        .min_scrolled_height(most)
        .auto_shrink([false, true])
        .show(ui, |ui| {
            for step in client.commands(&serving) {
                self::step(ui, step, out);
            }
            if client.id == "claude" {
                let variables = claude::environment(&serving).into_iter().collect();
                let label = t!(or_environment);
                self::step(ui, Step::Environment { label, variables }, out);
            }
            if let Some(entry) = client.entry(&serving) {
                let path = state.agents.standing(client.id).and_then(|standing| standing.file.clone());
                let words = path.map_or_else(|| t!(settings).to_owned(), |path| t!(settings_in, path = state.agents.short(&path)));
                label(ui, &words);
                let shown = hidden(&entry, state);
                let code = dspark_look::highlight(theme, &shown, language(client));
                let mut wrap = false;
                if dspark_look::code_block(ui, "entry", language(client), code, &mut wrap).copy {
                    out.push(Msg::Copy(entry));
                }
            }
            if let Some(words) = client.note {
                ui.add_space(4.0);
                note(ui, Tone::Neutral, Icon::Info, words);
            }
        });
    close(ui, out);
}

fn language(client: &Client) -> &'static str {
    match client.id {
        "codex" => "toml",
        "continue" | "raycast" => "yaml",
        _ => "json",
    }
}

/// A key is copied, never shown.
fn hidden(text: &str, state: &State) -> String {
    match state.settings.server.api_key.as_str() {
        "" => text.to_owned(),
        key => text.replace(key, "••••"),
    }
}

fn label(ui: &mut Ui, words: &str) {
    let theme = Theme::of(ui);
    ui.label(Type::LABEL.rich(super::words::capital(words), theme.t3));
}

fn step(ui: &mut Ui, step: Step, out: &mut Vec<Msg>) {
    match step {
        Step::Command { label: name, command } => {
            label(ui, name);
            if command_strip(ui, &command) {
                out.push(Msg::Copy(command));
            }
        }
        Step::Environment { label: name, variables } => {
            label(ui, name);
            let text: Vec<String> = variables
                .iter()
                .map(|(name, value)| format!("export {name}={}", claude::quoted(value)))
                .collect();
            let theme = Theme::of(ui);
            let shown: Vec<String> = variables
                .iter()
                .map(|(name, value)| {
                    let secret = name.ends_with("KEY") || name.ends_with("TOKEN");
                    let value = if secret && value != "mlx-dspark" { "••••" } else { value };
                    format!("export {name}={}", claude::quoted(value))
                })
                .collect();
            let code = dspark_look::highlight(theme, &shown.join("\n"), "bash");
            let mut wrap = false;
            if dspark_look::code_block(ui, ("variables", name), "shell", code, &mut wrap).copy {
                out.push(Msg::Copy(text.join("\n")));
            }
        }
        Step::Fields { label: name, fields } => {
            label(ui, name);
            for (field, value) in fields {
                let secret = field.to_lowercase().contains("key") && value != "mlx-dspark" && field != "customParams";
                let shown = if secret { "••••••••" } else { value.as_str() };
                if field_row(ui, field, shown) {
                    out.push(Msg::Copy(value.clone()));
                }
            }
        }
        // The file is shown with the entry.
        Step::File { .. } => {}
    }
    ui.add_space(2.0);
}

/// A field of another program's settings, 30 high.
fn field_row(ui: &mut Ui, name: &str, value: &str) -> bool {
    let theme = Theme::of(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 30.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{name}: {value}")));
    paint::hline(ui.painter(), rect.x_range(), rect.bottom(), theme.line);
    let name_text = Type::NOTE.galley(ui, name, theme.t2);
    paint::text_left(ui.painter(), rect, rect.left(), name_text, theme.t2);
    let shown = dspark_look::middle_ellipsis(ui, Type::CODE_SMALL, value, rect.width() - 190.0);
    paint::text_left(
        ui.painter(),
        rect,
        rect.left() + 140.0,
        Type::CODE_SMALL.galley(ui, shown, theme.t1),
        theme.t1,
    );
    let words = t!(copy_named, name = name);
    paint::over_right(ui, rect, |ui| {
        ui.add(dspark_look::IconButton::new(Icon::Copy, &words).small()).clicked()
    })
}

fn changed(ui: &mut Ui, state: &State, client: &'static Client, sheet: &Sheet, both: &(Plan, Plan), out: &mut Vec<Msg>) {
    heading(ui, &t!(changed_since, name = client.name), t!(changed_since_line));
    let (since, back) = both;
    let most = (ui.ctx().content_rect().height() - 280.0).max(160.0);
    ScrollArea::vertical()
        .id_salt("both")
        .max_height(most)
        .min_scrolled_height(most)
        .auto_shrink([false, true])
        .show(ui, |ui| {
            label(ui, t!(what_changed_since));
            difference(ui, "since", since, state);
            ui.add_space(4.0);
            label(ui, t!(what_undoing_does));
            difference(ui, "back", back, state);
        });
    foot(ui, sheet, |ui| {
        if ui.add(Button::primary(t!(keep_file)).enabled(!sheet.busy)).clicked() {
            out.push(AgentsMsg::Keep.into());
        }
        if ui.add(Button::danger(t!(undo_anyway)).enabled(!sheet.busy)).clicked() {
            out.push(AgentsMsg::UndoAnyway.into());
        }
        if ui.add(Button::quiet(t!(cancel)).enabled(!sheet.busy)).clicked() {
            out.push(AgentsMsg::Close.into());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_read_line_by_line() {
        let text = "--- /dev/null\n+++ x\n@@ -1,2 +1,3 @@\n {\n-  a\n+  b\n+--- c\n\\ No newline at end of file\n";
        let (lines, added, removed) = lines(text);
        assert_eq!((added, removed, lines.len()), (2, 1, 5));
        assert_eq!(lines[1], (Side::Same, "{"));
        assert_eq!(lines[4], (Side::Added, "--- c"));
    }
}
