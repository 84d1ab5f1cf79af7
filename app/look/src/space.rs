//! Spacing, radii, shadows and the widths at which layouts change.

use egui::{Color32, CornerRadius, Margin, Shadow};

use crate::theme::Theme;

/// Page margin left and right.
pub const PAGE_X: f32 = 24.0;
/// Page margin on top.
pub const PAGE_Y: f32 = 16.0;
/// Between panels.
pub const PANEL_GAP: f32 = 12.0;
/// Panel padding.
pub const PANEL: Margin = Margin::symmetric(16, 14);
pub const HEADER: f32 = 52.0;
pub const SIDEBAR: f32 = 236.0;
pub const SIDEBAR_WIDE: f32 = 260.0;
pub const RAIL: f32 = 76.0;
/// Settings: the list of groups and the column beside it.
pub const SUBNAV: f32 = 180.0;
pub const SETTINGS: f32 = 752.0;
pub const TOAST: f32 = 372.0;
/// The reload bar with the room below it.
pub const RELOAD_BAR: f32 = 66.0;
pub const PALETTE: f32 = 640.0;
/// Widest user message.
pub const USER_MESSAGE: f32 = 560.0;

pub mod radius {
    use super::CornerRadius;
    pub const BAR_CAP: CornerRadius = CornerRadius::same(2);
    /// Chart bars, progress.
    pub const BAR: CornerRadius = CornerRadius::same(3);
    pub const CHIP: CornerRadius = CornerRadius::same(5);
    pub const SMALL_BUTTON: CornerRadius = CornerRadius::same(6);
    /// Rows, buttons, fields.
    pub const CONTROL: CornerRadius = CornerRadius::same(7);
    /// Segmented well.
    pub const WELL: CornerRadius = CornerRadius::same(8);
    pub const MENU: CornerRadius = CornerRadius::same(9);
    pub const CARD: CornerRadius = CornerRadius::same(10);
    pub const RELOAD_BAR: CornerRadius = CornerRadius::same(11);
    pub const MESSAGE: CornerRadius = CornerRadius::same(12);
    /// Composer, palette.
    pub const COMPOSER: CornerRadius = CornerRadius::same(14);
}

/// Toast, menu, tooltip.
pub const fn floating_shadow(theme: &Theme) -> Shadow {
    shadow(10, 30, theme.shadow)
}

/// Command palette.
pub const fn deep_shadow(theme: &Theme) -> Shadow {
    shadow(24, 64, theme.shadow_deep)
}

const fn shadow(y: i8, blur: u8, color: Color32) -> Shadow {
    Shadow {
        offset: [0, y],
        blur,
        spread: 0,
        color,
    }
}

/// How much room a layout has. Chosen from the available width in points, which already is the
/// width divided by the text scale (egui's zoom factor), so 1280 at 150 % is [`Density::Narrow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Density {
    /// Rail instead of sidebar, tabs as a select, one column of cards.
    Narrow,
    Normal,
    Wide,
}

impl Density {
    /// From the window's width in points.
    pub fn of_width(width: f32) -> Self {
        if width < 1060.0 {
            Self::Narrow
        } else if width < 1600.0 {
            Self::Normal
        } else {
            Self::Wide
        }
    }

    pub fn of(ctx: &egui::Context) -> Self {
        Self::of_width(ctx.content_rect().width())
    }

    /// Width of the sidebar or rail.
    pub const fn sidebar(self) -> f32 {
        match self {
            Self::Narrow => RAIL,
            Self::Normal => SIDEBAR,
            Self::Wide => SIDEBAR_WIDE,
        }
    }

    /// Widest chat column.
    pub const fn chat_column(self) -> f32 {
        match self {
            Self::Narrow | Self::Normal => 736.0,
            Self::Wide => 760.0,
        }
    }

    /// Columns of cards (agents).
    pub const fn card_columns(self) -> usize {
        match self {
            Self::Narrow => 1,
            Self::Normal => 2,
            Self::Wide => 3,
        }
    }
}
