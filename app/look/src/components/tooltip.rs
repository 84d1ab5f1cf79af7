//! Tooltips: a term and its definition.

use egui::{Frame, Label, Margin, Response, Stroke, Tooltip, Ui};

use crate::{
    Theme, Type, runs,
    space::{floating_shadow, radius},
};

/// Widest tooltip, border to border.
const MAX_WIDTH: f32 = 292.0;

pub fn tooltip_frame(theme: &Theme) -> Frame {
    Frame {
        inner_margin: Margin::symmetric(12, 8),
        fill: theme.raised,
        stroke: Stroke::new(1.0, theme.line2),
        corner_radius: radius::CONTROL,
        shadow: floating_shadow(theme),
        ..Frame::NONE
    }
}

/// The text of a tooltip: `term` in semibold, then `definition`.
pub fn tooltip_text(ui: &mut Ui, term: &str, definition: &str) {
    let theme = Theme::of(ui);
    let job = match (term.is_empty(), definition.is_empty()) {
        (false, true) => runs(&[(term, Type::SMALL, theme.t1)]),
        (true, _) => runs(&[(definition, Type::SMALL, theme.t2)]),
        _ => runs(&[
            (term, Type::SMALL_STRONG, theme.t1),
            (", ", Type::SMALL, theme.t2),
            (definition, Type::SMALL, theme.t2),
        ]),
    };
    ui.set_max_width(MAX_WIDTH - 26.0);
    ui.add(Label::new(job).wrap());
}

/// Show `term` and `definition` when `response` is hovered. With an empty definition: only the term.
pub fn tip(response: Response, term: &str, definition: &str) -> Response {
    let theme = Theme::of_ctx(&response.ctx);
    let mut tooltip = Tooltip::for_enabled(&response).gap(6.0);
    tooltip.popup = tooltip.popup.frame(tooltip_frame(theme));
    tooltip.show(|ui| tooltip_text(ui, term, definition));
    response
}
