//! First step: what this machine is, line by line, and what to do about what is missing.

use crate::state::{FirstRunMsg, Msg, State};
use dspark_look::{Button, Icon, Theme, Type, card_flush, list_heading, paint};
use dspark_strings::t;
use egui::{Ui, vec2};

pub(super) fn show(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let Some(survey) = &state.models.survey else {
        card_flush(ui, |ui| list_heading(ui, t!(looking_at_machine)));
        return;
    };
    let theme = Theme::of(ui);
    card_flush(ui, |ui| {
        for (nth, check) in survey.checks.iter().enumerate() {
            let width = ui.available_width();
            let note = Type::SMALL.wrapped(ui, check.reason.as_str(), theme.t3, width - 60.0);
            let height = if check.reason.is_empty() { 40.0 } else { 34.0 + note.size().y };
            let (rect, response) = ui.allocate_exact_size(vec2(width, height.max(40.0)), egui::Sense::hover());
            let state = if check.ok { "" } else { t!(needs_attention_check) };
            response.widget_info(|| {
                let words = format!("{} {state}. {}", check.words, check.reason);
                egui::WidgetInfo::labeled(egui::Role::ListItem, true, words)
            });
            if nth > 0 {
                paint::hline(ui.painter(), rect.x_range(), rect.top(), theme.line);
            }
            let (icon, ink) = if check.ok {
                (Icon::CheckCircleFill, theme.ok)
            } else {
                (Icon::WarningFill, theme.warn)
            };
            icon.paint(ui.painter(), rect.left_top() + vec2(24.0, 20.0), 16.0, ink);
            let words = Type::CONTROL.galley(ui, &check.words, theme.t1);
            ui.painter().galley(rect.left_top() + vec2(44.0, 8.0), words, theme.t1);
            ui.painter().galley(rect.left_top() + vec2(44.0, 27.0), note, theme.t3);
        }
    });
    ui.add_space(16.0);
    dspark_look::controls(ui, |ui| {
        dspark_look::from_right(ui, |ui| {
            if ui.add(Button::primary(t!(continue_step)).detail("⏎")).clicked() {
                out.push(FirstRunMsg::Next.into());
            }
            if ui.add(Button::quiet(t!(skip_for_now))).clicked() {
                out.push(FirstRunMsg::Skip.into());
            }
        });
    });
}
