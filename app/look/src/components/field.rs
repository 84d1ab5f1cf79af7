//! Text field and select.

use std::sync::Arc;

use egui::{
    Color32, Frame, Key, Popup, PopupCloseBehavior, Rect, RectAlign, Response, Role, Sense, TextBuffer, TextEdit, Ui, Widget, WidgetInfo,
    pos2, text::LayoutJob, vec2,
};

use super::menu::{MenuItem, menu_frame};
use crate::{Icon, Theme, Type, paint, space::radius};

/// 30 high single-line field. With an error a 12 pt line follows below.
#[must_use]
pub struct TextField<'a> {
    text: &'a mut String,
    label: &'a str,
    hint: &'a str,
    icon: Option<Icon>,
    width: f32,
    height: f32,
    error: Option<&'a str>,
    password: bool,
    mono: bool,
    id: Option<egui::Id>,
    focus: bool,
    mark: bool,
    wrong: bool,
}

impl<'a> TextField<'a> {
    /// `label` is the accessible name.
    pub fn new(text: &'a mut String, label: &'a str) -> Self {
        Self {
            text,
            label,
            hint: "",
            icon: None,
            width: f32::INFINITY,
            height: 30.0,
            error: None,
            password: false,
            mono: false,
            id: None,
            focus: false,
            mark: false,
            wrong: false,
        }
    }

    /// Placeholder.
    pub fn hint(mut self, hint: &'a str) -> Self {
        self.hint = hint;
        self
    }

    /// Icon at the left, such as the magnifying glass.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icon = Some(icon);
        self
    }

    /// The available width otherwise.
    pub fn width(mut self, width: f32) -> Self {
        self.width = width;
        self
    }

    pub fn height(mut self, height: f32) -> Self {
        self.height = height;
        self
    }

    /// What is wrong and what to do; the border turns `bad`.
    pub fn error(mut self, error: Option<&'a str>) -> Self {
        self.error = error;
        self
    }

    /// The border of an error, without a line: what is wrong stands elsewhere.
    pub fn wrong(mut self, wrong: bool) -> Self {
        self.wrong = wrong;
        self
    }

    pub fn password(mut self) -> Self {
        self.password = true;
        self
    }

    /// Paths and ids.
    pub fn mono(mut self) -> Self {
        self.mono = true;
        self
    }

    pub fn id(mut self, id: egui::Id) -> Self {
        self.id = Some(id);
        self
    }

    /// As [`TextField::focus`], with everything marked: typing replaces it.
    pub fn focus_all(mut self) -> Self {
        self.focus = true;
        self.mark = true;
        self
    }

    /// Take the keyboard now: for a field that has just appeared.
    pub fn focus(mut self) -> Self {
        self.focus = true;
        self
    }
}

impl Widget for TextField<'_> {
    fn ui(mut self, ui: &mut Ui) -> Response {
        // An error that comes or goes must not change who has the keyboard.
        self.id.get_or_insert_with(|| ui.make_persistent_id(("text field", self.label)));
        if let Some(error) = self.error.map(str::to_owned) {
            let width = self.width.min(ui.available_width());
            let column = egui::Layout::top_down(egui::Align::Min);
            return ui
                .allocate_ui_with_layout(vec2(width, self.height), column, |ui| {
                    ui.spacing_mut().item_spacing.y = 4.0;
                    let response = self.show(ui);
                    field_error(ui, &error);
                    response
                })
                .inner;
        }
        self.show(ui)
    }
}

impl TextField<'_> {
    fn show(self, ui: &mut Ui) -> Response {
        let theme = Theme::of(ui);
        let characters = self.text.chars().count();
        let width = self.width.min(ui.available_width());
        let (rect, _) = ui.allocate_exact_size(vec2(width, self.height), Sense::hover());
        let background = ui.painter().add(egui::Shape::Noop);
        let mut inner = rect.shrink2(vec2(11.0, 0.0));
        if let Some(icon) = self.icon {
            icon.paint(ui.painter(), pos2(inner.left() + 7.5, rect.center().y), 15.0, theme.t3);
            inner.min.x += 15.0 + 8.0;
        }
        let style = if self.mono { Type::CODE_SMALL.with_line(20.0) } else { Type::BASE };
        inner = Rect::from_center_size(inner.center(), vec2(inner.width(), style.line));
        let ink = if ui.is_enabled() { theme.t1 } else { theme.tdis };
        let mut layout = layouter(style, ink, self.password);
        let mut edit = TextEdit::singleline(self.text)
            .frame(Frame::NONE)
            .desired_width(inner.width())
            .font(style.font())
            .text_color(ink)
            .password(self.password)
            .hint_text(style.rich(self.hint, theme.t3))
            .layouter(&mut layout);
        if let Some(id) = self.id {
            edit = edit.id(id);
        }
        let response = paint::over_down(ui, inner, |ui| {
            ui.spacing_mut().interact_size.y = style.line;
            ui.add(edit).accessible_name(self.label)
        });
        if self.focus {
            response.request_focus();
        }
        if self.mark {
            let end = egui::text::CCursor::new(characters);
            let mut edit = egui::text_edit::TextEditState::load(ui.ctx(), response.id).unwrap_or_default();
            let all = egui::text::CCursorRange::two(egui::text::CCursor::new(0), end);
            edit.cursor.set_char_range(Some(all));
            edit.store(ui.ctx(), response.id);
        }
        let border = if self.error.is_some() || self.wrong {
            theme.bad
        } else if response.has_focus() {
            theme.t3
        } else {
            theme.line2
        };
        ui.painter().set(
            background,
            egui::epaint::RectShape::new(
                rect,
                radius::CONTROL,
                theme.field,
                egui::Stroke::new(1.0, border),
                egui::StrokeKind::Inside,
            ),
        );
        if came_by_keyboard(ui, &response) {
            paint::ring(ui, rect, radius::CONTROL);
        }
        response
    }
}

/// Text fields take focus from a click too; the ring is only for the keyboard.
fn came_by_keyboard(ui: &Ui, response: &Response) -> bool {
    let id = response.id.with("keyboard focus");
    if response.gained_focus() {
        let tab = ui.input(|i| i.key_pressed(Key::Tab));
        ui.data_mut(|d| d.insert_temp(id, tab));
    }
    response.has_focus() && ui.data(|d| d.get_temp(id)).unwrap_or(false)
}

/// egui's own layouter ignores line heights and letter spacing.
pub(crate) fn layouter(style: Type, color: Color32, password: bool) -> impl FnMut(&Ui, &dyn TextBuffer, f32) -> Arc<egui::Galley> {
    move |ui, text, _| {
        let text = text.as_str();
        let shown = if password {
            "•".repeat(text.chars().count())
        } else {
            text.to_owned()
        };
        let mut job = LayoutJob::single_section(shown, style.format(color));
        job.break_on_newline = false;
        job.keep_trailing_whitespace = true;
        ui.fonts_mut(|f| f.layout_job(job))
    }
}

/// The line under a field, also for other controls.
pub fn field_error(ui: &mut Ui, text: &str) -> Response {
    let theme = Theme::of(ui);
    let galley = Type::SMALL.wrapped(ui, text, theme.bad, ui.available_width() - 20.0);
    let (rect, response) = ui.allocate_exact_size(vec2(20.0 + galley.size().x, galley.size().y), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Alert, true, text));
    Icon::WarningCircleFill.paint(
        ui.painter(),
        pos2(rect.left() + 7.0, rect.top() + 9.0),
        crate::icon::size::SMALL,
        theme.bad,
    );
    paint::text_at(ui.painter(), pos2(rect.left() + 20.0, rect.top()), galley, theme.bad);
    response
}

/// A value chosen from a menu. Returns true when it changed.
///
/// `label` is the accessible name; `width` is the width of the closed control.
pub fn select<T: PartialEq + Clone>(ui: &mut Ui, label: &str, value: &mut T, choices: &[(T, &str)], width: f32) -> bool {
    let theme = Theme::of(ui);
    let enabled = ui.is_enabled();
    let current = choices.iter().find(|(v, _)| v == value).map_or("", |(_, text)| *text);
    let (rect, response) = ui.allocate_exact_size(vec2(width, 30.0), if enabled { Sense::click() } else { Sense::hover() });
    response.widget_info(|| {
        let mut info = WidgetInfo::labeled(Role::ComboBox, enabled, label);
        info.current_text_value = Some(current.to_owned());
        info
    });
    let fill = paint::state_fill(ui, &response, theme.raised, theme.hover, theme.press);
    let ink = if enabled { theme.t1 } else { theme.tdis };
    paint::boxed(ui.painter(), rect, radius::CONTROL, fill, theme.line2);
    let text = Type::BASE.ellipsis(ui, current, ink, width - 22.0 - 21.0);
    paint::text_left(ui.painter(), rect, rect.left() + 11.0, text, ink);
    Icon::CaretUpDown.paint(ui.painter(), pos2(rect.right() - 17.5, rect.center().y), 13.0, theme.t3);
    paint::focus_ring(ui, &response, rect, radius::CONTROL);

    let mut changed = false;
    Popup::menu(&response)
        .id(response.id.with("menu"))
        .frame(menu_frame(theme))
        .align(RectAlign::BOTTOM_START)
        .gap(4.0)
        .width(width.max(120.0))
        .close_behavior(PopupCloseBehavior::CloseOnClick)
        .accessible_name(label)
        .show(|ui| {
            ui.set_min_width(width.max(120.0) - 12.0);
            ui.spacing_mut().item_spacing.y = 0.0;
            egui::ScrollArea::vertical().max_height(336.0).show(ui, |ui| {
                for (v, text) in choices {
                    let chosen = v == value;
                    let item = MenuItem::new(text).role(Role::ListBoxOption).checked(chosen);
                    if ui.add(item).clicked() && !chosen {
                        *value = v.clone();
                        changed = true;
                    }
                }
            });
        });
    changed
}
