//! How full the context window is, and what can be done about it. Nothing is ever left out silently.

use crate::{
    shell::text::count,
    state::{ChatMsg, Fill, Msg, Screen, SettingsMsg, SettingsPage, State},
};
use dspark_look::{Button, Icon, Theme, Type, paint};
use dspark_strings::t;
use egui::{Rect, Sense, Ui, pos2, vec2};

/// Shown above the composer from 70 % on, and while turns are left out.
pub(super) fn show(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let Some(model) = &state.engine.model else { return };
    let left_out = state.chat.left_out;
    let fill = state.fill();
    if fill == Fill::Roomy && left_out == 0 {
        return;
    }
    let theme = Theme::of(ui);
    let used = state.chat.draft.tokens.unwrap_or(0);
    let part = used as f32 / model.context_window.max(1) as f32;
    let (ink, icon) = match fill {
        Fill::Roomy | Fill::Filling => (theme.t2, Icon::Info),
        Fill::NearlyFull => (theme.warn, Icon::Warning),
        Fill::Over => (theme.bad, Icon::WarningCircle),
    };
    let words = match (fill, left_out) {
        (Fill::Over, _) => t!(too_long_by, tokens = count(used - model.context_window)),
        (_, 0) => t!(percent_of_window, part = format!("{:.0}", 100.0 * part)),
        (_, turns) => t!(oldest_not_read, n = turns),
    };
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 34.0), Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Status, true, &words));
    let line = Rect::from_min_max(rect.min, pos2(rect.right(), rect.top() + 26.0));
    icon.paint(ui.painter(), pos2(line.left() + 12.0, line.center().y), 14.0, ink);
    let text = Type::SMALL_CONTROL.galley(ui, words, ink);
    let end = paint::text_left(ui.painter(), line, line.left() + 26.0, text, ink).right();
    let bar = Rect::from_min_size(pos2(end + 12.0, line.center().y - 2.0), vec2(96.0, 4.0));
    paint::bar(ui.painter(), bar, part.min(1.0), theme.press, ink);
    let idle = state.live().is_none();
    paint::over_right(ui, line, |ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        let mut button = |ui: &mut Ui, text: &str, messages: Vec<Msg>| {
            if ui.add(Button::quiet(text).small().enabled(idle)).clicked() {
                out.extend(messages);
            }
        };
        button(ui, t!(new_chat), vec![Msg::Chat(ChatMsg::New)]);
        if model.context_window < model.max_context {
            let settings = vec![
                Msg::Settings(SettingsMsg::Page(SettingsPage::Decoding)),
                Msg::Show(Screen::Settings),
            ];
            button(ui, t!(larger_window), settings);
        }
        if left_out > 0 {
            button(ui, t!(read_all_again), vec![Msg::Chat(ChatMsg::LeaveOut(0))]);
        }
        if state.turns() > left_out + 1 && fill != Fill::Roomy {
            button(ui, t!(leave_out_oldest), vec![Msg::Chat(ChatMsg::LeaveOut(left_out + 1))]);
        }
    });
}
