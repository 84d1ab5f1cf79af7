//! Settings: groups of rows in cards, the list of groups, the reload bar.

use dspark_strings::t;
use egui::{
    Align, Align2, Area, Color32, Context, Frame, Id, Label, Layout, Margin, Order, Rect, Response, Role, Sense, Stroke, Ui, WidgetInfo,
    pos2, vec2,
};

use super::{Chip, button::Button, card::card_flush};
use crate::{
    Icon, Theme, Type, paint,
    space::{floating_shadow, radius},
};

/// A titled card of [`SettingsRow`]s.
pub fn settings_group<R>(ui: &mut Ui, title: &str, add: impl FnOnce(&mut Ui) -> R) -> R {
    let theme = Theme::of(ui);
    ui.scope(|ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        ui.spacing_mut().interact_size.y = Type::PANEL.line;
        ui.horizontal(|ui| {
            ui.add_space(2.0);
            let heading = ui.label(Type::PANEL.rich(title, theme.t1));
            heading.widget_info(|| WidgetInfo::labeled(Role::Heading, true, title));
        });
        ui.add_space(8.0);
        ui.spacing_mut().interact_size.y = 30.0;
        let result = card_flush(ui, add).inner;
        ui.add_space(18.0);
        result
    })
    .inner
}

/// One setting: name and explanation left, control right.
#[must_use]
pub struct SettingsRow<'a> {
    name: &'a str,
    detail: &'a str,
    reload: bool,
}

impl<'a> SettingsRow<'a> {
    pub fn new(name: &'a str) -> Self {
        Self {
            name,
            detail: "",
            reload: false,
        }
    }

    /// The second line.
    pub fn detail(mut self, detail: &'a str) -> Self {
        self.detail = detail;
        self
    }

    /// Chip "reload": the change needs the model loaded again.
    pub fn reload(mut self) -> Self {
        self.reload = true;
        self
    }

    /// The control is added from the right edge: the last one added stands leftmost.
    pub fn show<R>(self, ui: &mut Ui, control: impl FnOnce(&mut Ui) -> R) -> R {
        let theme = Theme::of(ui);
        let first = ui.min_rect().height() < 1.0;
        let line = if first { 0.0 } else { 1.0 };
        // The words take what the control leaves; its width is known from the last pass.
        let id = ui.scope_id().with(("settings control", self.name));
        let width = ui.data(|d| d.get_temp::<f32>(id));
        let room = (ui.available_width() - 48.0 - width.unwrap_or(200.0)).max(60.0);
        let detail = (!self.detail.is_empty()).then(|| Type::SMALL.with_line(17.0).wrapped(ui, self.detail, theme.t3, room));
        let height = 18.0 + detail.as_ref().map_or(0.0, |d| d.size().y);
        let chip = if self.reload && detail.is_some() { 2.0 } else { 0.0 };
        let full = (height + 14.0 + chip + line).max(48.0);
        let (row, words) = ui.allocate_exact_size(vec2(ui.available_width(), full), Sense::hover());
        if !self.detail.is_empty() {
            // The control carries the name; what is written beside it is read with it here.
            words.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{}: {}", self.name, self.detail)));
        }
        if !first {
            paint::hline(ui.painter(), row.x_range(), row.top(), theme.line);
        }
        let inner = Rect::from_min_max(row.min + vec2(16.0, line), row.max - vec2(16.0, 0.0));
        let (used, result) = paint::over_right(ui, inner, |ui| {
            ui.spacing_mut().item_spacing.x = 16.0;
            let result = control(ui);
            (inner.right() - ui.min_rect().left(), result)
        });
        if width.is_none_or(|w| (w - used).abs() > 0.5) {
            ui.data_mut(|d| d.insert_temp(id, used));
            ui.ctx().request_discard("a settings row measured its control");
        }
        let y = row.top() + line + (full - line - height) / 2.0;
        let name = Type::BASE.with_line(18.0).ellipsis(ui, self.name, theme.t1, room);
        let name_width = name.size().x;
        ui.painter().galley(pos2(inner.left(), y), name, theme.t1);
        if self.reload {
            let place = Rect::from_min_size(pos2(inner.left() + name_width + 10.0, y - 1.0), vec2(46.0, 20.0));
            paint::over_down(ui, place, |ui| ui.add(Chip::new(t!(reload))));
        }
        if let Some(detail) = detail {
            ui.painter().galley(pos2(inner.left(), y + 18.0), detail, theme.t3);
        }
        result
    }
}

/// An entry of the list of settings groups, 30 high.
pub fn subnav_row(ui: &mut Ui, icon: Icon, text: &str, selected: bool) -> Response {
    let theme = Theme::of(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 30.0), Sense::click());
    response.widget_info(|| WidgetInfo::selected(Role::Tab, true, selected, text));
    let rest = if selected { theme.hover } else { Color32::TRANSPARENT };
    let fill = paint::state_fill(ui, &response, rest, theme.hover, theme.press);
    paint::boxed(ui.painter(), rect, radius::CONTROL, fill, Color32::TRANSPARENT);
    let (mark, ink) = if selected { (theme.accent, theme.t1) } else { (theme.t2, theme.t2) };
    icon.paint(
        ui.painter(),
        pos2(rect.left() + 18.0, rect.center().y),
        crate::icon::size::NORMAL,
        mark,
    );
    let galley = Type::CONTROL.ellipsis(ui, text, ink, rect.width() - 46.0);
    paint::text_left(ui.painter(), rect, rect.left() + 36.0, galley, ink);
    paint::focus_ring(ui, &response, rect, radius::CONTROL);
    response
}

/// What the reload bar was answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadAnswer {
    Reload,
    Discard,
}

/// Floats 18 above the foot of `over`: "Two changes need a reload".
pub fn reload_bar(ctx: &Context, over: Rect, words: &str, detail: &str) -> Option<ReloadAnswer> {
    let theme = Theme::of_ctx(ctx);
    let mut answer = None;
    Area::new(Id::unique("reload bar"))
        .order(Order::Middle)
        .pivot(Align2::LEFT_BOTTOM)
        .fixed_pos(pos2(over.left(), over.bottom() - 18.0))
        .show(ctx, |ui| {
            let frame = Frame {
                inner_margin: Margin {
                    left: 16,
                    right: 9,
                    top: 8,
                    bottom: 8,
                },
                fill: theme.raised,
                stroke: Stroke::new(1.0, theme.line2),
                corner_radius: radius::RELOAD_BAR,
                shadow: floating_shadow(theme),
                ..Frame::NONE
            };
            frame.show(ui, |ui| {
                ui.set_width(over.width() - 27.0);
                ui.allocate_ui_with_layout(vec2(ui.available_width(), 30.0), Layout::left_to_right(Align::Center), |ui| {
                    Icon::ArrowsClockwise.show(ui, crate::icon::size::NORMAL, theme.t2);
                    ui.label(Type::BASE.rich(words, theme.t1));
                    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                        if ui.add(Button::primary(t!(reload_now))).clicked() {
                            answer = Some(ReloadAnswer::Reload);
                        }
                        if ui.add(Button::quiet(t!(discard))).clicked() {
                            answer = Some(ReloadAnswer::Discard);
                        }
                        ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                            ui.add(Label::new(Type::NOTE.with_line(20.0).rich(detail, theme.t3)).truncate());
                        });
                    });
                });
            });
        });
    answer
}
