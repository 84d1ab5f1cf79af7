//! Buttons: primary, secondary, quiet, danger; and the square icon button.

use egui::{Align, Color32, CornerRadius, Response, Role, Sense, Ui, Vec2, Widget, WidgetInfo, vec2};

use crate::{Icon, Theme, Type, motion::mix, paint, space::radius};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Primary,
    Secondary,
    Quiet,
    Danger,
}

/// `ui.add(Button::primary("Load").icon(Icon::DownloadSimple))`. One primary per view.
#[must_use]
pub struct Button<'a> {
    text: &'a str,
    kind: Kind,
    small: bool,
    icon: Option<Icon>,
    icon_size: Option<f32>,
    detail: Option<&'a str>,
    trailing: Option<(Icon, f32)>,
    color: Option<Color32>,
    enabled: bool,
    min_width: f32,
    max_width: f32,
    flush: bool,
    label: Option<&'a str>,
}

impl<'a> Button<'a> {
    fn new(text: &'a str, kind: Kind) -> Self {
        Self {
            text,
            kind,
            small: false,
            icon: None,
            icon_size: None,
            detail: None,
            trailing: None,
            color: None,
            enabled: true,
            min_width: 0.0,
            max_width: f32::INFINITY,
            flush: false,
            label: None,
        }
    }

    /// `accent_fill`.
    pub fn primary(text: &'a str) -> Self {
        Self::new(text, Kind::Primary)
    }

    /// `raised` with a border.
    pub fn secondary(text: &'a str) -> Self {
        Self::new(text, Kind::Secondary)
    }

    /// No fill until hovered.
    pub fn quiet(text: &'a str) -> Self {
        Self::new(text, Kind::Quiet)
    }

    /// Destructive: secondary with text in `bad`.
    pub fn danger(text: &'a str) -> Self {
        Self::new(text, Kind::Danger)
    }

    /// 26 high instead of 30.
    pub fn small(mut self) -> Self {
        self.small = true;
        self
    }

    pub fn icon(mut self, icon: Icon) -> Self {
        self.icon = Some(icon);
        self
    }

    /// Instead of 16 in quiet buttons, 15 in the others, 14 in small ones.
    pub fn icon_size(mut self, size: f32) -> Self {
        self.icon_size = Some(size);
        self
    }

    /// Quieter text after the label: "Think **medium**", a shortcut.
    pub fn detail(mut self, text: &'a str) -> Self {
        self.detail = Some(text);
        self
    }

    /// Caret that says a menu opens.
    pub fn caret(mut self) -> Self {
        self.trailing = Some((Icon::CaretDown, if self.small { 11.0 } else { 12.0 }));
        self
    }

    /// Text colour of a quiet button; `t2` otherwise.
    pub fn color(mut self, color: Color32) -> Self {
        self.color = Some(color);
        self
    }

    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    pub fn min_width(mut self, width: f32) -> Self {
        self.min_width = width;
        self
    }

    /// Longer labels end in an ellipsis.
    pub fn max_width(mut self, width: f32) -> Self {
        self.max_width = width;
        self
    }

    /// No padding on the right: text lines up with a column's right edge.
    pub fn flush_right(mut self) -> Self {
        self.flush = true;
        self
    }

    /// Accessible name where the visible text alone does not say enough ("Delete" in a row).
    pub fn label(mut self, label: &'a str) -> Self {
        self.label = Some(label);
        self
    }

    fn colors(&self, theme: &Theme, enabled: bool) -> (Color32, Color32, Color32, Color32, Color32) {
        let toward = if theme.dark { Color32::WHITE } else { Color32::BLACK };
        let clear = Color32::TRANSPARENT;
        match (self.kind, enabled) {
            (Kind::Primary, true) => {
                let fill = theme.accent_fill;
                (
                    fill,
                    mix(fill, toward, 0.08),
                    mix(fill, Color32::BLACK, 0.12),
                    clear,
                    theme.on_accent,
                )
            }
            (Kind::Quiet, true) => (clear, theme.hover, theme.press, clear, self.color.unwrap_or(theme.t2)),
            (Kind::Quiet, false) => (clear, clear, clear, clear, theme.tdis),
            (Kind::Danger, true) => (theme.raised, theme.hover, theme.press, theme.line2, theme.bad),
            (_, true) => (theme.raised, theme.hover, theme.press, theme.line2, self.color.unwrap_or(theme.t1)),
            (_, false) => (theme.raised, theme.raised, theme.raised, theme.line, theme.tdis),
        }
    }
}

impl Widget for Button<'_> {
    fn ui(self, ui: &mut Ui) -> Response {
        let theme = Theme::of(ui);
        let enabled = self.enabled && ui.is_enabled();
        let (height, pad, gap, style, radius) = if self.small {
            (26.0, 11.0, 6.0, Type::SMALL_CONTROL, radius::SMALL_BUTTON)
        } else {
            (30.0, 13.0, 7.0, Type::CONTROL, radius::CONTROL)
        };
        let pad = if self.kind == Kind::Quiet && !self.small { 9.0 } else { pad };
        let pad_right = if self.flush { 1.0 } else { pad };
        let (rest, hover, press, border, ink) = self.colors(theme, enabled);

        let icon_size = self.icon_size.unwrap_or(match (self.small, self.kind) {
            (true, _) => crate::icon::size::SMALL,
            (false, Kind::Quiet) => crate::icon::size::NORMAL,
            (false, _) => 15.0,
        });
        let quiet_ink = match (enabled, self.kind) {
            (false, _) => theme.tdis,
            (true, Kind::Primary) => ink.gamma_multiply(0.85),
            _ => theme.t3,
        };
        let detail = self
            .detail
            .map(|d| style.with_family(crate::Family::Regular).galley(ui, d, quiet_ink));
        let mut extra = pad + pad_right;
        extra += self.icon.map_or(0.0, |_| icon_size + if self.text.is_empty() { 0.0 } else { gap });
        extra += detail.as_ref().map_or(0.0, |d| d.size().x + gap);
        extra += self.trailing.map_or(0.0, |(_, size)| size + gap);
        let text = style.ellipsis(ui, self.text, ink, self.max_width - extra);
        let size = vec2((extra + text.size().x).max(self.min_width), height);

        let (rect, response) = ui.allocate_exact_size(size, if enabled { Sense::click() } else { Sense::hover() });
        response.widget_info(|| WidgetInfo::labeled(Role::Button, enabled, self.label.unwrap_or(self.text)));
        if !ui.is_rect_visible(rect) {
            return response;
        }
        let fill = if enabled {
            paint::state_fill(ui, &response, rest, hover, press)
        } else {
            rest
        };
        let painter = ui.painter();
        paint::boxed(painter, rect, radius, fill, border);
        let mut x = rect.left() + pad + (rect.width() - extra - text.size().x).max(0.0) / 2.0;
        if let Some(icon) = self.icon {
            icon.paint(painter, egui::pos2(x + icon_size / 2.0, rect.center().y), icon_size, ink);
            x += icon_size + if self.text.is_empty() { 0.0 } else { gap };
        }
        x += paint::text_left(painter, rect, x, text, ink).width();
        if let Some(detail) = detail {
            x += gap + paint::text_left(painter, rect, x + gap, detail, quiet_ink).width();
        }
        if let Some((icon, size)) = self.trailing {
            icon.paint(painter, egui::pos2(x + gap + size / 2.0, rect.center().y), size, quiet_ink);
        }
        paint::focus_ring(ui, &response, rect, radius);
        response
    }
}

/// Square button with an icon only; the label is its accessible name and its tooltip.
#[must_use]
pub struct IconButton<'a> {
    icon: Icon,
    label: &'a str,
    side: f32,
    icon_size: f32,
    radius: CornerRadius,
    filled: Option<(Color32, Color32)>,
    color: Option<Color32>,
    selected: bool,
    enabled: bool,
    tooltip: bool,
}

impl<'a> IconButton<'a> {
    pub fn new(icon: Icon, label: &'a str) -> Self {
        Self {
            icon,
            label,
            side: 30.0,
            icon_size: crate::icon::size::NORMAL,
            radius: radius::CONTROL,
            filled: None,
            color: None,
            selected: false,
            enabled: true,
            tooltip: true,
        }
    }

    /// 26 × 26 with a 14 pt icon.
    pub fn small(mut self) -> Self {
        self.side = 26.0;
        self.icon_size = crate::icon::size::SMALL;
        self.radius = radius::SMALL_BUTTON;
        self
    }

    pub fn side(mut self, side: f32) -> Self {
        self.side = side;
        self
    }

    pub fn icon_size(mut self, size: f32) -> Self {
        self.icon_size = size;
        self
    }

    pub fn color(mut self, color: Color32) -> Self {
        self.color = Some(color);
        self
    }

    /// Filled at rest, with a border; send and stop use it.
    pub fn filled(mut self, fill: Color32, border: Color32, radius: CornerRadius) -> Self {
        self.filled = Some((fill, border));
        self.radius = radius;
        self
    }

    /// Kept in the hovered form, for a button whose menu or mode is on.
    pub fn selected(mut self, selected: bool) -> Self {
        self.selected = selected;
        self
    }

    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    pub fn no_tooltip(mut self) -> Self {
        self.tooltip = false;
        self
    }
}

impl Widget for IconButton<'_> {
    fn ui(self, ui: &mut Ui) -> Response {
        let theme = Theme::of(ui);
        let enabled = self.enabled && ui.is_enabled();
        let sense = if enabled { Sense::click() } else { Sense::hover() };
        let (rect, response) = ui.allocate_exact_size(Vec2::splat(self.side), sense);
        response.widget_info(|| WidgetInfo::labeled(Role::Button, enabled, self.label));
        if ui.is_rect_visible(rect) {
            let (mut rest, border) = self.filled.unwrap_or((Color32::TRANSPARENT, Color32::TRANSPARENT));
            if self.selected {
                rest = theme.hover;
            }
            let hover = if self.filled.is_some_and(|(fill, _)| fill == theme.accent_fill) {
                mix(theme.accent_fill, if theme.dark { Color32::WHITE } else { Color32::BLACK }, 0.08)
            } else {
                theme.hover
            };
            let fill = if enabled {
                paint::state_fill(ui, &response, rest, hover, theme.press)
            } else {
                rest
            };
            let ink = if enabled { self.color.unwrap_or(theme.t2) } else { theme.tdis };
            paint::boxed(ui.painter(), rect, self.radius, fill, border);
            self.icon.paint(ui.painter(), rect.center(), self.icon_size, ink);
            paint::focus_ring(ui, &response, rect, self.radius);
        }
        if self.tooltip {
            crate::tip(response, self.label, "")
        } else {
            response
        }
    }
}

/// A row of buttons and other controls, 30 high, centred, 8 apart.
pub fn controls<R>(ui: &mut Ui, add: impl FnOnce(&mut Ui) -> R) -> R {
    let width = ui.available_width();
    ui.allocate_ui_with_layout(vec2(width, 30.0), egui::Layout::left_to_right(Align::Center), add)
        .inner
}

/// The rest of a row, filled from the right.
pub fn from_right<R>(ui: &mut Ui, add: impl FnOnce(&mut Ui) -> R) -> R {
    ui.with_layout(egui::Layout::right_to_left(Align::Center), add).inner
}
