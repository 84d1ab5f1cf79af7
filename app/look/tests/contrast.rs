//! Contrast of every text and surface of the tables in the design system, and the two
//! arithmetic helpers they rest on.

use dspark_look::{
    DARK, LIGHT, Theme,
    theme::{DARK_CONTRAST, LIGHT_CONTRAST, contrast, over},
};
use egui::Color32;

fn surfaces(t: &Theme) -> [(&'static str, Color32); 8] {
    [
        ("base", t.base),
        ("side", t.side),
        ("panel", t.panel),
        ("raised", t.raised),
        ("hover", t.hover),
        ("press", t.press),
        ("field", t.field),
        ("code", t.code),
    ]
}

fn texts(t: &Theme) -> [(&'static str, Color32); 7] {
    [
        ("t1", t.t1),
        ("t2", t.t2),
        ("t3", t.t3),
        ("accent", t.accent),
        ("ok", t.ok),
        ("warn", t.warn),
        ("bad", t.bad),
    ]
}

fn softs(t: &Theme) -> [(&'static str, Color32, Color32); 4] {
    [
        ("accent", t.accent_soft, t.accent),
        ("ok", t.ok_soft, t.ok),
        ("warn", t.warn_soft, t.warn),
        ("bad", t.bad_soft, t.bad),
    ]
}

/// Rows are the texts in order, columns the surfaces: ratios as the design states them.
const DARK_TABLE: [[f32; 8]; 7] = [
    [16.3, 15.5, 15.0, 13.9, 12.7, 11.4, 15.8, 15.9],
    [9.1, 8.6, 8.4, 7.7, 7.1, 6.4, 8.8, 8.8],
    [6.6, 6.3, 6.1, 5.6, 5.2, 4.6, 6.4, 6.4],
    [8.2, 7.8, 7.6, 7.0, 6.4, 5.8, 8.0, 8.0],
    [9.3, 8.8, 8.6, 8.0, 7.3, 6.5, 9.0, 9.1],
    [10.3, 9.8, 9.5, 8.8, 8.1, 7.2, 10.0, 10.1],
    [7.9, 7.5, 7.3, 6.8, 6.2, 5.6, 7.7, 7.7],
];
const LIGHT_TABLE: [[f32; 8]; 7] = [
    [16.8, 15.7, 16.2, 17.2, 14.6, 13.3, 17.2, 15.9],
    [7.2, 6.7, 7.0, 7.4, 6.3, 5.7, 7.4, 6.8],
    [6.0, 5.6, 5.8, 6.1, 5.2, 4.7, 6.1, 5.7],
    [6.1, 5.7, 5.9, 6.3, 5.3, 4.8, 6.3, 5.8],
    [6.3, 5.9, 6.1, 6.5, 5.5, 5.0, 6.5, 6.0],
    [6.5, 6.0, 6.3, 6.7, 5.6, 5.1, 6.7, 6.2],
    [6.0, 5.6, 5.8, 6.2, 5.2, 4.7, 6.2, 5.7],
];

#[test]
fn text_on_surfaces_has_the_stated_ratios() {
    for (theme, table) in [(&DARK, &DARK_TABLE), (&LIGHT, &LIGHT_TABLE)] {
        for ((text, ink), row) in texts(theme).into_iter().zip(table) {
            for ((surface, ground), stated) in surfaces(theme).into_iter().zip(row) {
                let ratio = contrast(ink, ground);
                assert!((ratio - stated).abs() < 0.051, "{text} on {surface}: {ratio:.2}, stated {stated}");
                assert!(ratio >= 4.5, "{text} on {surface}: {ratio:.2}");
            }
        }
    }
}

#[test]
fn chips_buttons_and_code_stay_readable() {
    for theme in [&DARK, &LIGHT] {
        for (name, soft, own) in softs(theme) {
            for ink in [own, theme.t1, theme.t2, theme.t3] {
                let ratio = contrast(ink, soft);
                assert!(ratio >= 4.6, "{name}_soft: {ratio:.2}");
            }
        }
        assert!(contrast(theme.on_accent, theme.accent_fill) >= 4.5);
        let syntax = &theme.syntax;
        for ink in [syntax.keyword, syntax.string, syntax.number, syntax.function, syntax.comment] {
            assert!(contrast(ink, theme.code) >= 4.5);
        }
    }
}

#[test]
fn tinted_prose_has_the_stated_ratios() {
    for (theme, accepted, lookup) in [(&DARK, 12.7, 10.9), (&LIGHT, 14.5, 14.0)] {
        for (tint, stated) in [(theme.series.accepted_tint, accepted), (theme.series.lookup_tint, lookup)] {
            let ratio = contrast(theme.t1, over(tint, theme.base));
            assert!((ratio - stated).abs() < 0.3, "{ratio:.2}, stated {stated}");
        }
    }
}

#[test]
fn increased_contrast_never_lowers_a_ratio() {
    for (plain, more) in [(&DARK, &DARK_CONTRAST), (&LIGHT, &LIGHT_CONTRAST)] {
        for ((_, ink), (name, strong)) in texts(plain).into_iter().zip(texts(more)) {
            for (surface, ground) in surfaces(more) {
                assert!(contrast(strong, ground) >= contrast(ink, ground) - 0.01, "{name} on {surface}");
            }
        }
        // Control borders reach 3:1 only here.
        assert!(contrast(more.line2, more.raised) >= 3.0);
    }
}

#[test]
fn the_ratio_is_wcag() {
    assert!((contrast(Color32::WHITE, Color32::BLACK) - 21.0).abs() < 1e-4);
    assert!((contrast(Color32::from_gray(0x77), Color32::WHITE) - 4.48).abs() < 0.01);
}
