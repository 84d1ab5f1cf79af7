//! The theme written into egui's own style, so that stock widgets (labels, text edits, scroll bars,
//! popups) follow it too.

use std::collections::BTreeMap;

use egui::{
    Color32, Context, CornerRadius, Id, Margin, Stroke, Style, TextStyle, ThemePreference,
    epaint::FontColorTransferFunction,
    style::{HandleShape, ScrollAnimation, ScrollFadeStyle, ScrollStyle, Selection, TextCursorStyle, WidgetVisuals, Widgets},
    vec2,
};

use crate::{
    space::{floating_shadow, radius},
    theme::Theme,
    type_style::Type,
};

/// What the person chose, plus what the system asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    pub preference: ThemePreference,
    /// 0.8 to 2.0.
    pub text_scale: f32,
    pub increase_contrast: bool,
    pub reduced_motion: bool,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            preference: ThemePreference::System,
            text_scale: 1.0,
            increase_contrast: false,
            reduced_motion: false,
        }
    }
}

/// Set the style of both themes. Cheap enough for every change of a setting, not for every frame.
/// Call [`crate::fonts::install`] once before.
pub fn apply(ctx: &Context, look: Look) {
    ctx.data_mut(|d| d.insert_temp(Id::NULL, look));
    ctx.set_theme(look.preference);
    for dark in [true, false] {
        let which = if dark { egui::Theme::Dark } else { egui::Theme::Light };
        ctx.set_style_of(which, style(Theme::pick(dark, look.increase_contrast), look.reduced_motion));
    }
    ctx.set_zoom_factor(look.text_scale.clamp(0.8, 2.0));
}

/// What [`apply`] was last called with.
pub fn look(ctx: &Context) -> Look {
    ctx.data(|d| d.get_temp(Id::NULL)).unwrap_or_default()
}

/// The egui style of one theme.
pub fn style(theme: &Theme, reduced_motion: bool) -> Style {
    let mut style = Style {
        text_styles: text_styles(),
        animation_time: if reduced_motion { 0.0 } else { 0.12 },
        scroll_animation: if reduced_motion {
            ScrollAnimation::none()
        } else {
            ScrollAnimation::default()
        },
        ..Style::default()
    };
    let spacing = &mut style.spacing;
    spacing.item_spacing = vec2(8.0, 6.0);
    spacing.button_padding = vec2(12.0, 5.0);
    spacing.interact_size = vec2(30.0, 30.0);
    spacing.window_margin = Margin::same(16);
    spacing.menu_margin = Margin::same(5);
    spacing.menu_width = 236.0;
    spacing.tooltip_width = 268.0;
    spacing.combo_width = 110.0;
    spacing.icon_width = 16.0;
    spacing.icon_spacing = 8.0;
    spacing.scroll = scroll();
    style.interaction.tooltip_delay = 0.4;
    style.interaction.selectable_labels = false;
    visuals(&mut style, theme);
    style
}

fn text_styles() -> BTreeMap<TextStyle, egui::FontId> {
    [
        (TextStyle::Heading, Type::HEADING),
        (TextStyle::Body, Type::BASE),
        (TextStyle::Button, Type::CONTROL),
        (TextStyle::Small, Type::SMALL),
        (TextStyle::Monospace, Type::CODE),
    ]
    .into_iter()
    .map(|(name, style)| (name, style.font()))
    .collect()
}

/// Floating, 6 pt, seen on scroll or hover.
fn scroll() -> ScrollStyle {
    ScrollStyle {
        bar_width: 6.0,
        floating_width: 4.0,
        bar_outer_margin: 3.0,
        handle_min_length: 24.0,
        foreground_color: true,
        dormant_background_opacity: 0.0,
        active_background_opacity: 0.0,
        interact_background_opacity: 0.0,
        dormant_handle_opacity: 0.0,
        active_handle_opacity: 0.4,
        interact_handle_opacity: 0.6,
        fade: ScrollFadeStyle {
            strength: 0.0,
            ..ScrollFadeStyle::default()
        },
        ..ScrollStyle::floating()
    }
}

fn visuals(style: &mut Style, theme: &Theme) {
    let visuals = &mut style.visuals;
    *visuals = if theme.dark {
        egui::Visuals::dark()
    } else {
        egui::Visuals::light()
    };
    visuals.text_options.font_hinting = false;
    // Coverage as it is in both themes: thin, even strokes, as the platforms draw them.
    visuals.text_options.color_transfer_function = FontColorTransferFunction::Off;
    visuals.override_text_color = None;
    visuals.weak_text_color = Some(theme.t3);
    visuals.hyperlink_color = theme.accent;
    visuals.faint_bg_color = theme.panel;
    visuals.extreme_bg_color = theme.field;
    visuals.text_edit_bg_color = Some(theme.field);
    visuals.code_bg_color = theme.code;
    visuals.warn_fg_color = theme.warn;
    visuals.error_fg_color = theme.bad;
    visuals.window_fill = theme.raised;
    visuals.window_stroke = Stroke::new(1.0, theme.line2);
    visuals.window_corner_radius = radius::CARD;
    visuals.window_shadow = floating_shadow(theme);
    visuals.menu_corner_radius = radius::MENU;
    visuals.popup_shadow = floating_shadow(theme);
    visuals.panel_fill = theme.base;
    visuals.selection = Selection {
        bg_fill: theme.accent.gamma_multiply(0.3),
        stroke: Stroke::new(1.0, theme.t1),
    };
    // A steady caret: a blinking one wakes the window twice a second for nothing.
    visuals.text_cursor = TextCursorStyle {
        stroke: Stroke::new(2.0, theme.accent),
        blink: false,
        ..TextCursorStyle::default()
    };
    visuals.slider_trailing_fill = true;
    visuals.handle_shape = HandleShape::Circle;
    visuals.interact_cursor = None;
    // Components have their own disabled colours; fading them again would leave nothing to read.
    visuals.disabled_alpha = 1.0;
    visuals.widgets = Widgets {
        noninteractive: widget(theme.panel, theme.line, theme.t1),
        inactive: widget(theme.raised, theme.line2, theme.t1),
        hovered: widget(theme.hover, theme.line2, theme.t1),
        active: widget(theme.press, theme.line2, theme.t1),
        open: widget(theme.hover, theme.line2, theme.t1),
    };
    // Scroll handles take these colours.
    visuals.widgets.inactive.fg_stroke.color = theme.t1;
}

fn widget(fill: Color32, border: Color32, text: Color32) -> WidgetVisuals {
    WidgetVisuals {
        bg_fill: fill,
        weak_bg_fill: fill,
        bg_stroke: Stroke::new(1.0, border),
        corner_radius: CornerRadius::same(7),
        fg_stroke: Stroke::new(1.0, text),
        expansion: 0.0,
    }
}
