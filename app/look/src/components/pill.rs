//! The status pill: one state of the engine, always an icon and a word.

use dspark_strings::t;
use std::borrow::Cow;

use egui::{Color32, CornerRadius, Response, Role, Sense, Ui, Widget, WidgetInfo, pos2, vec2};

use super::{chip::Tone, ring::paint_ring};
use crate::{Icon, Theme, Type, paint};

/// The states of the engine as the header shows them.
#[derive(Clone, Debug, PartialEq)]
pub enum PillState<'a> {
    Stopped,
    Starting,
    NoModel,
    /// 0 to 100.
    Downloading(u8),
    /// What is being loaded: "weights".
    Loading(Cow<'a, str>),
    Calibrating,
    WarmingUp,
    Ready,
    /// Tokens processed and to process.
    Prefilling(u64, u64),
    /// Decode rate.
    Generating {
        tokens_per_second: f64,
    },
    Unloading,
    /// One or two words; a click opens the error card.
    Error(Cow<'a, str>),
}

impl PillState<'_> {
    pub const fn icon(&self) -> Icon {
        match self {
            Self::Stopped => Icon::Power,
            Self::Starting | Self::Loading(_) => Icon::CircleNotch,
            Self::NoModel => Icon::Cube,
            Self::Downloading(_) => Icon::ArrowDown,
            Self::Calibrating => Icon::Gauge,
            Self::WarmingUp => Icon::ThermometerHot,
            Self::Ready => Icon::CheckCircleFill,
            Self::Prefilling(..) => Icon::HourglassMedium,
            Self::Generating { .. } => Icon::Waveform,
            Self::Unloading => Icon::Eject,
            Self::Error(_) => Icon::WarningOctagonFill,
        }
    }

    pub const fn tone(&self) -> Tone {
        match self {
            Self::Stopped | Self::Starting | Self::NoModel | Self::Unloading => Tone::Neutral,
            Self::Ready => Tone::Ok,
            Self::Error(_) => Tone::Bad,
            _ => Tone::Accent,
        }
    }

    /// The word, and the live number that follows it.
    pub fn words(&self) -> (Cow<'_, str>, String) {
        match self {
            Self::Stopped => (t!(stopped).into(), String::new()),
            Self::Starting => (t!(starting).into(), String::new()),
            Self::NoModel => (t!(no_model).into(), String::new()),
            Self::Downloading(percent) => (t!(downloading).into(), format!("{percent}%")),
            Self::Loading(what) if what.is_empty() => (t!(loading).into(), String::new()),
            Self::Loading(what) => (t!(loading_what, what = what).into(), String::new()),
            Self::Calibrating => (t!(calibrating).into(), String::new()),
            Self::WarmingUp => (t!(warming_up).into(), String::new()),
            Self::Ready => (t!(ready).into(), String::new()),
            Self::Prefilling(done, of) => (t!(prefilling).into(), format!("{} / {}", short_count(*done), short_count(*of))),
            Self::Generating { tokens_per_second } => (t!(generating).into(), format!("{tokens_per_second:.0} tok/s")),
            Self::Unloading => (t!(unloading).into(), String::new()),
            Self::Error(reason) => (Cow::Borrowed(reason.as_ref()), String::new()),
        }
    }
}

/// 950, 8.2k, 19k, 1.2M.
pub fn short_count(n: u64) -> String {
    let scaled = |v: f64, unit: &str| {
        if v < 9.95 {
            format!("{v:.1}{unit}")
        } else {
            format!("{v:.0}{unit}")
        }
    };
    match n {
        0..1000 => n.to_string(),
        1000..1_000_000 => scaled(n as f64 / 1e3, "k"),
        _ => scaled(n as f64 / 1e6, "M"),
    }
}

/// 26 high. `live` paints the number in `t1`, as in the header of a running chat.
#[must_use]
pub struct StatusPill<'a> {
    state: &'a PillState<'a>,
    live: bool,
    steady: bool,
}

impl<'a> StatusPill<'a> {
    pub fn new(state: &'a PillState<'a>) -> Self {
        Self {
            state,
            live: false,
            steady: false,
        }
    }

    /// For the header: the number in `t1`, and the pill keeps the widest width it had in this
    /// state, so that a changing digit never moves its neighbours.
    pub fn live(mut self) -> Self {
        self.live = true;
        self.steady = true;
        self
    }
}

impl Widget for StatusPill<'_> {
    fn ui(self, ui: &mut Ui) -> Response {
        let theme = Theme::of(ui);
        let tone = self.state.tone();
        let ink = tone.ink(theme);
        let (word, number) = self.state.words();
        let label = if number.is_empty() {
            word.to_string()
        } else {
            format!("{word} {number}")
        };
        let number_ink = if self.live && tone == Tone::Accent { theme.t1 } else { ink };
        let mut job = crate::runs(&[(&word, Type::SMALL_CONTROL, ink)]);
        if !number.is_empty() {
            // In the live pill word and number stand a little apart.
            if self.live {
                job.append(&number, 6.0, Type::SMALL_CONTROL.format(number_ink));
            } else {
                job.append(&format!(" {number}"), 0.0, Type::SMALL_CONTROL.format(number_ink));
            }
        }
        let text = ui.fonts_mut(|f| f.layout_job(job));
        let mut width = 9.0 + 14.0 + 6.0 + text.size().x + 12.0;
        if self.steady {
            let id = ui.scope_id().with(("pill width", std::mem::discriminant(self.state)));
            let widest = ui.data(|d| d.get_temp::<f32>(id)).unwrap_or(0.0).max(width);
            ui.data_mut(|d| d.insert_temp(id, widest));
            width = widest;
        }
        let sense = if tone == Tone::Bad { Sense::click() } else { Sense::hover() };
        let (rect, response) = ui.allocate_exact_size(vec2(width, 26.0), sense);
        let role = if tone == Tone::Bad { Role::Button } else { Role::Status };
        response.widget_info(|| WidgetInfo::labeled(role, true, &label));
        if ui.is_rect_visible(rect) {
            let radius = CornerRadius::same(13);
            let (fill, border) = match tone {
                Tone::Neutral => (theme.raised, theme.line),
                _ => (tone.soft(theme), Color32::TRANSPARENT),
            };
            paint::boxed(ui.painter(), rect, radius, fill, border);
            let mark = pos2(rect.left() + 9.0 + 7.0, rect.center().y);
            if self.state.icon() == Icon::CircleNotch {
                paint_ring(ui, mark, crate::icon::size::SMALL, ink);
            } else {
                self.state.icon().paint(ui.painter(), mark, crate::icon::size::SMALL, ink);
            }
            paint::text_left(ui.painter(), rect, rect.left() + 29.0, text, ink);
            paint::focus_ring(ui, &response, rect, radius);
        }
        response
    }
}
