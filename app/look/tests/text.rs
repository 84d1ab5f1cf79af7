//! Measures of the embedded fonts as egui lays them out.

mod support;

use std::sync::mpsc;

use dspark_look::{Family, Icon, Type, fonts, middle_ellipsis};
use egui::{Color32, Ui};
use support::{Shot, harness};

/// Run `measure` in a window with the app's fonts and hand its result back.
fn in_window<T: 'static>(measure: impl Fn(&mut Ui) -> T + 'static) -> T {
    let (send, receive) = mpsc::channel();
    let mut window = harness(Shot::DARK, (), move |ui, ()| {
        let _ = send.send(measure(ui));
    });
    window.run_steps(1);
    receive.recv().expect("the window drew once")
}

fn width(ui: &Ui, style: Type, text: &str) -> f32 {
    style.galley(ui, text, Color32::WHITE).size().x
}

#[test]
fn digits_have_one_width_in_every_weight() {
    in_window(|ui| {
        for family in [
            Family::Regular,
            Family::Medium,
            Family::SemiBold,
            Family::Italic,
            Family::Mono,
            Family::MonoMedium,
        ] {
            let style = Type::BASE.with_family(family);
            let ones = width(ui, style, "1111");
            for digit in '0'..='9' {
                let same: String = std::iter::repeat_n(digit, 4).collect();
                assert!((width(ui, style, &same) - ones).abs() < 0.01, "{digit} in {family:?}");
            }
        }
    });
}

#[test]
fn arrows_in_user_text_stay_two_characters() {
    in_window(|ui| {
        for (style, text) in [(Type::BASE, "->"), (Type::CODE, "!="), (Type::CODE, "=>"), (Type::CODE, "->")] {
            let glyphs = style.galley(ui, text, Color32::WHITE).rows[0].glyphs.len();
            assert_eq!(glyphs, 2);
            let apart = width(ui, style, &text[..1]) + width(ui, style, &text[1..]);
            assert!((width(ui, style, text) - apart).abs() < 0.6, "{text} is not drawn as one glyph");
        }
    });
}

#[test]
fn every_icon_is_in_its_font() {
    in_window(|ui| {
        for icon in Icon::ALL {
            let known = ui.fonts_mut(|f| f.has_glyph(&icon.font(16.0), icon.glyph()));
            assert!(known, "{} is missing: run assets/fonts/freeze.py", icon.name());
        }
    });
}

#[test]
fn icons_sit_in_the_middle_of_their_square() {
    in_window(|ui| {
        for icon in [Icon::X, Icon::DotsThree, Icon::Circle, Icon::StopFill, Icon::Plus] {
            let galley = ui
                .painter()
                .layout_no_wrap(icon.glyph().to_string(), icon.font(64.0), Color32::WHITE);
            let off = galley.mesh_bounds.center() - galley.rect.center();
            assert!(off.length() < 2.0, "{}: ink is {off:?} off centre", icon.name());
        }
    });
}

#[test]
fn interface_symbols_are_embedded() {
    in_window(|ui| {
        for symbol in "⌘⇧⌥⌃⏎⎋↑↓←→×−–—…≈≤≥·•“”‘’₀²µ€✓\u{2009}\u{202f}│└├─█░".chars()
        {
            let known = ui.fonts_mut(|f| f.has_glyph(&Type::BASE.font(), symbol));
            assert!(known, "{symbol:?}");
        }
    });
}

#[test]
fn paths_shorten_in_the_middle() {
    let (short, same) = in_window(|ui| {
        let path = "/Volumes/Models/mlx-community/Qwen3-8B-8bit";
        let short = middle_ellipsis(ui, Type::CODE_SMALL, path, 200.0);
        assert!(width(ui, Type::CODE_SMALL, &short) <= 200.0);
        (short, middle_ellipsis(ui, Type::CODE_SMALL, path, 1000.0))
    });
    assert!(
        short.starts_with("/Vol") && short.contains('…') && short.ends_with("8bit"),
        "{short}"
    );
    assert_eq!(same, "/Volumes/Models/mlx-community/Qwen3-8B-8bit");
}

#[test]
fn families_fall_back_to_each_other_and_to_nothing_else() {
    let definitions = fonts::definitions();
    for chain in definitions.families.values() {
        for name in chain {
            assert!(definitions.font_data.contains_key(name));
        }
    }
    let size: usize = definitions.font_data.values().map(|d| (*d.font).as_ref().len()).sum();
    assert!(size < 1_100_000, "embedded fonts take {size} bytes");
}
