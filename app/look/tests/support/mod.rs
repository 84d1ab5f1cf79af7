//! Harnesses with the app's fonts and theme.
#![allow(dead_code)]

use dspark_look::{Look, apply, fonts};
use egui::{ThemePreference, vec2};
use egui_kittest::Harness;

/// How a picture is taken.
#[derive(Clone, Copy)]
pub(crate) struct Shot {
    pub(crate) width: f32,
    pub(crate) height: f32,
    pub(crate) dark: bool,
    /// Pixels per point.
    pub(crate) scale: f32,
}

impl Shot {
    pub(crate) const DARK: Self = Self {
        width: 1280.0,
        height: 800.0,
        dark: true,
        scale: 1.0,
    };
    pub(crate) const LIGHT: Self = Self { dark: false, ..Self::DARK };

    pub(crate) fn name(self) -> String {
        let theme = if self.dark { "dark" } else { "light" };
        let size = if self.width < 1280.0 {
            format!("-{:.0}x{:.0}", self.width, self.height)
        } else {
            String::new()
        };
        let scale = if self.scale > 1.0 {
            format!("-{}", (self.scale * 100.0) as u32)
        } else {
            String::new()
        };
        format!("{theme}{size}{scale}")
    }
}

pub(crate) fn harness<'a, S: 'a>(shot: Shot, state: S, add: impl FnMut(&mut egui::Ui, &mut S) + 'a) -> Harness<'a, S> {
    // Motion off: a picture shows a state, not a moment.
    let look = Look {
        preference: if shot.dark { ThemePreference::Dark } else { ThemePreference::Light },
        reduced_motion: true,
        ..Look::default()
    };
    harness_with(shot, look, state, add)
}

pub(crate) fn harness_with<'a, S: 'a>(shot: Shot, look: Look, state: S, mut add: impl FnMut(&mut egui::Ui, &mut S) + 'a) -> Harness<'a, S> {
    Harness::builder()
        .with_size(vec2(shot.width, shot.height))
        .with_pixels_per_point(shot.scale)
        .with_theme(if shot.dark { egui::Theme::Dark } else { egui::Theme::Light })
        .with_render_cursor(false)
        .with_os(egui::os::OperatingSystem::Mac)
        .with_context_setup(move |ctx| {
            fonts::install(ctx);
            apply(ctx, look);
        })
        .wgpu()
        // The whole window: the harness's own panel has a margin.
        .build_ui_state(
            move |ui, state| {
                let window = ui.ctx().content_rect();
                ui.set_clip_rect(window);
                ui.scope_builder(egui::UiBuilder::new().max_rect(window), |ui| {
                    ui.painter().rect_filled(window, 0, dspark_look::Theme::of(ui).base);
                    add(ui, state);
                });
            },
            state,
        )
}
