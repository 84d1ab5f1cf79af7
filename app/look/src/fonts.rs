//! The embedded fonts. `assets/fonts/freeze.py` makes them from the published ones.

use std::{collections::BTreeMap, sync::Arc};

use egui::{Context, FontData, FontDefinitions, FontFamily, FontTweak};

use crate::type_style::Family;

macro_rules! font {
    ($file:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/fonts/", $file))
    };
}

const fn bytes(family: Family) -> &'static [u8] {
    match family {
        Family::Regular => font!("Inter-Regular.otf"),
        Family::Medium => font!("Inter-Medium.otf"),
        Family::SemiBold => font!("Inter-SemiBold.otf"),
        Family::Italic => font!("Inter-Italic.otf"),
        Family::Mono => font!("JetBrainsMono-Regular.ttf"),
        Family::MonoMedium => font!("JetBrainsMono-Medium.ttf"),
        Family::Icon => font!("Phosphor.ttf"),
        Family::IconFill => font!("Phosphor-Fill.ttf"),
    }
}

/// Register every family. Text outside the embedded ranges (CJK, Arabic, emoji) falls through to
/// the system's fonts when eframe's `system_fonts` feature is on.
pub fn install(ctx: &Context) {
    ctx.set_fonts(definitions());
}

pub fn definitions() -> FontDefinitions {
    let mut font_data = BTreeMap::new();
    let mut families = BTreeMap::new();
    for family in Family::ALL {
        let mut data = FontData::from_static(bytes(family));
        // Stems at their true width: letter shapes then match on 1x and 2x displays.
        data.tweak = FontTweak {
            hinting: Some(false),
            ..FontTweak::default()
        };
        font_data.insert(family.name().to_owned(), Arc::new(data));
        let chain: &[Family] = match family {
            Family::Mono | Family::MonoMedium => &[family, Family::Regular],
            Family::Icon | Family::IconFill => &[family],
            _ => &[family, Family::Mono],
        };
        families.insert(family.egui(), chain.iter().map(|f| f.name().to_owned()).collect::<Vec<_>>());
    }
    families.insert(
        FontFamily::Proportional,
        vec![Family::Regular.name().to_owned(), Family::Mono.name().to_owned()],
    );
    families.insert(
        FontFamily::Monospace,
        vec![Family::Mono.name().to_owned(), Family::Regular.name().to_owned()],
    );
    FontDefinitions { font_data, families }
}
