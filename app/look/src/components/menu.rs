//! Menus: the frame, its rows, and the ways to open one.

use egui::{Frame, Margin, Popup, PopupCloseBehavior, RectAlign, Response, Role, Sense, Stroke, Ui, Widget, WidgetInfo, pos2, vec2};

use crate::{
    Icon, Theme, Type, paint,
    space::{floating_shadow, radius},
};

/// Fill, border and shadow of a floating surface at elevation 2.
pub fn menu_frame(theme: &Theme) -> Frame {
    Frame {
        inner_margin: Margin::same(5),
        fill: theme.raised,
        stroke: Stroke::new(1.0, theme.line2),
        corner_radius: radius::MENU,
        shadow: floating_shadow(theme),
        ..Frame::NONE
    }
}

/// Row of a menu, 28 high: `ui.add(MenuItem::new("Rename").icon(Icon::PencilSimple))`.
#[must_use]
pub struct MenuItem<'a> {
    text: &'a str,
    icon: Option<Icon>,
    shortcut: &'a str,
    detail: &'a str,
    danger: bool,
    enabled: bool,
    checked: Option<bool>,
    highlighted: bool,
    role: Role,
}

impl<'a> MenuItem<'a> {
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            icon: None,
            shortcut: "",
            detail: "",
            danger: false,
            enabled: true,
            checked: None,
            highlighted: false,
            role: Role::MenuItem,
        }
    }

    pub fn icon(mut self, icon: Icon) -> Self {
        self.icon = Some(icon);
        self
    }

    /// Shown at the right: `⇧⌘C`.
    pub fn shortcut(mut self, shortcut: &'a str) -> Self {
        self.shortcut = shortcut;
        self
    }

    /// Quieter words after the text.
    pub fn detail(mut self, detail: &'a str) -> Self {
        self.detail = detail;
        self
    }

    /// Destructive; put it last.
    pub fn danger(mut self) -> Self {
        self.danger = true;
        self
    }

    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// A choice: reserves the place of the check mark.
    pub fn checked(mut self, checked: bool) -> Self {
        self.checked = Some(checked);
        self
    }

    /// Drawn as if hovered, for a list steered from elsewhere.
    pub fn highlighted(mut self, highlighted: bool) -> Self {
        self.highlighted = highlighted;
        self
    }

    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }
}

impl Widget for MenuItem<'_> {
    fn ui(self, ui: &mut Ui) -> Response {
        let theme = Theme::of(ui);
        let enabled = self.enabled && ui.is_enabled();
        let ink = match (enabled, self.danger) {
            (false, _) => theme.tdis,
            (true, true) => theme.bad,
            (true, false) => theme.t1,
        };
        let lead = if self.icon.is_some() || self.checked.is_some() { 25.0 } else { 0.0 };
        let shortcut = (!self.shortcut.is_empty()).then(|| Type::SHORTCUT.galley(ui, self.shortcut, theme.t3));
        let detail = (!self.detail.is_empty()).then(|| Type::SMALL.galley(ui, self.detail, theme.t3));
        let tail = shortcut.as_ref().map_or(0.0, |g| g.size().x + 16.0) + detail.as_ref().map_or(0.0, |g| g.size().x + 10.0);
        let text = Type::BASE.galley(ui, self.text, ink);
        let width = (18.0 + lead + text.size().x + tail).max(ui.available_width());
        let (rect, response) = ui.allocate_exact_size(vec2(width, 28.0), if enabled { Sense::click() } else { Sense::hover() });
        response.widget_info(|| match self.checked {
            Some(on) => WidgetInfo::selected(self.role, enabled, on, self.text),
            None => WidgetInfo::labeled(self.role, enabled, self.text),
        });
        if !ui.is_rect_visible(rect) {
            return response;
        }
        let painter = ui.painter();
        if enabled && (response.hovered() || response.has_focus() || self.highlighted) {
            paint::boxed(painter, rect, radius::CHIP, theme.press, egui::Color32::TRANSPARENT);
        }
        let left = rect.left() + 9.0;
        let mark = pos2(left + 7.5, rect.center().y);
        if let Some(icon) = self.icon {
            let color = if enabled && !self.danger { theme.t1 } else { ink };
            icon.paint(painter, mark, 15.0, color);
        } else if self.checked == Some(true) {
            Icon::Check.paint(painter, mark, 14.0, theme.accent);
        }
        let end = paint::text_left(painter, rect, left + lead, text, ink).right();
        if let Some(detail) = detail {
            paint::text_left(painter, rect, end + 10.0, detail, theme.t3);
        }
        if let Some(shortcut) = shortcut {
            paint::text_right(painter, rect, rect.right() - 9.0, shortcut, theme.t3);
        }
        response
    }
}

/// 1 pt line between groups of a menu.
pub fn menu_separator(ui: &mut Ui) {
    let theme = Theme::of(ui);
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 9.0), Sense::hover());
    paint::hline(ui.painter(), rect.shrink2(vec2(9.0, 0.0)).x_range(), rect.top() + 4.0, theme.line);
}

fn open<R>(popup: Popup<'_>, theme: &Theme, width: f32, add: impl FnOnce(&mut Ui) -> R) -> Option<R> {
    popup
        .frame(menu_frame(theme))
        .width(width)
        .show(|ui| {
            ui.set_min_width(width - 12.0);
            ui.spacing_mut().item_spacing.y = 0.0;
            add(ui)
        })
        .map(|r| r.inner)
}

/// Menu at the pointer on a secondary click on `response`.
pub fn context_menu<R>(response: &Response, add: impl FnOnce(&mut Ui) -> R) -> Option<R> {
    let theme = Theme::of_ctx(&response.ctx);
    open(Popup::context_menu(response), theme, 236.0, add)
}

/// Menu under a button; a click on `response` opens it.
pub fn menu_below<R>(response: &Response, width: f32, add: impl FnOnce(&mut Ui) -> R) -> Option<R> {
    let theme = Theme::of_ctx(&response.ctx);
    open(Popup::menu(response).align(RectAlign::BOTTOM_END).gap(4.0), theme, width, add)
}

/// A menu under a button that stays open while several of its rows are chosen.
pub fn choices_below<R>(response: &Response, width: f32, add: impl FnOnce(&mut Ui) -> R) -> Option<R> {
    let theme = Theme::of_ctx(&response.ctx);
    let popup = Popup::menu(response).align(RectAlign::BOTTOM_END).gap(4.0);
    open(popup.close_behavior(PopupCloseBehavior::CloseOnClickOutside), theme, width, add)
}

/// Menu over a button, for controls at the foot of the window.
pub fn menu_above<R>(response: &Response, width: f32, add: impl FnOnce(&mut Ui) -> R) -> Option<R> {
    let theme = Theme::of_ctx(&response.ctx);
    open(Popup::menu(response).align(RectAlign::TOP_START).gap(4.0), theme, width, add)
}
