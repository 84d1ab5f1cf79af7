//! Everything at once: take all chats along, delete them, look at a report before it is saved.

use crate::state::{DataMsg, Msg, Report, ShelfMsg, State};
use dspark_look::{Answer, Button, Chip, Icon, SettingsRow, Theme, Type, busy_ring, confirm, modal, settings_group, space::radius};
use egui::{Context, Frame, Label, Margin, Role, ScrollArea, TextEdit, Ui, WidgetInfo, vec2};

const REPORT: f32 = 720.0;

/// Beside what the page lists already.
pub(super) fn also_leaves(ui: &mut Ui) {
    SettingsRow::new("The local server")
        .detail("Answers programs on this machine; it does not call anybody")
        .show(ui, |ui| {
            ui.add(Chip::new("stays here").tone(dspark_look::Tone::Ok).icon(Icon::Check))
        });
    SettingsRow::new("Links")
        .detail("Opened by your browser when you click them, never fetched from here")
        .show(ui, |ui| ui.add(Chip::new("when you ask")));
}

pub(super) fn chats(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    settings_group(ui, "All chats", |ui| {
        SettingsRow::new("Export all")
            .detail("Every chat with all its branches as one JSON file, which the import above reads again")
            .show(ui, |ui| {
                let export = Button::secondary("Export…")
                    .small()
                    .label("Export all chats")
                    .enabled(!state.data.exporting);
                if ui.add(export).clicked() {
                    out.push(DataMsg::ExportAll.into());
                }
                if state.data.exporting {
                    busy_ring(ui, 14.0, Theme::of(ui).t3, "Exporting");
                }
            });
        SettingsRow::new("Delete all")
            .detail(
                "The note that follows brings them back with one click; a start of the app ten minutes later or more removes them for good",
            )
            .show(ui, |ui| {
                let some = !state.sidebar.sessions.is_empty();
                let delete = Button::secondary("Delete…").small().label("Delete all chats").enabled(some);
                if ui.add(delete).clicked() {
                    out.push(DataMsg::AskDeleteAll(true).into());
                }
            });
    });
    settings_group(ui, "Help", |ui| {
        SettingsRow::new("Diagnostics")
            .detail("A text about the program, this machine and the settings, for a report of a fault. You see all of it first")
            .show(ui, |ui| {
                let make = Button::secondary("Show…").small().label("Show diagnostics");
                if ui.add(make).clicked() {
                    out.push(DataMsg::Report.into());
                }
            });
        let folder = state.data_dir.display().to_string();
        SettingsRow::new("Data folder").detail(&folder).show(ui, |ui| {
            let reveal = Button::secondary("Reveal")
                .small()
                .icon(Icon::FolderOpen)
                .label("Reveal the data folder");
            if ui.add(reveal).clicked() {
                out.push(ShelfMsg::Reveal(state.data_dir.clone()).into());
            }
        });
    });
}

/// What stands over the page.
pub(crate) fn sheets(ctx: &Context, state: &State, out: &mut Vec<Msg>) {
    if state.data.asking {
        let known = state.sidebar.sessions.len();
        let all = if state.sidebar.complete && known > 0 {
            format!("All {known} chats")
        } else {
            "All chats".into()
        };
        let words =
            format!("{all} will go from the list, and replies that are being written stop. Export them first if you may want them again.");
        match confirm(ctx, "Delete all chats?", &words, "Delete all", "Keep them", true) {
            Some(Answer::Yes) => out.push(DataMsg::DeleteAll.into()),
            Some(Answer::No) => out.push(DataMsg::AskDeleteAll(false).into()),
            None => {}
        }
    }
    let Some(report) = &state.data.report else { return };
    let ((), close) = modal(ctx, "diagnostics", REPORT, |ui| preview(ui, report, out));
    if close {
        out.push(DataMsg::CloseReport.into());
    }
}

fn preview(ui: &mut Ui, report: &Report, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    ui.spacing_mut().item_spacing = vec2(8.0, 8.0);
    let heading = ui.label(Type::HEADING.rich("Diagnostics", theme.t1));
    heading.widget_info(|| WidgetInfo::labeled(Role::Heading, true, "Diagnostics"));
    let line = "This is all of it: no chats, no prompts, no keys, and your home folder is ~. Nothing is sent; it is saved where you say.";
    ui.add(Label::new(Type::NOTE.rich(line, theme.t2)).wrap());
    let most = (ui.ctx().content_rect().height() - 260.0).clamp(160.0, 420.0);
    Frame::new()
        .fill(theme.code)
        .corner_radius(radius::CONTROL)
        .inner_margin(Margin::symmetric(12, 10))
        .show(ui, |ui| {
            ScrollArea::vertical()
                .id_salt("diagnostics")
                .max_height(most)
                .min_scrolled_height(most)
                .auto_shrink([false, false])
                .show(ui, |ui| match report {
                    Report::Gathering => {
                        busy_ring(ui, 14.0, theme.t3, "Gathering");
                    }
                    Report::Ready(text) => {
                        // To be selected and read by screen readers, not to be changed.
                        let mut text = text.as_str();
                        let shown = TextEdit::multiline(&mut text)
                            .font(Type::CODE_SMALL.font())
                            .frame(Frame::NONE)
                            .desired_width(f32::INFINITY)
                            .text_color(theme.t1);
                        ui.add(shown).accessible_name("What the report says");
                    }
                });
        });
    ui.allocate_ui_with_layout(
        vec2(ui.available_width(), 30.0),
        egui::Layout::right_to_left(egui::Align::Center),
        |ui| {
            let ready = matches!(report, Report::Ready(_));
            if ui.add(Button::primary("Save…").enabled(ready)).clicked() {
                out.push(DataMsg::SaveReport.into());
            }
            if ui.add(Button::secondary("Copy").enabled(ready)).clicked()
                && let Report::Ready(text) = report
            {
                out.push(Msg::Copy(text.clone()));
            }
            if ui.add(Button::quiet("Close")).clicked() {
                out.push(DataMsg::CloseReport.into());
            }
        },
    );
}
