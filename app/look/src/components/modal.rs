//! A modal sheet over the scrim.

use egui::{Context, Frame, Id, Margin, Modal, Stroke, Ui};

use super::button::Button;
use crate::{
    Theme, Type,
    space::{deep_shadow, radius},
};

/// A centred sheet, `width` wide. The second value is true when it should close (Escape, click outside).
pub fn modal<R>(ctx: &Context, id: impl std::hash::Hash + std::fmt::Debug, width: f32, add: impl FnOnce(&mut Ui) -> R) -> (R, bool) {
    let theme = Theme::of_ctx(ctx);
    let frame = Frame {
        inner_margin: Margin::symmetric(20, 18),
        fill: theme.raised,
        stroke: Stroke::new(1.0, theme.line2),
        corner_radius: radius::COMPOSER,
        shadow: deep_shadow(theme),
        ..Frame::NONE
    };
    let shown = Modal::new(Id::unique(id)).frame(frame).backdrop_color(theme.scrim).show(ctx, |ui| {
        ui.set_width(width.min(ctx.content_rect().width() - 40.0) - 42.0);
        add(ui)
    });
    let close = shown.should_close();
    (shown.inner, close)
}

/// How a question was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
}

/// A question with two answers. `danger` paints the affirmative in `bad`.
pub fn confirm(ctx: &Context, title: &str, text: &str, yes: &str, no: &str, danger: bool) -> Option<Answer> {
    let (answer, close) = modal(ctx, ("confirm", title), 420.0, |ui| {
        let theme = Theme::of(ui);
        ui.spacing_mut().item_spacing.y = 6.0;
        ui.label(Type::HEADING.rich(title, theme.t1));
        ui.add(egui::Label::new(Type::BASE.rich(text, theme.t2)).wrap());
        ui.add_space(8.0);
        let mut answer = None;
        ui.allocate_ui_with_layout(
            egui::vec2(ui.available_width(), 30.0),
            egui::Layout::right_to_left(egui::Align::Center),
            |ui| {
                let button = if danger { Button::danger(yes) } else { Button::primary(yes) };
                if ui.add(button).clicked() {
                    answer = Some(Answer::Yes);
                }
                if ui.add(Button::secondary(no)).clicked() {
                    answer = Some(Answer::No);
                }
            },
        );
        answer
    });
    answer.or(close.then_some(Answer::No))
}
