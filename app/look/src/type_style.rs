//! The text styles: family, size, line height, letter spacing.

use std::sync::Arc;

use egui::{
    Color32, FontFamily, FontId, Galley, RichText, Ui,
    text::{LayoutJob, TextFormat, TextWrapping},
};

/// One text style. Sizes and line heights are points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Type {
    pub family: Family,
    pub size: f32,
    pub line: f32,
    /// Letter spacing.
    pub tracking: f32,
}

/// The font families that [`crate::fonts::install`] registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    Regular,
    Medium,
    SemiBold,
    Italic,
    Mono,
    MonoMedium,
    Icon,
    IconFill,
}

impl Family {
    pub const ALL: [Self; 8] = [
        Self::Regular,
        Self::Medium,
        Self::SemiBold,
        Self::Italic,
        Self::Mono,
        Self::MonoMedium,
        Self::Icon,
        Self::IconFill,
    ];

    /// The name under which egui knows the family.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Regular => "inter",
            Self::Medium => "inter-medium",
            Self::SemiBold => "inter-semibold",
            Self::Italic => "inter-italic",
            Self::Mono => "mono",
            Self::MonoMedium => "mono-medium",
            Self::Icon => "icon",
            Self::IconFill => "icon-fill",
        }
    }

    pub fn egui(self) -> FontFamily {
        FontFamily::Name(self.name().into())
    }
}

const fn style(family: Family, size: f32, line: f32, tracking: f32) -> Type {
    Type {
        family,
        size,
        line,
        tracking,
    }
}

/// Letter spacing of running text: Inter's default is a trifle wide at these sizes.
const SNUG: f32 = -0.04;

impl Type {
    /// Race rate.
    pub const DISPLAY: Self = style(Family::SemiBold, 32.0, 38.0, -0.8);
    /// Number of a stat tile; its unit follows in [`Type::BASE`].
    pub const STAT: Self = style(Family::SemiBold, 24.0, 30.0, -0.5);
    /// First run and empty pages.
    pub const TITLE: Self = style(Family::SemiBold, 22.0, 30.0, -0.4);
    /// Machine name, sheet title.
    pub const HEADING: Self = style(Family::SemiBold, 16.0, 24.0, -0.2);
    /// Palette input.
    pub const INPUT: Self = style(Family::Regular, 16.0, 24.0, SNUG);
    /// Header title.
    pub const SCREEN: Self = style(Family::SemiBold, 14.0, 20.0, -0.1);
    /// Chat text.
    pub const PROSE: Self = style(Family::Regular, 14.0, 22.0, SNUG);
    pub const PROSE_STRONG: Self = style(Family::SemiBold, 14.0, 22.0, SNUG);
    pub const PROSE_ITALIC: Self = style(Family::Italic, 14.0, 22.0, SNUG);
    pub const PROSE_H1: Self = style(Family::SemiBold, 18.0, 26.0, -0.2);
    pub const PROSE_H2: Self = style(Family::SemiBold, 16.0, 24.0, -0.1);
    pub const PROSE_H3: Self = style(Family::SemiBold, 14.0, 22.0, SNUG);
    /// Everything else.
    pub const BASE: Self = style(Family::Regular, 13.0, 20.0, SNUG);
    /// Controls.
    pub const CONTROL: Self = style(Family::Medium, 13.0, 20.0, SNUG);
    /// Panel titles.
    pub const PANEL: Self = style(Family::SemiBold, 13.0, 20.0, SNUG);
    /// Second lines in cards: causes, notes.
    pub const NOTE: Self = style(Family::Regular, 12.5, 19.0, SNUG);
    pub const SEGMENT: Self = style(Family::Medium, 12.5, 20.0, SNUG);
    /// Metadata.
    pub const SMALL: Self = style(Family::Regular, 12.0, 18.0, SNUG);
    pub const SMALL_CONTROL: Self = style(Family::Medium, 12.0, 18.0, SNUG);
    pub const SMALL_STRONG: Self = style(Family::SemiBold, 12.0, 18.0, SNUG);
    /// Captions, axes, section names. Sentence case.
    pub const LABEL: Self = style(Family::Medium, 11.0, 16.0, SNUG);
    /// Shortcuts, rail words.
    pub const SHORTCUT: Self = style(Family::Regular, 11.0, 16.0, SNUG);
    pub const CODE: Self = style(Family::Mono, 12.5, 20.0, SNUG);
    pub const CODE_STRONG: Self = style(Family::MonoMedium, 12.5, 20.0, SNUG);
    /// Command and path strips.
    pub const CODE_SMALL: Self = style(Family::Mono, 12.0, 18.0, SNUG);

    #[must_use]
    pub const fn with_family(mut self, family: Family) -> Self {
        self.family = family;
        self
    }

    #[must_use]
    pub const fn with_line(mut self, line: f32) -> Self {
        self.line = line;
        self
    }

    pub fn font(self) -> FontId {
        FontId::new(self.size, self.family.egui())
    }

    pub fn format(self, color: Color32) -> TextFormat {
        TextFormat {
            font_id: self.font(),
            color,
            line_height: Some(self.line),
            extra_letter_spacing: self.tracking,
            valign: egui::Align::Center,
            ..TextFormat::default()
        }
    }

    /// For `ui.label(...)` and other egui widgets.
    pub fn rich(self, text: impl Into<String>, color: Color32) -> RichText {
        RichText::new(text)
            .font(self.font())
            .line_height(Some(self.line))
            .extra_letter_spacing(self.tracking)
            .color(color)
    }

    /// One line, as wide as it needs.
    pub fn galley(self, ui: &Ui, text: impl Into<String>, color: Color32) -> Arc<Galley> {
        ui.fonts_mut(|f| f.layout_job(LayoutJob::single_section(text.into(), self.format(color))))
    }

    /// One line, cut with an ellipsis at `width`.
    pub fn ellipsis(self, ui: &Ui, text: impl Into<String>, color: Color32, width: f32) -> Arc<Galley> {
        let mut job = LayoutJob::single_section(text.into(), self.format(color));
        job.wrap = TextWrapping::truncate_at_width(width.max(0.0));
        ui.fonts_mut(|f| f.layout_job(job))
    }

    /// Wrapped at `width`.
    pub fn wrapped(self, ui: &Ui, text: impl Into<String>, color: Color32, width: f32) -> Arc<Galley> {
        let mut job = LayoutJob::single_section(text.into(), self.format(color));
        job.wrap = TextWrapping::wrap_at_width(width.max(0.0));
        ui.fonts_mut(|f| f.layout_job(job))
    }
}

/// Several runs of text on one line or wrapped: `runs(&[("66.2", Type::STAT, t1), (" tok/s", Type::BASE, t2)])`.
pub fn runs(parts: &[(&str, Type, Color32)]) -> LayoutJob {
    let mut job = LayoutJob::default();
    for (text, style, color) in parts {
        job.append(text, 0.0, style.format(*color));
    }
    job
}

/// Shorten a path or id in the middle so that it fits `width`: `/Volumes/…/model-4bit`.
pub fn middle_ellipsis(ui: &Ui, style: Type, text: &str, width: f32) -> String {
    let fits = |s: &str| style.galley(ui, s, Color32::WHITE).size().x <= width;
    if fits(text) {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    // Keep more of the end: names differ there.
    let cut = |keep: usize| {
        let head = keep * 2 / 5;
        let tail = keep - head;
        chars[..head]
            .iter()
            .chain(&['…'])
            .chain(&chars[chars.len() - tail..])
            .collect::<String>()
    };
    let (mut low, mut high) = (0, chars.len().saturating_sub(1));
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(&cut(middle)) { low = middle } else { high = middle - 1 }
    }
    cut(low)
}
