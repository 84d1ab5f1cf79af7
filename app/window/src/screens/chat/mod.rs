//! The chat screen: the conversation above, the composer below.

mod composer;
mod message;
mod meter;
pub(crate) mod options;
mod turn;
mod view;

pub use composer::COMPOSER;
pub(crate) use options::sampling;
pub use view::ChatView;

use crate::state::{ChatMsg, FirstRunMsg, Msg, State, Step};
use dspark_look::{Density, Theme, Type, column};
use dspark_strings::{Key, key, t};
use egui::{Frame, Panel, ScrollArea, Ui, vec2};

const MARGIN: f32 = 44.0;

pub fn show(ui: &mut Ui, state: &State, view: &mut ChatView, out: &mut Vec<Msg>) {
    let density = Density::of(ui.ctx());
    view.sync(state);
    enter_starts(ui, state, out);
    let height = Panel::bottom("composer")
        .frame(Frame::NONE)
        .show_separator_line(false)
        .resizable(false)
        .show(ui, |ui| {
            column(ui, density.chat_column(), MARGIN.min(24.0), |ui| {
                composer::show(ui, state, view, out);
            });
            ui.add_space(18.0);
            ui.min_rect().height()
        })
        .inner;
    if view
        .composer_height
        .replace(height)
        .is_some_and(|before| (before - height).abs() > 0.5)
    {
        // The panel was laid out by its height of before: what is new would hang out of the window.
        ui.ctx().request_discard("the composer grew or shrank");
    }
    if state.is_first_run() {
        let height = ui.available_height();
        ScrollArea::vertical()
            .id_salt("first run")
            .auto_shrink([false, false])
            .show(ui, |ui| {
                column(ui, density.chat_column(), 24.0, |ui| super::first_run::show(ui, state, height, out));
            });
    } else if state.chat.tree.is_empty() {
        empty(ui, state, density, out);
    } else {
        conversation(ui, state, view, density, out);
    }
}

/// On the first pages Enter goes on, while nothing is written and no other control has the keyboard.
fn enter_starts(ui: &Ui, state: &State, out: &mut Vec<Msg>) {
    let step = state.first_step();
    if !state.is_first_run()
        || step == Step::Go
        || egui::Popup::is_any_open(ui.ctx())
        || state.palette.is_some()
        || !state.chat.draft.text.is_empty()
    {
        return;
    }
    let composer = egui::Id::unique(COMPOSER);
    let free = ui.memory(|memory| memory.focused().is_none_or(|id| id == composer));
    if free && ui.input(|input| input.key_pressed(egui::Key::Enter) && input.modifiers.is_none()) {
        out.push(match step {
            Step::Check => FirstRunMsg::Next.into(),
            _ => Msg::Models(crate::state::ModelsMsg::Start),
        });
    }
}

fn conversation(ui: &mut Ui, state: &State, view: &mut ChatView, density: Density, out: &mut Vec<Msg>) {
    // Another chat has its own place to scroll to.
    let salt = ("conversation", state.chat.session);
    let area = ScrollArea::vertical()
        .id_salt(salt)
        .auto_shrink([false, false])
        .stick_to_bottom(true);
    let to_end = std::mem::take(&mut view.to_end);
    let shown = area.show(ui, |ui| {
        column(ui, density.chat_column(), MARGIN.min(24.0), |ui| {
            ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
            ui.add_space(20.0);
            turn::show(ui, state, view, out);
            ui.add_space(28.0);
            if to_end {
                ui.scroll_to_cursor_animation(Some(egui::Align::BOTTOM), egui::style::ScrollAnimation::none());
            }
        });
    });
    let below = shown.content_size.y - shown.inner_rect.height() - shown.state.clamped_offset().y;
    if below > 160.0 {
        latest_button(ui, shown.inner_rect, view);
    }
}

/// Floats above the composer while the end is out of sight.
fn latest_button(ui: &mut Ui, over: egui::Rect, view: &mut ChatView) {
    let theme = Theme::of(ui);
    let place = egui::Rect::from_center_size(egui::pos2(over.center().x, over.bottom() - 26.0), vec2(32.0, 32.0));
    let button = dspark_look::IconButton::new(dspark_look::Icon::ArrowDown, t!(jump_to_latest))
        .filled(theme.raised, theme.line2, egui::CornerRadius::same(16))
        .side(32.0);
    if ui.put(place, button).clicked() {
        view.to_end = true;
        ui.ctx().request_repaint();
    }
}

/// A model and no words yet: three ways to begin. A third down where there is room, higher where there is less, and scrolled
/// where large text leaves none.
fn empty(ui: &mut Ui, state: &State, density: Density, out: &mut Vec<Msg>) {
    let height = ui.available_height();
    let id = ui.make_persistent_id("height of the beginning");
    let known: f32 = ui.data(|data| data.get_temp(id)).unwrap_or(0.0);
    let above = (height * 0.3).min(height - known - 12.0).max(12.0);
    ScrollArea::vertical()
        .id_salt("beginning")
        .auto_shrink([false, false])
        .show(ui, |ui| {
            column(ui, density.chat_column(), 24.0, |ui| {
                ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
                ui.add_space(above);
                let tall = ui.scope(|ui| beginning(ui, state, out)).response.rect.height();
                if (tall - known).abs() > 0.5 {
                    ui.data_mut(|data| data.insert_temp(id, tall));
                    ui.ctx().request_discard("the beginning is higher or lower than it was");
                }
            });
        });
}

fn beginning(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    if let Some(loading) = &state.models.loading {
        super::first_run::loading_card(ui, loading, out);
        return;
    }
    let Some(model) = &state.engine.model else {
        if dspark_look::empty_state(
            ui,
            dspark_look::Icon::Cube,
            t!(no_model_loaded_title),
            t!(choose_to_go_on),
            t!(choose_model),
        ) {
            out.push(Msg::Models(crate::state::ModelsMsg::Picker(true)));
        }
        return;
    };
    ui.vertical_centered(|ui| {
        ui.label(Type::TITLE.rich(t!(on_your_mind), theme.t1));
        ui.add_space(4.0);
        let line = t!(runs_here, model = model.name);
        ui.label(Type::PROSE.rich(line, theme.t2));
        if let Some(truth) = state.truth() {
            ui.add_space(10.0);
            let words = truth.words();
            let chip = dspark_look::Chip::new(&words)
                .tone(dspark_look::Tone::Accent)
                .icon(dspark_look::Icon::Lightning);
            dspark_look::tip(ui.add(chip), t!(measured_here_title), &truth.explain());
        }
    });
    ui.add_space(24.0);
    samples(ui, theme, out);
}

const SAMPLES: [(dspark_look::Icon, Key, Key); 3] = [
    (dspark_look::Icon::ChatCircle, key!(sample_explain), key!(sample_explain_text)),
    (dspark_look::Icon::CodeSimple, key!(sample_code), key!(sample_code_text)),
    (dspark_look::Icon::Pi, key!(sample_problem), key!(sample_problem_text)),
];

fn samples(ui: &mut Ui, theme: &Theme, out: &mut Vec<Msg>) {
    let gap = 12.0;
    let width = (ui.available_width() - 2.0 * gap) / 3.0;
    ui.horizontal_top(|ui| {
        ui.spacing_mut().item_spacing.x = gap;
        for (icon, title, text) in SAMPLES {
            let (title, text) = (title.text(), text.text());
            let (rect, response) = ui.allocate_exact_size(vec2(width, 114.0), egui::Sense::click());
            response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, title));
            let fill = dspark_look::paint::state_fill(ui, &response, theme.panel, theme.raised, theme.hover);
            dspark_look::paint::boxed(ui.painter(), rect, dspark_look::space::radius::CARD, fill, theme.line);
            icon.paint(ui.painter(), rect.min + vec2(22.0, 24.0), 16.0, theme.t2);
            let name = Type::CONTROL.ellipsis(ui, title, theme.t1, width - 52.0);
            ui.painter().galley(rect.min + vec2(38.0, 14.0), name, theme.t1);
            let mut job = egui::text::LayoutJob::single_section(text.into(), Type::SMALL.format(theme.t3));
            job.wrap = egui::text::TextWrapping {
                max_width: width - 28.0,
                max_rows: 3,
                ..egui::text::TextWrapping::default()
            };
            let lines = ui.fonts_mut(|fonts| fonts.layout_job(job));
            ui.painter().galley(rect.min + vec2(14.0, 44.0), lines, theme.t3);
            dspark_look::paint::focus_ring(ui, &response, rect, dspark_look::space::radius::CARD);
            if response.clicked() {
                out.push(Msg::Chat(ChatMsg::Compose(text.into())));
            }
        }
    });
}
