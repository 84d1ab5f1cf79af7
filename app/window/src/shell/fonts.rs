//! Where letters come from that our own fonts lack.

use dspark_strings::Language;
use egui::FontProvider;
use egui_system_font_provider::SystemFontProvider;
use std::sync::Arc;

/// Chinese and Japanese draw many of the same letters differently; for the other languages the system's own order is as good
/// as any.
pub(crate) fn han(language: Language) -> Option<&'static str> {
    matches!(language, Language::Chinese | Language::Japanese).then(|| language.tag())
}

/// The system's fonts, asked for the letters of `han` first.
pub(crate) fn system(han: Option<&str>) -> Arc<dyn FontProvider> {
    let fonts = SystemFontProvider::new();
    Arc::new(if han.is_some() { fonts.with_locale(han) } else { fonts })
}
