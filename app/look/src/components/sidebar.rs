//! Sidebar: screen rows, chat rows, date headings, and the rail of narrow windows.

use dspark_strings::t;
use egui::{Align2, Color32, Key, Response, Role, Sense, Ui, Widget, WidgetInfo, pos2, vec2};

use super::field::TextField;
use crate::{Icon, Theme, Type, paint, space::radius};

/// Room kept free at the top of the sidebar: macOS draws its window buttons there.
pub const WINDOW_BUTTONS: f32 = 52.0;
/// Rows keep `inset` from the sidebar's edges; its last point is the border.
fn row_rect(slot: egui::Rect, inset: f32) -> egui::Rect {
    egui::Rect::from_min_max(slot.min + vec2(inset, 0.0), slot.max - vec2(inset + 1.0, 0.0))
}

/// Fill and right border of the sidebar or rail over all of `ui`.
pub fn sidebar_background(ui: &Ui) {
    let theme = Theme::of(ui);
    let rect = ui.max_rect();
    ui.painter().rect_filled(rect, 0, theme.side);
    paint::vline(ui.painter(), rect.right() - 1.0, rect.y_range(), theme.line);
}

/// A screen in the sidebar: 30 high, icon, word, shortcut.
#[must_use]
pub struct ScreenRow<'a> {
    icon: Icon,
    selected_icon: Icon,
    text: &'a str,
    shortcut: &'a str,
    selected: bool,
}

impl<'a> ScreenRow<'a> {
    /// `selected_icon` is the filled form.
    pub fn new(icon: Icon, selected_icon: Icon, text: &'a str) -> Self {
        Self {
            icon,
            selected_icon,
            text,
            shortcut: "",
            selected: false,
        }
    }

    pub fn shortcut(mut self, shortcut: &'a str) -> Self {
        self.shortcut = shortcut;
        self
    }

    pub fn selected(mut self, selected: bool) -> Self {
        self.selected = selected;
        self
    }

    fn mark(&self, theme: &Theme) -> (Icon, Color32, Color32) {
        if self.selected {
            (self.selected_icon, theme.accent, theme.t1)
        } else {
            (self.icon, theme.t2, theme.t2)
        }
    }

    /// The rail's form: icon 18 over the word, 46 high.
    pub fn rail(self, ui: &mut Ui) -> Response {
        let theme = Theme::of(ui);
        let (icon, icon_ink, ink) = self.mark(theme);
        let (slot, response) = ui.allocate_exact_size(vec2(ui.available_width(), 46.0), Sense::click());
        response.widget_info(|| WidgetInfo::selected(Role::Tab, true, self.selected, self.text));
        let text = Type::SHORTCUT.ellipsis(ui, self.text, ink, slot.width() - 6.0);
        // A long word takes its room from the sides.
        let rect = row_rect(slot, ((slot.width() - text.size().x) / 2.0 - 3.0).min(8.0));
        let rest = if self.selected { theme.hover } else { Color32::TRANSPARENT };
        let fill = paint::state_fill(ui, &response, rest, theme.hover, theme.press);
        paint::boxed(ui.painter(), rect, radius::WELL, fill, Color32::TRANSPARENT);
        icon.paint(
            ui.painter(),
            pos2(rect.center().x, rect.top() + 15.0),
            crate::icon::size::LARGE,
            icon_ink,
        );
        ui.painter()
            .galley(pos2(rect.center().x - text.size().x / 2.0, rect.top() + 25.0), text, ink);
        paint::focus_ring(ui, &response, rect, radius::WELL);
        response
    }
}

impl Widget for ScreenRow<'_> {
    fn ui(self, ui: &mut Ui) -> Response {
        let theme = Theme::of(ui);
        let (icon, icon_ink, ink) = self.mark(theme);
        let (slot, response) = ui.allocate_exact_size(vec2(ui.available_width(), 30.0), Sense::click());
        response.widget_info(|| WidgetInfo::selected(Role::Tab, true, self.selected, self.text));
        let rect = row_rect(slot, 10.0);
        let rest = if self.selected { theme.hover } else { Color32::TRANSPARENT };
        let fill = paint::state_fill(ui, &response, rest, theme.hover, theme.press);
        let painter = ui.painter();
        paint::boxed(painter, rect, radius::CONTROL, fill, Color32::TRANSPARENT);
        icon.paint(
            painter,
            pos2(rect.left() + 18.0, rect.center().y),
            crate::icon::size::NORMAL,
            icon_ink,
        );
        let key = Type::SHORTCUT.galley(ui, self.shortcut, theme.t3);
        let text = Type::CONTROL.ellipsis(ui, self.text, ink, rect.width() - 46.0 - 16.0 - key.size().x);
        paint::text_left(painter, rect, rect.left() + 36.0, text, ink);
        paint::text_right(painter, rect, rect.right() - 10.0, key, theme.t3);
        paint::focus_ring(ui, &response, rect, radius::CONTROL);
        response
    }
}

/// What a chat row asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum ChatRowAction {
    /// Click or Enter.
    Open,
    /// Double click or F2: the caller sets the draft of [`ChatRow::renaming`].
    Rename,
    /// Enter in the rename field.
    Renamed(String),
    /// Escape in the rename field.
    RenameCancelled,
}

/// A chat in the sidebar: 30 high, one line with ellipsis, renamed in place.
#[must_use]
pub struct ChatRow<'a> {
    title: &'a str,
    selected: bool,
    busy: bool,
    pinned: bool,
    renaming: Option<&'a mut String>,
}

impl<'a> ChatRow<'a> {
    pub fn new(title: &'a str) -> Self {
        Self {
            title,
            selected: false,
            busy: false,
            pinned: false,
            renaming: None,
        }
    }

    pub fn selected(mut self, selected: bool) -> Self {
        self.selected = selected;
        self
    }

    /// A reply is streaming into this chat.
    pub fn busy(mut self, busy: bool) -> Self {
        self.busy = busy;
        self
    }

    pub fn pinned(mut self, pinned: bool) -> Self {
        self.pinned = pinned;
        self
    }

    /// Show a field with this draft instead of the title.
    pub fn renaming(mut self, draft: Option<&'a mut String>) -> Self {
        self.renaming = draft;
        self
    }

    /// The response is the row's: hang the context menu on it.
    pub fn show(self, ui: &mut Ui) -> (Response, Option<ChatRowAction>) {
        let theme = Theme::of(ui);
        let (slot, response) = ui.allocate_exact_size(vec2(ui.available_width(), 30.0), Sense::click());
        let rect = row_rect(slot, 10.0);
        if let Some(draft) = self.renaming {
            let action = rename(ui, rect, &response, draft);
            return (response, action);
        }
        response.widget_info(|| WidgetInfo::selected(Role::ListItem, true, self.selected, self.title));
        if ui.is_rect_visible(slot) {
            let rest = if self.selected { theme.press } else { Color32::TRANSPARENT };
            let hover = if self.selected { theme.press } else { theme.hover };
            let fill = paint::state_fill(ui, &response, rest, hover, theme.press);
            paint::boxed(ui.painter(), rect, radius::CONTROL, fill, Color32::TRANSPARENT);
            let mut right = rect.right() - 10.0;
            if self.busy {
                super::paint_ring(ui, pos2(right - 6.0, rect.center().y), crate::icon::size::TINY, theme.accent);
                right -= 20.0;
            } else if self.pinned {
                Icon::PushPinFill.paint(ui.painter(), pos2(right - 6.0, rect.center().y), crate::icon::size::TINY, theme.t3);
                right -= 20.0;
            }
            let ink = if self.selected { theme.t1 } else { theme.t2 };
            let text = Type::BASE.ellipsis(ui, self.title, ink, right - rect.left() - 10.0);
            paint::text_left(ui.painter(), rect, rect.left() + 10.0, text, ink);
            paint::focus_ring(ui, &response, rect, radius::CONTROL);
        }
        let action = if response.double_clicked() || (response.has_focus() && ui.input(|i| i.key_pressed(Key::F2))) {
            Some(ChatRowAction::Rename)
        } else if response.clicked() {
            Some(ChatRowAction::Open)
        } else {
            None
        };
        (response, action)
    }
}

fn rename(ui: &mut Ui, rect: egui::Rect, row: &Response, draft: &mut String) -> Option<ChatRowAction> {
    let first = row.id.with("rename shown");
    let fresh = !ui.data(|d| d.get_temp(first)).unwrap_or(false);
    let mut field = TextField::new(draft, t!(chat_name)).id(row.id.with("rename"));
    if fresh {
        field = field.focus_all();
    }
    let response = paint::over_down(ui, rect, |ui| ui.add(field));
    ui.data_mut(|d| d.insert_temp(first, true));
    if response.lost_focus() && !fresh {
        ui.data_mut(|d| d.remove::<bool>(first));
        let escaped = ui.input(|i| i.key_pressed(Key::Escape));
        return Some(if escaped {
            ChatRowAction::RenameCancelled
        } else {
            ChatRowAction::Renamed(draft.trim().to_owned())
        });
    }
    None
}

/// "Today", "Yesterday": 16 above, 4 below. With `plus` a small button at the right, returned when clicked.
pub fn date_heading(ui: &mut Ui, text: &str, plus: Option<&str>) -> bool {
    let theme = Theme::of(ui);
    let (slot, response) = ui.allocate_exact_size(vec2(ui.available_width(), 36.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Heading, true, text));
    let at = pos2(slot.left() + 20.0, slot.top() + 16.0);
    let galley = Type::LABEL.galley(ui, text, theme.t3);
    paint::text_at(ui.painter(), at, galley, theme.t3);
    let Some(label) = plus else { return false };
    let square = egui::Rect::from_center_size(pos2(slot.right() - 28.0, slot.top() + 23.0), vec2(22.0, 22.0));
    let button = ui.interact(square, response.id.with("plus"), Sense::click());
    button.widget_info(|| WidgetInfo::labeled(Role::Button, true, label));
    let fill = paint::state_fill(ui, &button, Color32::TRANSPARENT, theme.hover, theme.press);
    paint::boxed(ui.painter(), square, radius::CHIP, fill, Color32::TRANSPARENT);
    Icon::Plus.paint(ui.painter(), square.center(), crate::icon::size::SMALL, theme.t3);
    paint::focus_ring(ui, &button, square, radius::CHIP);
    super::tip(button, label, "").clicked()
}

/// Words where the list of chats would be.
pub fn sidebar_note(ui: &mut Ui, text: &str) {
    let theme = Theme::of(ui);
    let width = ui.available_width() - 40.0;
    let galley = Type::SMALL.wrapped(ui, text, theme.t3, width);
    let (slot, response) = ui.allocate_exact_size(vec2(ui.available_width(), galley.size().y + 4.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, text));
    paint::text_at(ui.painter(), slot.left_top() + vec2(20.0, 2.0), galley, theme.t3);
}

/// GPU memory at the foot of the sidebar.
pub struct MemoryFoot<'a> {
    /// "No model loaded" and the like, above the figures; empty for none.
    pub note: &'a str,
    /// "GPU memory".
    pub label: &'a str,
    /// "10.1".
    pub used: &'a str,
    /// "of 38.7 GB".
    pub of: &'a str,
    /// What the rail shows: "10.1 GB".
    pub short: &'a str,
    /// Used part, 0 to 1.
    pub part: f32,
}

impl MemoryFoot<'_> {
    /// Height of the foot in the sidebar and in the rail.
    pub fn height(&self, rail: bool) -> f32 {
        match (rail, self.note.is_empty()) {
            (true, _) => 48.0,
            (false, true) => 54.0,
            (false, false) => 72.0,
        }
    }

    /// Paint into all of `ui`'s width; call it in a bottom-up layout or a rect of [`Self::height`].
    pub fn show(&self, ui: &mut Ui, rail: bool) -> Response {
        let theme = Theme::of(ui);
        let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), self.height(rail)), Sense::hover());
        response.widget_info(|| WidgetInfo::labeled(Role::Status, true, format!("{} {} {}", self.label, self.used, self.of)));
        let painter = ui.painter();
        let width = rect.width() - 1.0;
        paint::hline(painter, egui::Rangef::new(rect.left(), rect.left() + width), rect.top(), theme.line);
        let quiet = !self.note.is_empty();
        let bar_ink = if quiet { theme.t3 } else { theme.t2 };
        if rail {
            let text = Type::SHORTCUT.galley(ui, self.short, theme.t2);
            let x = rect.left() + width / 2.0 - text.size().x / 2.0;
            painter.galley(pos2(x, rect.top() + 12.0), text, theme.t2);
            let bar = egui::Rect::from_min_size(rect.left_top() + vec2(10.0, 33.0), vec2(width - 20.0, 3.0));
            paint::bar(painter, bar, self.part, theme.press, bar_ink);
            return response;
        }
        let (left, right) = (rect.left() + 20.0, rect.left() + width - 20.0);
        let mut y = rect.top() + 13.0;
        if quiet {
            painter.galley(pos2(left, y), Type::SMALL.galley(ui, self.note, theme.t2), theme.t2);
            y += 18.0;
        }
        let ink = if quiet { theme.t3 } else { theme.t2 };
        painter.galley(pos2(left, y), Type::SMALL.galley(ui, self.label, ink), ink);
        let figures = crate::runs(&[
            (self.used, Type::SMALL, ink),
            (" ", Type::SMALL, ink),
            (self.of, Type::SMALL, theme.t3),
        ]);
        let figures = ui.fonts_mut(|f| f.layout_job(figures));
        painter.galley(Align2::RIGHT_TOP.anchor_size(pos2(right, y), figures.size()).min, figures, ink);
        let bar = egui::Rect::from_min_max(pos2(left, y + 24.0), pos2(right, y + 27.0));
        paint::bar(painter, bar, self.part, theme.press, bar_ink);
        response
    }
}
