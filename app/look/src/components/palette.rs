//! The command palette: a modal list steered from its input.

use dspark_strings::t;
use egui::{
    Area, Color32, Context, Frame, Id, Key, Modal, Modifiers, Order, Rect, Response, Role, ScrollArea, Sense, Stroke, TextEdit, Ui,
    WidgetInfo, pos2, vec2,
};

use super::chip::key;
use crate::{
    Icon, Theme, Type, paint,
    space::{PALETTE, deep_shadow, radius},
};

/// What was pressed in the palette this frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PaletteKeys {
    /// −1 up, +1 down.
    pub step: i32,
    /// Enter: run the selected row.
    pub run: bool,
    /// Alt+Enter: its options.
    pub options: bool,
    /// Escape or a click outside.
    pub close: bool,
    /// The query changed: select the first row.
    pub changed: bool,
}

/// Draw the palette over everything. `rows` adds [`palette_heading`]s and [`PaletteRow`]s.
pub fn palette<R>(ctx: &Context, query: &mut String, hint: &str, rows: impl FnOnce(&mut Ui) -> R) -> (PaletteKeys, R) {
    let theme = Theme::of_ctx(ctx);
    let id = Id::unique("command palette");
    let mut keys = PaletteKeys::default();
    ctx.input_mut(|i| {
        keys.step = i32::from(i.consume_key(Modifiers::NONE, Key::ArrowDown)) - i32::from(i.consume_key(Modifiers::NONE, Key::ArrowUp));
        keys.options = i.consume_key(Modifiers::ALT, Key::Enter);
        keys.run = !keys.options && i.consume_key(Modifiers::NONE, Key::Enter);
    });
    let screen = ctx.content_rect();
    let width = PALETTE.min(screen.width() - 40.0);
    let top = if screen.height() < 700.0 { 56.0 } else { 112.0 };
    let frame = Frame {
        fill: theme.raised,
        stroke: Stroke::new(1.0, theme.line2),
        corner_radius: radius::COMPOSER,
        shadow: deep_shadow(theme),
        ..Frame::NONE
    };
    let area = Area::new(id)
        .order(Order::Foreground)
        .fixed_pos(pos2(screen.center().x - width / 2.0, screen.top() + top))
        .accessible_name(t!(command_palette));
    let modal = Modal::new(id).area(area).frame(frame).backdrop_color(theme.scrim).show(ctx, |ui| {
        ui.set_width(width - 2.0);
        ui.spacing_mut().item_spacing.y = 0.0;
        keys.changed = input(ui, theme, id, query, hint);
        let limit = (screen.height() - top - 54.0 - 36.0 - 40.0).max(120.0);
        let result = ScrollArea::vertical()
            .max_height(limit)
            .show(ui, |ui| Frame::NONE.inner_margin(8).show(ui, rows).inner)
            .inner;
        foot(ui, theme);
        result
    });
    keys.close = modal.should_close();
    (keys, modal.inner)
}

fn input(ui: &mut Ui, theme: &Theme, id: Id, query: &mut String, hint: &str) -> bool {
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 54.0), Sense::hover());
    Icon::MagnifyingGlass.paint(
        ui.painter(),
        pos2(rect.left() + 29.0, rect.center().y),
        crate::icon::size::LARGE,
        theme.t2,
    );
    paint::hline(ui.painter(), rect.x_range(), rect.bottom() - 1.0, theme.line);
    let inner = Rect::from_min_max(pos2(rect.left() + 50.0, rect.top()), pos2(rect.right() - 20.0, rect.bottom()));
    paint::over_right(ui, inner, |ui| {
        key(ui, "esc");
        ui.spacing_mut().interact_size.y = Type::INPUT.line;
        let mut layout = super::field::layouter(Type::INPUT, theme.t1, false);
        let edit = TextEdit::singleline(query)
            .id(id.with("query"))
            .frame(Frame::NONE)
            .font(Type::INPUT.font())
            .text_color(theme.t1)
            .hint_text(Type::INPUT.rich(hint, theme.t3))
            .desired_width(ui.available_width())
            .layouter(&mut layout);
        let response = ui.add(edit).accessible_name(t!(search_commands));
        if !response.has_focus() {
            response.request_focus();
        }
        response.changed()
    })
}

fn foot(ui: &mut Ui, theme: &Theme) {
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 36.0), Sense::hover());
    paint::hline(ui.painter(), rect.x_range(), rect.top(), theme.line);
    paint::over_left(ui, rect.shrink2(vec2(23.0, 0.0)), |ui| {
        ui.spacing_mut().item_spacing.x = 3.0;
        for (keys, word) in [
            (&["↑", "↓"][..], t!(palette_move)),
            (&["⏎"], t!(palette_run)),
            (&["⌥", "⏎"], t!(palette_options)),
        ] {
            for k in keys {
                key(ui, k);
            }
            ui.add_space(3.0);
            ui.label(Type::SMALL.rich(word, theme.t3));
            ui.add_space(15.0);
        }
    });
}

/// "Models", "Actions", "Chats".
pub fn palette_heading(ui: &mut Ui, text: &str) {
    let theme = Theme::of(ui);
    let first = ui.min_rect().height() < 1.0;
    let above = if first { 6.0 } else { 12.0 };
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), above + 20.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Heading, true, text));
    let galley = Type::LABEL.galley(ui, text, theme.t3);
    ui.painter().galley(rect.left_top() + vec2(12.0, above), galley, theme.t3);
}

/// A row, 38 high.
pub struct PaletteRow<'a> {
    pub icon: Icon,
    pub text: &'a str,
    /// Byte ranges of `text` that match the query, in order.
    pub matches: &'a [std::ops::Range<usize>],
    pub detail: &'a str,
    pub detail_matches: &'a [std::ops::Range<usize>],
    /// Word before the keys: "Load".
    pub verb: &'a str,
    pub keys: &'a [&'a str],
    pub selected: bool,
}

impl PaletteRow<'_> {
    pub fn show(&self, ui: &mut Ui) -> Response {
        let theme = Theme::of(ui);
        let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 38.0), Sense::click());
        response.widget_info(|| WidgetInfo::selected(Role::ListBoxOption, true, self.selected, self.text));
        if self.selected {
            // Keep the row in view while the arrows move it.
            let id = ui.scope_id().with("palette selection");
            let before = ui.data(|d| d.get_temp::<Id>(id));
            if before != Some(response.id) {
                ui.data_mut(|d| d.insert_temp(id, response.id));
                response.scroll_to_me(None);
            }
        }
        if !ui.is_rect_visible(rect) {
            return response;
        }
        let rest = if self.selected { theme.press } else { Color32::TRANSPARENT };
        let fill = paint::state_fill(
            ui,
            &response,
            rest,
            if self.selected { theme.press } else { theme.hover },
            theme.press,
        );
        paint::boxed(ui.painter(), rect, radius::WELL, fill, Color32::TRANSPARENT);
        let mark = if self.selected { theme.accent } else { theme.t2 };
        self.icon.paint(
            ui.painter(),
            pos2(rect.left() + 20.0, rect.center().y),
            crate::icon::size::NORMAL,
            mark,
        );

        let row = rect.shrink2(vec2(12.0, 0.0));
        let end = paint::over_right(ui, row, |ui| {
            ui.spacing_mut().item_spacing.x = 3.0;
            for k in self.keys.iter().rev() {
                key(ui, k);
            }
            if !self.verb.is_empty() {
                ui.add_space(8.0);
                ui.label(Type::SMALL.rich(self.verb, theme.t2));
            }
            ui.min_rect().left()
        });
        let mut job = egui::text::LayoutJob::default();
        marked(&mut job, self.text, self.matches, Type::BASE, theme.t1, theme.accent, 0.0);
        if !self.detail.is_empty() {
            marked(
                &mut job,
                self.detail,
                self.detail_matches,
                Type::SMALL.with_line(20.0),
                theme.t3,
                theme.accent,
                12.0,
            );
        }
        job.wrap = egui::text::TextWrapping::truncate_at_width((end - 12.0 - rect.left() - 40.0).max(0.0));
        let galley = ui.fonts_mut(|f| f.layout_job(job));
        paint::text_left(ui.painter(), rect, rect.left() + 40.0, galley, theme.t1);
        response
    }
}

/// `text` with the matched ranges in `accent`.
fn marked(
    job: &mut egui::text::LayoutJob,
    text: &str,
    matches: &[std::ops::Range<usize>],
    style: Type,
    ink: Color32,
    accent: Color32,
    lead: f32,
) {
    let mut at = 0;
    let mut lead = lead;
    let mut piece = |from: usize, to: usize, color: Color32| {
        if let Some(part) = text.get(from..to).filter(|p| !p.is_empty()) {
            job.append(part, lead, style.format(color));
            lead = 0.0;
        }
    };
    for range in matches {
        piece(at, range.start, ink);
        piece(range.start, range.end, accent);
        at = range.end;
    }
    piece(at, text.len(), ink);
}
