//! How replies are drawn: the popup over "Options".

use crate::{
    settings::{Chat, Preset},
    shell::text::count,
    state::{ChatMsg, Msg, SettingsMsg, State},
};
use dspark_look::{Button, Icon, IconButton, Slider, TextField, Theme, Type, menu_frame, segmented_sized, select, tip};
use dspark_strings::t;
use egui::{Frame, Popup, PopupCloseBehavior, RectAlign, Response, TextEdit, Ui, vec2};

/// What the popup remembers between frames.
#[derive(Default)]
pub(super) struct OptionsView {
    pub(super) open: bool,
    /// Of a preset to be.
    name: String,
}

const WIDTH: f32 = 344.0;
pub(crate) const REPLY_SIZES: [usize; 6] = [256, 512, 1024, 2048, 4096, 8192];

/// Takes over changed settings where they belong: into the chat's own, or into those of all chats.
pub(super) fn keep(state: &State, edited: Chat, out: &mut Vec<Msg>) {
    if state.chat.options.is_some() {
        out.push(Msg::Chat(ChatMsg::Options(Some(Box::new(edited)))));
        return;
    }
    let mut settings = state.settings.clone();
    settings.chat = edited;
    out.push(Msg::Settings(SettingsMsg::Changed(Box::new(settings))));
}

/// Named sets: one to take, and what is set now to be kept under a name.
fn preset(ui: &mut Ui, state: &State, edited: &mut Chat, view: &mut OptionsView, out: &mut Vec<Msg>) {
    let own = &state.settings.presets;
    let all: Vec<Preset> = Preset::known().into_iter().chain(own.iter().cloned()).collect();
    // What a preset does not say stays: the prompt of a known one, and how replies are read.
    let same = |preset: &Preset| applied(preset, edited) == *edited;
    let mut chosen = all.iter().position(same);
    let before = chosen;
    row(ui, t!(preset), t!(preset_definition), |ui| {
        let mut choices: Vec<(Option<usize>, &str)> = all
            .iter()
            .enumerate()
            .map(|(at, preset)| (Some(at), preset.name.as_str()))
            .collect();
        if chosen.is_none() {
            choices.insert(0, (None, t!(own_values)));
        }
        select(ui, t!(preset), &mut chosen, &choices, 130.0);
        let removable = before.and_then(|at| at.checked_sub(Preset::known().len()));
        if let Some(at) = removable
            && ui.add(IconButton::new(Icon::Trash, t!(delete_preset)).small()).clicked()
        {
            let mut settings = state.settings.clone();
            settings.presets.remove(at);
            out.push(Msg::Settings(SettingsMsg::Changed(Box::new(settings))));
        }
    });
    if chosen != before
        && let Some(preset) = chosen.and_then(|at| all.get(at))
    {
        *edited = applied(preset, edited);
    }
    if before.is_none() {
        row(ui, t!(keep_as), t!(keep_as_definition), |ui| {
            let name = view.name.trim().to_owned();
            let free = !name.is_empty() && all.iter().all(|preset| preset.name != name);
            let save = ui
                .add(Button::secondary(t!(save)).small().enabled(free).label(t!(save_preset)))
                .clicked();
            let field = TextField::new(&mut view.name, t!(preset_name)).hint(t!(name)).width(130.0);
            let entered = ui.add(field).lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
            if (save || entered) && free {
                let mut settings = state.settings.clone();
                settings.presets.push(Preset {
                    name,
                    chat: edited.clone(),
                });
                view.name.clear();
                out.push(Msg::Settings(SettingsMsg::Changed(Box::new(settings))));
            }
        });
    }
}

fn applied(preset: &Preset, to: &Chat) -> Chat {
    let known = Preset::known().iter().any(|known| known.name == preset.name);
    Chat {
        system_prompt: if known {
            to.system_prompt.clone()
        } else {
            preset.chat.system_prompt.clone()
        },
        show_sources: to.show_sources,
        ..preset.chat.clone()
    }
}

fn system_prompt(ui: &mut Ui, theme: &Theme, chat: &mut Chat) {
    ui.add_space(4.0);
    let label = ui.label(Type::BASE.rich(t!(system_prompt), theme.t2));
    tip(label, t!(system_prompt), t!(system_prompt_definition));
    Frame::new()
        .fill(theme.field)
        .stroke(egui::Stroke::new(1.0, theme.line2))
        .corner_radius(dspark_look::space::radius::CONTROL)
        .inner_margin(egui::Margin::symmetric(10, 6))
        .show(ui, |ui| {
            let mut layout = |ui: &Ui, text: &dyn egui::TextBuffer, width: f32| {
                let mut job = egui::text::LayoutJob::single_section(text.as_str().into(), Type::SMALL.format(theme.t1));
                job.wrap.max_width = width;
                job.keep_trailing_whitespace = true;
                ui.fonts_mut(|fonts| fonts.layout_job(job))
            };
            let response = ui.add(
                TextEdit::multiline(&mut chat.system_prompt)
                    .frame(Frame::NONE)
                    .hint_text(Type::SMALL.rich(t!(prompt_none), theme.t3))
                    .desired_rows(2)
                    .desired_width(f32::INFINITY)
                    .layouter(&mut layout),
            );
            response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::MultilineTextInput, true, t!(system_prompt)));
        });
}

pub(super) fn popup(button: &Response, state: &State, view: &mut OptionsView, out: &mut Vec<Msg>) {
    let theme = Theme::of_ctx(&button.ctx);
    let mut open = view.open;
    let close = if button.clicked() {
        PopupCloseBehavior::IgnoreClicks
    } else {
        PopupCloseBehavior::CloseOnClickOutside
    };
    Popup::from_response(button)
        .open_bool(&mut open)
        .close_behavior(close)
        .align(RectAlign::TOP_START)
        .gap(6.0)
        .width(WIDTH)
        .frame(menu_frame(theme).inner_margin(egui::Margin::symmetric(14, 12)))
        .show(|ui| {
            ui.set_width(WIDTH - 28.0);
            ui.spacing_mut().item_spacing = vec2(8.0, 4.0);
            let mut edited = state.chat_settings().clone();
            let own = state.chat.options.is_some();
            let mut mine = own;
            ui.label(Type::PANEL.rich(t!(how_drawn), theme.t1));
            ui.add_space(4.0);
            row(ui, t!(holds_for), t!(holds_for_definition), |ui| {
                segmented_sized(
                    ui,
                    &mut mine,
                    &[(false, t!(all_chats)), (true, t!(this_chat))],
                    26.0,
                    egui::Role::RadioButton,
                );
            });
            preset(ui, state, &mut edited, view, out);
            sampling(ui, &mut edited);
            system_prompt(ui, theme, &mut edited);
            if mine != own {
                // Nothing changes by this alone: the chat begins with what it had.
                out.push(Msg::Chat(ChatMsg::Options(mine.then(|| Box::new(edited)))));
            } else if edited != *state.chat_settings() {
                keep(state, edited, out);
            }
        });
    view.open = open;
}

/// The sampling rows, also shown in the settings.
pub(crate) fn sampling(ui: &mut Ui, chat: &mut Chat) {
    number(
        ui,
        t!(temperature),
        t!(temperature_definition),
        &mut chat.temperature,
        0.0..=2.0,
        0.05,
    );
    number(ui, t!(top_p), t!(top_p_definition), &mut chat.top_p, 0.05..=1.0, 0.05);
    number(ui, t!(min_p), t!(min_p_definition), &mut chat.min_p, 0.0..=0.5, 0.01);
    number(
        ui,
        t!(repetition_penalty),
        t!(repetition_penalty_definition),
        &mut chat.repetition_penalty,
        1.0..=1.5,
        0.01,
    );
    row(ui, t!(largest_reply), t!(largest_reply_definition), |ui| {
        let labels: Vec<String> = REPLY_SIZES.iter().map(|size| t!(tokens_choice, count = count(*size))).collect();
        let choices: Vec<(usize, &str)> = REPLY_SIZES.iter().copied().zip(labels.iter().map(String::as_str)).collect();
        select(ui, t!(largest_reply), &mut chat.max_tokens, &choices, 130.0);
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
