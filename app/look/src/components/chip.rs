//! Chips: 20 high labels with an optional icon. A keyboard key is their bordered cousin.

use egui::{Color32, Response, Role, Sense, Ui, Widget, WidgetInfo, pos2, vec2};

use crate::{Icon, Theme, Type, paint, space::radius};

/// What a chip or pill means. Colour never comes without an icon or a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Neutral,
    Accent,
    Ok,
    Warn,
    Bad,
}

impl Tone {
    /// Text colour.
    pub fn ink(self, theme: &Theme) -> Color32 {
        match self {
            Self::Neutral => theme.t2,
            Self::Accent => theme.accent,
            Self::Ok => theme.ok,
            Self::Warn => theme.warn,
            Self::Bad => theme.bad,
        }
    }

    /// Soft background.
    pub fn soft(self, theme: &Theme) -> Color32 {
        match self {
            Self::Neutral => theme.hover,
            Self::Accent => theme.accent_soft,
            Self::Ok => theme.ok_soft,
            Self::Warn => theme.warn_soft,
            Self::Bad => theme.bad_soft,
        }
    }
}

/// `ui.add(Chip::new("Fits well").tone(Tone::Ok).icon(Icon::Check))`
#[must_use]
pub struct Chip<'a> {
    text: &'a str,
    tone: Tone,
    icon: Option<Icon>,
    height: f32,
}

impl<'a> Chip<'a> {
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            tone: Tone::Neutral,
            icon: None,
            height: 20.0,
        }
    }

    pub fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    pub fn icon(mut self, icon: Icon) -> Self {
        self.icon = Some(icon);
        self
    }

    /// 18 high, beside a name in a table.
    pub fn tight(mut self) -> Self {
        self.height = 18.0;
        self
    }
}

impl Widget for Chip<'_> {
    fn ui(self, ui: &mut Ui) -> Response {
        let theme = Theme::of(ui);
        let ink = self.tone.ink(theme);
        let text = Type::LABEL.galley(ui, self.text, ink);
        let icon = self.icon.map_or(0.0, |_| crate::icon::size::TINY + 4.0);
        let (rect, response) = ui.allocate_exact_size(vec2(14.0 + icon + text.size().x, self.height), Sense::hover());
        response.widget_info(|| WidgetInfo::labeled(Role::Label, true, self.text));
        let painter = ui.painter();
        paint::boxed(painter, rect, radius::CHIP, self.tone.soft(theme), Color32::TRANSPARENT);
        let x = rect.left() + 7.0;
        if let Some(icon) = self.icon {
            icon.paint(painter, pos2(x + 6.0, rect.center().y), crate::icon::size::TINY, ink);
        }
        paint::text_left(painter, rect, x + icon, text, ink);
        response
    }
}

/// A keyboard key as drawn in the palette: `⌘`, `esc`.
pub fn key(ui: &mut Ui, text: &str) -> Response {
    let theme = Theme::of(ui);
    let galley = Type::SHORTCUT.galley(ui, text, theme.t3);
    let width = (galley.size().x + 12.0).max(20.0);
    let (rect, response) = ui.allocate_exact_size(vec2(width, 18.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, text));
    paint::boxed(ui.painter(), rect, 4.into(), theme.raised, theme.line2);
    paint::text_center(ui.painter(), rect, galley, theme.t3);
    response
}
