//! Toasts: bottom right above what stands there, six seconds, errors until closed, three at most.

use dspark_strings::t;
use std::time::Duration;

use egui::{Align2, Area, Context, Frame, Id, Margin, Order, Role, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};

use super::{
    Tone,
    button::{Button, IconButton},
};
use crate::{
    Icon, Theme, Type, motion,
    space::{TOAST, floating_shadow, radius},
};

const STAYS: f64 = 6.0;
const MOST: usize = 3;

/// One message. `action` is an id the app chose and the words of its button.
#[derive(Clone, Debug, PartialEq)]
pub struct Toast {
    pub tone: Tone,
    pub icon: Icon,
    pub title: String,
    pub line: String,
    pub action: Option<(u64, String)>,
    /// Stays until closed.
    pub sticky: bool,
}

impl Toast {
    /// Something went well.
    pub fn done(title: impl Into<String>) -> Self {
        Self::new(Tone::Ok, Icon::CheckCircleFill, title)
    }

    pub fn info(title: impl Into<String>) -> Self {
        Self::new(Tone::Neutral, Icon::InfoFill, title)
    }

    pub fn warning(title: impl Into<String>) -> Self {
        Self::new(Tone::Warn, Icon::WarningFill, title)
    }

    /// Stays until closed.
    pub fn error(title: impl Into<String>) -> Self {
        let mut toast = Self::new(Tone::Bad, Icon::WarningOctagonFill, title);
        toast.sticky = true;
        toast
    }

    fn new(tone: Tone, icon: Icon, title: impl Into<String>) -> Self {
        Self {
            tone,
            icon,
            title: title.into(),
            line: String::new(),
            action: None,
            sticky: false,
        }
    }

    /// The second line.
    #[must_use]
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.line = line.into();
        self
    }

    /// A small button; its id comes back from [`Toasts::show`].
    #[must_use]
    pub fn action(mut self, id: u64, words: impl Into<String>) -> Self {
        self.action = Some((id, words.into()));
        self
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    None,
    Close,
    Action,
}

/// The stack. Keep one in the app and call [`Toasts::show`] at the end of every frame.
#[derive(Debug, Default)]
pub struct Toasts {
    shown: Vec<Entry>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    key: u64,
    toast: Toast,
    /// Second at which it began, and at which it leaves.
    since: Option<f64>,
    leaving: Option<f64>,
}

impl Toasts {
    pub fn push(&mut self, toast: Toast) {
        self.next += 1;
        self.shown.push(Entry {
            key: self.next,
            toast,
            since: None,
            leaving: None,
        });
        // The oldest that may go makes room.
        while self.shown.len() > MOST {
            let at = self.shown.iter().position(|e| !e.toast.sticky).unwrap_or(0);
            self.shown.remove(at);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    pub fn titles(&self) -> impl Iterator<Item = &str> {
        self.shown.iter().map(|e| e.toast.title.as_str())
    }

    /// Draw them; returns the id of an action that was clicked. `floor` is what they may not reach below, where
    /// something with buttons stands at the bottom: the composer, the reload bar.
    pub fn show(&mut self, ctx: &Context, floor: Option<f32>) -> Option<u64> {
        if self.shown.is_empty() {
            return None;
        }
        let now = ctx.input(|i| i.time);
        let screen = ctx.content_rect();
        let still = motion::reduced(ctx);
        let mut bottom = (screen.bottom() - 20.0).min(floor.map_or(f32::INFINITY, |floor| floor - 12.0));
        let mut chosen = None;
        for entry in self.shown.iter_mut().rev() {
            let since = *entry.since.get_or_insert(now);
            let id = Id::unique(("toast", entry.key));
            let hovered = ctx.read_response(id.with("card")).is_some_and(|r| r.contains_pointer());
            if !entry.toast.sticky && entry.leaving.is_none() && !hovered {
                let left = since + STAYS - now;
                if left <= 0.0 {
                    entry.leaving = Some(now);
                } else {
                    ctx.request_repaint_after(Duration::from_secs_f64(left));
                }
            }
            let arrive = if still {
                1.0
            } else {
                (((now - since) as f32) / motion::ARRIVE).clamp(0.0, 1.0)
            };
            let leave = entry.leaving.map_or(0.0, |t| {
                if still {
                    1.0
                } else {
                    (((now - t) as f32) / motion::LEAVE).clamp(0.0, 1.0)
                }
            });
            if arrive < 1.0 || (entry.leaving.is_some() && leave < 1.0) {
                ctx.request_repaint();
            }
            let eased = egui::emath::easing::cubic_out(arrive);
            let (height, outcome) = place(ctx, id, &entry.toast, bottom + motion::RISE * (1.0 - eased), eased * (1.0 - leave));
            bottom -= height + 10.0;
            match outcome {
                Outcome::None => {}
                Outcome::Close => entry.leaving = Some(now),
                Outcome::Action => {
                    chosen = entry.toast.action.as_ref().map(|(id, _)| *id);
                    entry.leaving = Some(now);
                }
            }
        }
        let gone = |e: &Entry| e.leaving.is_some_and(|t| still || now - t >= f64::from(motion::LEAVE));
        self.shown.retain(|e| !gone(e));
        chosen
    }
}

fn place(ctx: &Context, id: Id, toast: &Toast, bottom: f32, opacity: f32) -> (f32, Outcome) {
    let screen = ctx.content_rect();
    let shown = Area::new(id)
        .order(Order::Foreground)
        .pivot(Align2::RIGHT_BOTTOM)
        .fixed_pos(pos2(screen.right() - 20.0, bottom))
        .fade_in(false)
        .show(ctx, |ui| {
            ui.set_opacity(opacity);
            toast_card(ui, toast, TOAST.min(screen.width() - 40.0), id)
        });
    (shown.response.rect.height(), shown.inner)
}

fn toast_card(ui: &mut Ui, toast: &Toast, width: f32, id: Id) -> Outcome {
    let theme = Theme::of(ui);
    let mut outcome = Outcome::None;
    let frame = Frame {
        inner_margin: Margin {
            left: 14,
            right: 10,
            top: 12,
            bottom: 12,
        },
        fill: theme.raised,
        stroke: Stroke::new(1.0, theme.line2),
        corner_radius: radius::CARD,
        shadow: floating_shadow(theme),
        ..Frame::NONE
    };
    let shown = frame.show(ui, |ui| {
        ui.set_width(width - 26.0);
        let top = ui.cursor().min;
        ui.horizontal_top(|ui| {
            ui.spacing_mut().item_spacing.x = 10.0;
            let (mark, _) = ui.allocate_exact_size(vec2(18.0, 20.0), Sense::hover());
            toast
                .icon
                .paint(ui.painter(), mark.center(), crate::icon::size::LARGE, toast.tone.ink(theme));
            let words = toast.action.as_ref().map(|(_, words)| words.as_str());
            // What stays until it is closed must be closable, whatever else it offers.
            let closes = toast.sticky || words.is_none();
            let cross = if closes { 34.0 } else { 0.0 };
            let button = cross + words.map_or(0.0, |w| Type::SMALL_CONTROL.galley(ui, w, theme.t1).size().x + 32.0);
            ui.vertical(|ui| {
                ui.spacing_mut().item_spacing.y = 0.0;
                ui.set_width(ui.available_width() - button);
                ui.add(egui::Label::new(Type::CONTROL.rich(&toast.title, theme.t1)).wrap());
                if !toast.line.is_empty() {
                    ui.add(egui::Label::new(Type::NOTE.with_line(18.0).rich(&toast.line, theme.t2)).wrap());
                }
            });
            ui.vertical(|ui| {
                if let Some(words) = words {
                    ui.add_space(6.0);
                    if ui.add(Button::secondary(words).small()).clicked() {
                        outcome = Outcome::Action;
                    }
                }
                if !closes {
                    return;
                }
                // Optically at the card's corner; a child of its own, so that the card does not grow.
                let place = egui::Rect::from_min_size(pos2(top.x + width - 26.0 - 26.0, top.y - 4.0), vec2(30.0, 30.0));
                let close = IconButton::new(Icon::X, t!(close)).icon_size(15.0).no_tooltip();
                if crate::paint::over_down(ui, place, |ui| ui.add(close)).clicked() {
                    outcome = Outcome::Close;
                }
            });
        });
    });
    let response = ui.interact(shown.response.rect, id.with("card"), Sense::hover());
    let live = if toast.tone == Tone::Bad { Role::Alert } else { Role::Status };
    response.widget_info(|| WidgetInfo::labeled(live, true, format!("{} {}", toast.title, toast.line).trim_end()));
    outcome
}

/// A toast drawn in place, for the gallery.
pub(crate) fn toast_in_place(ui: &mut Ui, toast: &Toast) {
    let id = ui.scope_id().with(&toast.title);
    toast_card(ui, toast, TOAST, id);
}
