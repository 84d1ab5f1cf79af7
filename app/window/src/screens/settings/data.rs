//! Everything at once: take all chats along, delete them, look at a report before it is saved.

use crate::state::{DataMsg, Msg, Report, ShelfMsg, State};
use dspark_look::{Answer, Button, Chip, Icon, SettingsRow, Theme, Type, busy_ring, confirm, modal, settings_group, space::radius};
use dspark_strings::t;
use egui::{Context, Frame, Label, Margin, Role, ScrollArea, TextEdit, Ui, WidgetInfo, vec2};

const REPORT: f32 = 720.0;

/// Beside what the page lists already.
pub(super) fn also_leaves(ui: &mut Ui) {
    SettingsRow::new(t!(the_local_server))
        .detail(t!(the_local_server_detail))
        .show(ui, |ui| {
            ui.add(Chip::new(t!(stays_here)).tone(dspark_look::Tone::Ok).icon(Icon::Check))
        });
    SettingsRow::new(t!(links))
        .detail(t!(links_detail))
        .show(ui, |ui| ui.add(Chip::new(t!(when_you_ask))));
}

pub(super) fn chats(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    settings_group(ui, t!(all_chats), |ui| {
        SettingsRow::new(t!(export_all)).detail(t!(export_all_detail)).show(ui, |ui| {
            let export = Button::secondary(t!(export_button))
                .small()
                .label(t!(export_all_chats))
                .enabled(!state.data.exporting);
            if ui.add(export).clicked() {
                out.push(DataMsg::ExportAll.into());
            }
            if state.data.exporting {
                busy_ring(ui, 14.0, Theme::of(ui).t3, t!(exporting));
            }
        });
        SettingsRow::new(t!(delete_all)).detail(t!(delete_all_detail)).show(ui, |ui| {
            let some = !state.sidebar.sessions.is_empty();
            let delete = Button::secondary(t!(delete_button))
                .small()
                .label(t!(delete_all_chats))
                .enabled(some);
            if ui.add(delete).clicked() {
                out.push(DataMsg::AskDeleteAll(true).into());
            }
        });
    });
    settings_group(ui, t!(help), |ui| {
        SettingsRow::new(t!(diagnostics)).detail(t!(diagnostics_detail)).show(ui, |ui| {
            let make = Button::secondary(t!(show_button)).small().label(t!(show_diagnostics));
            if ui.add(make).clicked() {
                out.push(DataMsg::Report.into());
            }
        });
        let folder = state.data_dir.display().to_string();
        SettingsRow::new(t!(data_folder)).detail(&folder).show(ui, |ui| {
            let reveal = Button::secondary(t!(reveal))
                .small()
                .icon(Icon::FolderOpen)
                .label(t!(reveal_data_folder));
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
        let words = if state.sidebar.complete && known > 0 {
            t!(delete_all_known, n = known)
        } else {
            t!(delete_all_words).into()
        };
        match confirm(ctx, t!(delete_all_question), &words, t!(delete_all), t!(keep_them), true) {
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
    let heading = ui.label(Type::HEADING.rich(t!(diagnostics), theme.t1));
    heading.widget_info(|| WidgetInfo::labeled(Role::Heading, true, t!(diagnostics)));
    let line = t!(diagnostics_line);
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
                        busy_ring(ui, 14.0, theme.t3, t!(gathering));
                    }
                    Report::Ready(text) => {
                        // To be selected and read by screen readers, not to be changed.
                        let mut text = text.as_str();
                        let shown = TextEdit::multiline(&mut text)
                            .font(Type::CODE_SMALL.font())
                            .frame(Frame::NONE)
                            .desired_width(f32::INFINITY)
                            .text_color(theme.t1);
                        ui.add(shown).accessible_name(t!(what_report_says));
                    }
                });
        });
    ui.allocate_ui_with_layout(
        vec2(ui.available_width(), 30.0),
        egui::Layout::right_to_left(egui::Align::Center),
        |ui| {
            let ready = matches!(report, Report::Ready(_));
            if ui.add(Button::primary(t!(save_button)).enabled(ready)).clicked() {
                out.push(DataMsg::SaveReport.into());
            }
            if ui.add(Button::secondary(t!(copy)).enabled(ready)).clicked()
                && let Report::Ready(text) = report
            {
                out.push(Msg::Copy(text.clone()));
            }
            if ui.add(Button::quiet(t!(close))).clicked() {
                out.push(DataMsg::CloseReport.into());
            }
        },
    );
}
