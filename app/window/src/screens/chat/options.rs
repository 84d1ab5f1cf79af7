//! How replies are drawn: the popup over "Options".

use crate::{
    settings::Chat,
    shell::text::count,
    state::{Msg, SettingsMsg, State},
};
use dspark_look::{Button, Slider, Theme, Type, menu_frame, select, tip};
use egui::{Popup, PopupCloseBehavior, RectAlign, Response, Ui, vec2};

const WIDTH: f32 = 344.0;
pub(crate) const REPLY_SIZES: [usize; 6] = [256, 512, 1024, 2048, 4096, 8192];

pub(super) fn popup(button: &Response, state: &State, open: &mut bool, out: &mut Vec<Msg>) {
    let theme = Theme::of_ctx(&button.ctx);
    let close = if button.clicked() {
        PopupCloseBehavior::IgnoreClicks
    } else {
        PopupCloseBehavior::CloseOnClickOutside
    };
    Popup::from_response(button)
        .open_bool(open)
        .close_behavior(close)
        .align(RectAlign::TOP_START)
        .gap(6.0)
        .width(WIDTH)
        .frame(menu_frame(theme).inner_margin(egui::Margin::symmetric(14, 12)))
        .show(|ui| {
            ui.set_width(WIDTH - 28.0);
            ui.spacing_mut().item_spacing = vec2(8.0, 4.0);
            let mut settings = state.settings.clone();
            ui.label(Type::PANEL.rich("How replies are drawn", theme.t1));
            ui.add_space(4.0);
            sampling(ui, &mut settings.chat);
            if ui.add(Button::quiet("Back to the defaults").small()).clicked() {
                let prompt = settings.chat.system_prompt.clone();
                settings.chat = Chat {
                    system_prompt: prompt,
                    ..Chat::default()
                };
            }
            if settings != state.settings {
                out.push(Msg::Settings(SettingsMsg::Changed(Box::new(settings))));
            }
        });
}

/// The sampling rows, also shown in the settings.
pub(crate) fn sampling(ui: &mut Ui, chat: &mut Chat) {
    number(
        ui,
        "Temperature",
        "how freely words are drawn. 0 always takes the likeliest one.",
        &mut chat.temperature,
        0.0..=2.0,
        0.05,
    );
    number(
        ui,
        "Top-p",
        "draw only from the likeliest words that together have this share.",
        &mut chat.top_p,
        0.05..=1.0,
        0.05,
    );
    number(
        ui,
        "Min-p",
        "leave out words less likely than this share of the likeliest one.",
        &mut chat.min_p,
        0.0..=0.5,
        0.01,
    );
    number(
        ui,
        "Repetition penalty",
        "above 1, words already used become less likely.",
        &mut chat.repetition_penalty,
        1.0..=1.5,
        0.01,
    );
    row(ui, "Largest reply", "the reply is cut off after this many tokens.", |ui| {
        let labels: Vec<String> = REPLY_SIZES.iter().map(|size| format!("{} tokens", count(*size))).collect();
        let choices: Vec<(usize, &str)> = REPLY_SIZES.iter().copied().zip(labels.iter().map(String::as_str)).collect();
        select(ui, "Largest reply", &mut chat.max_tokens, &choices, 130.0);
    });
}

fn row<R>(ui: &mut Ui, name: &str, definition: &str, add: impl FnOnce(&mut Ui) -> R) -> R {
    let theme = Theme::of(ui);
    dspark_look::controls(ui, |ui| {
        let label = ui.label(Type::BASE.rich(name, theme.t2));
        tip(label, name, definition);
        dspark_look::from_right(ui, add)
    })
}

fn number(ui: &mut Ui, name: &str, definition: &str, value: &mut f32, range: std::ops::RangeInclusive<f64>, step: f64) {
    let theme = Theme::of(ui);
    row(ui, name, definition, |ui| {
        let (rect, _) = ui.allocate_exact_size(vec2(34.0, 20.0), egui::Sense::hover());
        let galley = Type::BASE.galley(ui, format!("{value:.2}"), theme.t1);
        dspark_look::paint::text_right(ui.painter(), rect, rect.right(), galley, theme.t1);
        let mut exact = (f64::from(*value) / step).round() * step;
        let before = exact;
        ui.add(Slider::new(&mut exact, range, name).step(step).width(140.0).surface(theme.raised));
        if exact != before {
            *value = exact as f32;
        }
    });
}
