//! Code block: a bar with the language, Wrap and Copy, and a body that scrolls only sideways.

use dspark_strings::t;
use std::sync::Arc;

use egui::{Frame, Label, Margin, Role, ScrollArea, Sense, Stroke, Ui, WidgetInfo, text::LayoutJob, vec2};

use super::button::Button;
use crate::{Icon, Theme, Type, paint, space::radius};

/// What the bar of a code block was used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeAction {
    pub copy: bool,
    /// Wrapping was switched.
    pub wrap: bool,
}

/// `code` is laid out in [`Type::CODE`] (see [`crate::highlight`]); `wrap` is kept by the caller.
pub fn code_block(ui: &mut Ui, id: impl std::hash::Hash + std::fmt::Debug, language: &str, code: LayoutJob, wrap: &mut bool) -> CodeAction {
    let theme = Theme::of(ui);
    let frame = Frame {
        fill: theme.code,
        stroke: Stroke::new(1.0, theme.line),
        corner_radius: radius::CARD,
        ..Frame::NONE
    };
    let mut action = CodeAction::default();
    let salt = egui::Id::unique(id);
    let shown = frame.show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.spacing_mut().item_spacing.y = 0.0;
        let (bar, _) = ui.allocate_exact_size(vec2(ui.available_width(), 34.0), Sense::hover());
        paint::hline(ui.painter(), bar.x_range(), bar.bottom() - 1.0, theme.line);
        let name = Type::SMALL.galley(ui, language, theme.t2);
        paint::text_left(ui.painter(), bar, bar.left() + 14.0, name, theme.t2);
        paint::over_right(ui, bar.shrink2(vec2(8.0, 0.0)), |ui| {
            ui.spacing_mut().item_spacing.x = 6.0;
            action.copy = ui
                .add(Button::quiet(t!(copy)).small().icon(Icon::Copy).label(t!(copy_code)))
                .clicked();
            let wrap_color = if *wrap { theme.accent } else { theme.t2 };
            let button = Button::quiet(t!(wrap))
                .small()
                .icon(Icon::ArrowElbowDownLeft)
                .label(t!(wrap_lines))
                .color(wrap_color);
            action.wrap = ui.add(button).clicked();
        });
        Frame::NONE
            .inner_margin(Margin {
                left: 14,
                right: 14,
                top: 12,
                bottom: 14,
            })
            .show(ui, |ui| {
                body(ui, salt, code, *wrap);
            });
    });
    shown
        .response
        .widget_info(|| WidgetInfo::labeled(Role::Code, true, t!(code_language, language = language)));
    *wrap ^= action.wrap;
    action
}

fn body(ui: &mut Ui, salt: egui::Id, mut code: LayoutJob, wrap: bool) {
    let width = ui.available_width();
    ui.set_width(width);
    if wrap {
        code.wrap.max_width = width;
        let galley = ui.fonts_mut(|f| f.layout_job(code));
        ui.add(Label::new(galley).selectable(true));
        return;
    }
    code.wrap.max_width = f32::INFINITY;
    let galley: Arc<egui::Galley> = ui.fonts_mut(|f| f.layout_job(code));
    if galley.size().x <= width {
        ui.add(Label::new(galley).selectable(true));
        return;
    }
    ScrollArea::horizontal().id_salt(salt).auto_shrink([false, true]).show(ui, |ui| {
        ui.add(Label::new(galley).selectable(true));
    });
}

/// One line of code with a Copy button: commands, paths, addresses. 34 high.
pub fn command_strip(ui: &mut Ui, text: &str) -> bool {
    let theme = Theme::of(ui);
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 34.0), Sense::hover());
    paint::boxed(ui.painter(), rect, radius::CONTROL, theme.code, theme.line);
    let shown = crate::middle_ellipsis(ui, Type::CODE_SMALL, text, rect.width() - 24.0 - 34.0);
    let inner = rect.shrink2(vec2(4.0, 0.0));
    let copied = paint::over_right(ui, inner, |ui| {
        ui.add(super::IconButton::new(Icon::Copy, t!(copy)).small()).clicked()
    });
    let galley = Type::CODE_SMALL.galley(ui, shown, theme.t1);
    let at = egui::pos2(rect.left() + 12.0, rect.center().y - galley.size().y / 2.0);
    let label = ui.interact(
        egui::Rect::from_min_size(at, galley.size()),
        ui.scope_id().with(text),
        Sense::hover(),
    );
    label.widget_info(|| WidgetInfo::labeled(Role::Label, true, text));
    ui.painter().galley(at, galley, theme.t1);
    copied
}
