//! Colour tokens: one table for dark, one for light, and their forms under Increase Contrast.

use egui::{Color32, Context, Ui};

/// Every colour of the interface. Chrome is neutral; colour means data or state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Theme {
    pub dark: bool,
    /// Window and chat background.
    pub base: Color32,
    /// Sidebar and rail.
    pub side: Color32,
    /// Cards, tables, chart panels.
    pub panel: Color32,
    /// Composer, menus, toasts, secondary buttons, user message.
    pub raised: Color32,
    /// Hovered row, selected screen in the sidebar, inline chips.
    pub hover: Color32,
    /// Pressed, selected list row, slider and toggle track.
    pub press: Color32,
    /// Text field, segmented control well.
    pub field: Color32,
    /// Code block, command strip.
    pub code: Color32,
    /// Expanded table row, one step lighter than `panel`.
    pub expanded: Color32,
    /// 1 pt dividers and card border.
    pub line: Color32,
    /// 1 pt control and popup border.
    pub line2: Color32,
    /// Primary text.
    pub t1: Color32,
    /// Secondary text, icons.
    pub t2: Color32,
    /// Metadata, axis labels, placeholder.
    pub t3: Color32,
    /// Disabled text only.
    pub tdis: Color32,
    /// Links, selected icon, caret, live value, slider fill.
    pub accent: Color32,
    /// Primary button, toggle on.
    pub accent_fill: Color32,
    pub on_accent: Color32,
    /// Busy pill, selected option.
    pub accent_soft: Color32,
    /// `accent_soft` under the pointer.
    pub accent_soft2: Color32,
    pub ok: Color32,
    pub warn: Color32,
    pub bad: Color32,
    pub ok_soft: Color32,
    pub warn_soft: Color32,
    pub bad_soft: Color32,
    /// Keyboard focus ring.
    pub focus: Color32,
    /// Behind modals.
    pub scrim: Color32,
    /// Shadow of floating surfaces.
    pub shadow: Color32,
    /// Shadow of the command palette.
    pub shadow_deep: Color32,
    pub series: Series,
    pub memory: MemoryRamp,
    pub syntax: Syntax,
}

/// Chart series. No pair relies on hue alone: position in the stack and a marker are the second cue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Series {
    pub accepted: Color32,
    pub drafted: Color32,
    pub lookup: Color32,
    pub plain: Color32,
    pub rejected: Color32,
    pub ceiling: Color32,
    /// Background of accepted runs in prose.
    pub accepted_tint: Color32,
    /// Background of lookup runs in prose.
    pub lookup_tint: Color32,
}

/// Segments of a memory bar, from the largest and steadiest part to the smallest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryRamp {
    pub grey: [Color32; 4],
    /// Context of the target: what the user is changing.
    pub context: Color32,
    /// Context of the drafter.
    pub context_drafter: Color32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Syntax {
    pub keyword: Color32,
    pub string: Color32,
    pub number: Color32,
    /// Functions and types.
    pub function: Color32,
    pub comment: Color32,
}

const fn rgb(hex: u32) -> Color32 {
    Color32::from_rgb((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
}

/// `hex` at `alpha` per mille, premultiplied in gamma space as egui blends.
const fn alpha(hex: u32, per_mille: u32) -> Color32 {
    const fn part(v: u32, a: u32) -> u8 {
        ((v * a + 500) / 1000) as u8
    }
    Color32::from_rgba_premultiplied(
        part(hex >> 16 & 255, per_mille),
        part(hex >> 8 & 255, per_mille),
        part(hex & 255, per_mille),
        part(255, per_mille),
    )
}

pub const DARK: Theme = Theme {
    dark: true,
    base: rgb(0x0F_1114),
    side: rgb(0x14_171B),
    panel: rgb(0x17_1A1F),
    raised: rgb(0x1D_2127),
    hover: rgb(0x23_2830),
    press: rgb(0x2A_303A),
    field: rgb(0x12_1518),
    code: rgb(0x11_1418),
    expanded: rgb(0x1B_1F25),
    line: rgb(0x25_2A31),
    line2: rgb(0x33_3A44),
    t1: rgb(0xEC_EEF1),
    t2: rgb(0xAD_B4BF),
    t3: rgb(0x91_99A5),
    tdis: rgb(0x5C_646F),
    accent: rgb(0x6C_AEFF),
    accent_fill: rgb(0x2F_6FCC),
    on_accent: Color32::WHITE,
    accent_soft: rgb(0x18_2A42),
    accent_soft2: rgb(0x21_395A),
    ok: rgb(0x5D_C9A0),
    warn: rgb(0xE8_B85C),
    bad: rgb(0xF2_8B82),
    ok_soft: rgb(0x15_2A24),
    warn_soft: rgb(0x2E_2615),
    bad_soft: rgb(0x33_1D1D),
    focus: rgb(0x6C_AEFF),
    scrim: alpha(0x06_080B, 550),
    shadow: alpha(0, 360),
    shadow_deep: alpha(0, 480),
    series: Series {
        accepted: rgb(0x6C_AEFF),
        drafted: rgb(0x4A_6F9E),
        lookup: rgb(0xF0_B24A),
        plain: rgb(0xA7_AFBB),
        rejected: rgb(0xC4_574B),
        ceiling: rgb(0xC9_CED6),
        accepted_tint: alpha(0x6C_AEFF, 150),
        lookup_tint: alpha(0xF0_B24A, 200),
    },
    memory: MemoryRamp {
        grey: [rgb(0x7E_8896), rgb(0x5D_6673), rgb(0x48_505B), rgb(0x36_3D47)],
        context: rgb(0x6C_AEFF),
        context_drafter: rgb(0x3F_6FA8),
    },
    syntax: Syntax {
        keyword: rgb(0x8F_B8FF),
        string: rgb(0x8F_D0B0),
        number: rgb(0xF0_C078),
        function: rgb(0xC9_B6F5),
        comment: rgb(0x82_8B97),
    },
};

pub const LIGHT: Theme = Theme {
    dark: false,
    base: rgb(0xFC_FCFB),
    side: rgb(0xF4_F4F2),
    panel: rgb(0xF8_F8F6),
    raised: Color32::WHITE,
    hover: rgb(0xEC_ECE9),
    press: rgb(0xE2_E2DE),
    field: Color32::WHITE,
    code: rgb(0xF6_F6F4),
    expanded: Color32::WHITE,
    line: rgb(0xE3_E3DF),
    line2: rgb(0xCF_CFC9),
    t1: rgb(0x19_1B1F),
    t2: rgb(0x50_565F),
    t3: rgb(0x5C_626C),
    tdis: rgb(0xA2_A6AD),
    accent: rgb(0x1A_5CC2),
    accent_fill: rgb(0x1F_68D8),
    on_accent: Color32::WHITE,
    accent_soft: rgb(0xE6_EFFC),
    accent_soft2: rgb(0xD3_E3FA),
    ok: rgb(0x0F_6B4B),
    warn: rgb(0x7E_5400),
    bad: rgb(0xB3_322A),
    ok_soft: rgb(0xE2_F3EC),
    warn_soft: rgb(0xFA_F0DA),
    bad_soft: rgb(0xFB_E8E6),
    focus: rgb(0x1B_62CE),
    scrim: alpha(0x14_1820, 280),
    shadow: alpha(0x14_1820, 130),
    shadow_deep: alpha(0x14_1820, 260),
    series: Series {
        accepted: rgb(0x2B_6FD6),
        drafted: rgb(0x94_B7E8),
        lookup: rgb(0xB8_7400),
        plain: rgb(0x73_7A85),
        rejected: rgb(0x8E_2F22),
        ceiling: rgb(0x3C_4149),
        accepted_tint: alpha(0x2B_6FD6, 110),
        lookup_tint: alpha(0xB8_7400, 160),
    },
    memory: MemoryRamp {
        grey: [rgb(0x6E_7580), rgb(0x95_9BA4), rgb(0xB4_B8BF), rgb(0xCB_CED3)],
        context: rgb(0x1A_5CC2),
        context_drafter: rgb(0x7F_A6E0),
    },
    syntax: Syntax {
        keyword: rgb(0x1B_55B0),
        string: rgb(0x1A_6A48),
        number: rgb(0x8A_5200),
        function: rgb(0x5E_3FA8),
        comment: rgb(0x65_6C76),
    },
};

/// Increase Contrast: control borders and metadata move one step up, soft fills go.
const fn increased(mut theme: Theme) -> Theme {
    theme.line2 = theme.t3;
    theme.t3 = theme.t2;
    theme.accent_soft = theme.raised;
    theme.accent_soft2 = theme.hover;
    theme.ok_soft = theme.raised;
    theme.warn_soft = theme.raised;
    theme.bad_soft = theme.raised;
    theme
}

pub const DARK_CONTRAST: Theme = increased(DARK);
pub const LIGHT_CONTRAST: Theme = increased(LIGHT);

impl Theme {
    /// The theme in force at `ui`: the dark or the light one, in its increased form when that was applied.
    pub fn of(ui: &Ui) -> &'static Self {
        Self::pick(ui.visuals().dark_mode, crate::look(ui.ctx()).increase_contrast)
    }

    /// The theme of the whole window, for code that has no `Ui`.
    pub fn of_ctx(ctx: &Context) -> &'static Self {
        Self::pick(ctx.theme() == egui::Theme::Dark, crate::look(ctx).increase_contrast)
    }

    pub(crate) fn pick(dark: bool, increased: bool) -> &'static Self {
        match (dark, increased) {
            (true, false) => &DARK,
            (false, false) => &LIGHT,
            (true, true) => &DARK_CONTRAST,
            (false, true) => &LIGHT_CONTRAST,
        }
    }
}

/// WCAG 2 contrast ratio of two opaque colours, 1 to 21.
pub fn contrast(a: Color32, b: Color32) -> f32 {
    fn luminance(c: Color32) -> f32 {
        let [r, g, b] = [c.r(), c.g(), c.b()].map(|v| {
            let v = f32::from(v) / 255.0;
            if v <= 0.040_45 {
                v / 12.92
            } else {
                ((v + 0.055) / 1.055).powf(2.4)
            }
        });
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// `top` (premultiplied) over an opaque `bottom`.
pub fn over(top: Color32, bottom: Color32) -> Color32 {
    let keep = 255 - u32::from(top.a());
    let mix = |t: u8, b: u8| (u32::from(t) + (u32::from(b) * keep + 127) / 255).min(255) as u8;
    Color32::from_rgb(mix(top.r(), bottom.r()), mix(top.g(), bottom.g()), mix(top.b(), bottom.b()))
}
