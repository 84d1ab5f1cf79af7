//! Cards: frame, title, stat tiles, key and value rows, progress, error, empty state.

use dspark_strings::t;
use egui::{Color32, Frame, InnerResponse, Margin, Response, Role, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};

use super::button::{Button, IconButton};
use crate::{
    Icon, Theme, Type, paint,
    space::{PANEL, radius},
};

/// `panel` with a border, radius 10, no shadow.
pub fn card_frame(theme: &Theme) -> Frame {
    Frame {
        inner_margin: PANEL,
        fill: theme.panel,
        stroke: Stroke::new(1.0, theme.line),
        corner_radius: radius::CARD,
        ..Frame::NONE
    }
}

/// A card over the available width, padding 14 × 16.
pub fn card<R>(ui: &mut Ui, add: impl FnOnce(&mut Ui) -> R) -> InnerResponse<R> {
    card_with(ui, PANEL, add)
}

/// A card whose rows reach its border: tables, settings, lists.
pub fn card_flush<R>(ui: &mut Ui, add: impl FnOnce(&mut Ui) -> R) -> InnerResponse<R> {
    card_with(ui, Margin::ZERO, |ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        add(ui)
    })
}

fn card_with<R>(ui: &mut Ui, margin: Margin, add: impl FnOnce(&mut Ui) -> R) -> InnerResponse<R> {
    card_frame(Theme::of(ui)).inner_margin(margin).show(ui, |ui| {
        ui.set_width(ui.available_width());
        add(ui)
    })
}

/// Title of a card with a quieter note on the same baseline.
pub fn card_title(ui: &mut Ui, title: &str, note: &str) -> Response {
    let theme = Theme::of(ui);
    let mut job = crate::runs(&[(title, Type::PANEL, theme.t1)]);
    if !note.is_empty() {
        job.append(note, 8.0, Type::SMALL.with_line(20.0).format(theme.t3));
    }
    let response = ui.label(job);
    response.widget_info(|| WidgetInfo::labeled(Role::Heading, true, title));
    response
}

/// One figure of a stat row.
pub struct Stat<'a> {
    pub label: &'a str,
    pub value: &'a str,
    pub unit: &'a str,
    /// Third line, `t3`; empty for none.
    pub note: &'a str,
    /// Shown on hover after the label.
    pub definition: &'a str,
}

/// A figure with its unit 5 pt after it on the same baseline.
pub fn stat_figure(value: &str, unit: &str, theme: &Theme) -> egui::text::LayoutJob {
    let mut job = crate::runs(&[(value, Type::STAT, theme.t1)]);
    if !unit.is_empty() {
        // Bottom aligned with the line cut short, so that the baselines meet.
        let format = egui::text::TextFormat {
            valign: egui::Align::BOTTOM,
            line_height: Some(STAT_UNIT_LINE),
            ..Type::BASE.format(theme.t2)
        };
        job.append(unit, 5.0, format);
    }
    job
}

/// Line height at which 13 pt text aligned to the bottom of a 30 pt line shares the baseline of 24 pt text.
const STAT_UNIT_LINE: f32 = 22.0;

/// Figures side by side in one card, divided by 1 pt lines. `notes` false drops the third lines.
pub fn stat_row(ui: &mut Ui, stats: &[Stat<'_>], notes: bool) {
    let height = if notes { 90.0 } else { 72.0 };
    card_flush(ui, |ui| {
        let theme = Theme::of(ui);
        let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::hover());
        let width = rect.width() / stats.len().max(1) as f32;
        for (i, stat) in stats.iter().enumerate() {
            let cell = egui::Rect::from_min_size(pos2(rect.left() + width * i as f32, rect.top()), vec2(width, height));
            if i > 0 {
                paint::vline(ui.painter(), cell.left().round(), cell.y_range(), theme.line);
            }
            let tile = ui.interact(cell, response.id.with(i), Sense::hover());
            tile.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{} {} {}", stat.label, stat.value, stat.unit)));
            let painter = ui.painter().with_clip_rect(cell.intersect(ui.clip_rect()));
            let left = cell.left() + 18.0;
            painter.galley(
                pos2(left, cell.top() + 12.0),
                Type::LABEL.galley(ui, stat.label, theme.t3),
                theme.t3,
            );
            let figure = ui.fonts_mut(|f| f.layout_job(stat_figure(stat.value, stat.unit, theme)));
            painter.galley(pos2(left, cell.top() + 30.0), figure, theme.t1);
            if notes {
                let note = Type::SMALL.ellipsis(ui, stat.note, theme.t3, width - 36.0);
                painter.galley(pos2(left, cell.top() + 61.0), note, theme.t3);
            }
            if !stat.definition.is_empty() {
                super::tip(tile, stat.label, stat.definition);
            }
        }
    });
}

/// Key left in `t2`, value right in `t1`, 28 high, line on top.
pub fn key_value(ui: &mut Ui, key: &str, value: &str) -> Response {
    let theme = Theme::of(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 28.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{key}: {value}")));
    let painter = ui.painter();
    paint::hline(painter, rect.x_range(), rect.top(), theme.line);
    let value = Type::NOTE.galley(ui, value, theme.t1);
    let key = Type::NOTE.ellipsis(ui, key, theme.t2, rect.width() - value.size().x - 12.0);
    paint::text_left(painter, rect, rect.left(), key, theme.t2);
    paint::text_right(painter, rect, rect.right(), value, theme.t1);
    response
}

/// What a progress row asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgressAction {
    pub pause_or_resume: bool,
    pub cancel: bool,
}

/// A download or another long task.
pub struct Progress<'a> {
    pub name: &'a str,
    /// "8.2 of 22.1 GB, 61 MB/s, about 4 min left".
    pub detail: &'a str,
    /// 0 to 1; `None` while the size is unknown.
    pub part: Option<f32>,
    pub paused: bool,
    /// Whether it can be paused at all.
    pub pausable: bool,
}

/// Card with name, detail, pause and cancel, and a 4 pt bar.
pub fn progress_row(ui: &mut Ui, progress: &Progress<'_>) -> ProgressAction {
    let mut action = ProgressAction::default();
    card_with(
        ui,
        Margin {
            left: 14,
            right: 14,
            top: 12,
            bottom: 12,
        },
        |ui| {
            let theme = Theme::of(ui);
            ui.spacing_mut().item_spacing = vec2(4.0, 10.0);
            ui.horizontal(|ui| {
                let buttons = if progress.pausable { 64.0 } else { 30.0 };
                let width = ui.available_width() - buttons - 10.0;
                let name = Type::CONTROL.with_line(18.0).ellipsis(ui, progress.name, theme.t1, width);
                let detail = Type::SMALL.ellipsis(ui, progress.detail, theme.t3, width);
                let (rect, response) = ui.allocate_exact_size(vec2(width + 6.0, 36.0), Sense::hover());
                response.widget_info(|| {
                    let mut info = WidgetInfo::labeled(Role::ProgressIndicator, true, progress.name);
                    info.value = progress.part.map(f64::from);
                    info
                });
                paint::text_at(ui.painter(), rect.min, name, theme.t1);
                paint::text_at(ui.painter(), rect.min + vec2(0.0, 18.0), detail, theme.t3);
                if progress.pausable {
                    let (icon, word) = if progress.paused {
                        (Icon::Play, t!(resume))
                    } else {
                        (Icon::Pause, t!(pause))
                    };
                    action.pause_or_resume = ui.add(IconButton::new(icon, word)).clicked();
                }
                action.cancel = ui.add(IconButton::new(Icon::X, t!(cancel))).clicked();
            });
            progress_bar(ui, progress.part, if progress.paused { theme.t3 } else { theme.accent });
        },
    );
    action
}

/// 4 pt bar over the available width; without a part it is an empty track.
pub fn progress_bar(ui: &mut Ui, part: Option<f32>, fill: Color32) -> Response {
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 4.0), Sense::hover());
    paint::bar(ui.painter(), rect, part.unwrap_or(0.0), Theme::of(ui).press, fill);
    response
}

/// What an error card asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorAction {
    pub primary: bool,
    pub copy: bool,
}

/// What happened, the likely cause, one action, details that open, and copy.
pub struct ErrorCard<'a> {
    pub title: &'a str,
    pub cause: &'a str,
    /// Words of the primary action; empty for none.
    pub primary: &'a str,
    /// Text behind "Details"; empty for none.
    pub details: &'a str,
}

impl ErrorCard<'_> {
    pub fn show(&self, ui: &mut Ui) -> ErrorAction {
        let mut action = ErrorAction::default();
        let id = ui.scope_id().with(("error details", self.title));
        let response = card(ui, |ui| {
            let theme = Theme::of(ui);
            ui.horizontal_top(|ui| {
                let (mark, _) = ui.allocate_exact_size(vec2(20.0, 20.0), Sense::hover());
                Icon::WarningOctagonFill.paint(ui.painter(), mark.center() + vec2(-1.0, 1.0), crate::icon::size::LARGE, theme.bad);
                ui.vertical(|ui| {
                    ui.spacing_mut().item_spacing.y = 2.0;
                    ui.label(Type::PANEL.rich(self.title, theme.t1));
                    super::linked(ui, self.cause, Type::NOTE, theme.t2);
                    ui.add_space(10.0);
                    let mut open: bool = ui.data(|d| d.get_temp(id)).unwrap_or(false);
                    ui.spacing_mut().interact_size.y = 26.0;
                    ui.horizontal(|ui| {
                        if !self.primary.is_empty() {
                            action.primary = ui.add(Button::primary(self.primary).small()).clicked();
                        }
                        if !self.details.is_empty() {
                            let word = if open { t!(hide_details) } else { t!(details) };
                            open ^= ui.add(Button::secondary(word).small()).clicked();
                        }
                        action.copy = ui.add(Button::quiet(t!(copy)).small()).clicked();
                    });
                    ui.data_mut(|d| d.insert_temp(id, open));
                    if open {
                        ui.add_space(6.0);
                        ui.add(
                            egui::Label::new(Type::CODE_SMALL.rich(self.details, theme.t2))
                                .selectable(true)
                                .wrap(),
                        );
                    }
                });
            });
        })
        .response;
        response.widget_info(|| WidgetInfo::labeled(Role::Alert, true, format!("{}. {}", self.title, self.cause)));
        action
    }
}

/// Nothing here yet: icon, title, one line, one small button. Returns true when it was clicked.
pub fn empty_state(ui: &mut Ui, icon: Icon, title: &str, line: &str, button: &str) -> bool {
    let theme = Theme::of(ui);
    let mut clicked = false;
    ui.vertical_centered(|ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        icon.show(ui, crate::icon::size::EMPTY, theme.t3);
        ui.add_space(12.0);
        ui.label(Type::PANEL.rich(title, theme.t1));
        ui.add_space(4.0);
        ui.label(Type::NOTE.with_line(20.0).rich(line, theme.t2));
        if !button.is_empty() {
            ui.add_space(16.0);
            clicked = ui.add(Button::secondary(button).small()).clicked();
        }
    });
    clicked
}

/// [`empty_state`] in a card of `height`, centred.
pub fn empty_card(ui: &mut Ui, height: f32, icon: Icon, title: &str, line: &str, button: &str) -> bool {
    card_with(ui, Margin::ZERO, |ui| {
        ui.set_height(height - 2.0);
        let content = if button.is_empty() { 82.0 } else { 124.0 };
        ui.add_space(((height - content) / 2.0).max(0.0));
        empty_state(ui, icon, title, line, button)
    })
    .inner
}
