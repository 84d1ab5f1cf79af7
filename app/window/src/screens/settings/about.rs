//! What the program is made of, and whose work that is.

use dspark_look::{Theme, Type, space::radius};
use dspark_strings::t;
use egui::{Frame, Margin, ScrollArea, TextEdit, Ui};

/// Shipped with the program, as their licences ask.
const NOTICE: &str = include_str!("../../../../../NOTICE");
const LICENSE: &str = include_str!("../../../../../LICENSE");

/// Version and commit of `0.1.0 (abc123)`.
pub(super) fn version(text: &str) -> (&str, Option<&str>) {
    match text.split_once(" (") {
        Some((version, commit)) => (version, Some(commit.trim_end_matches(')'))),
        None => (text, None),
    }
}

pub(super) fn notices(ui: &mut Ui) {
    let theme = Theme::of(ui);
    for (title, text) in [(t!(work_of_others), NOTICE), (t!(licence_of_program), LICENSE)] {
        ui.horizontal(|ui| {
            ui.add_space(2.0);
            ui.label(Type::PANEL.rich(title, theme.t1));
        });
        ui.add_space(8.0);
        Frame::new()
            .fill(theme.panel)
            .stroke(egui::Stroke::new(1.0, theme.line))
            .corner_radius(radius::CARD)
            .inner_margin(Margin::symmetric(16, 12))
            .show(ui, |ui| {
                ScrollArea::vertical()
                    .id_salt(("notice", title))
                    .max_height(190.0)
                    .auto_shrink([false, true])
                    .show(ui, |ui| {
                        let mut text = text.trim_end();
                        let shown = TextEdit::multiline(&mut text)
                            .font(Type::SMALL.font())
                            .frame(Frame::NONE)
                            .desired_width(f32::INFINITY)
                            .text_color(theme.t2);
                        ui.add(shown).accessible_name(title);
                    });
            });
        ui.add_space(18.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_with_and_without_its_commit() {
        assert_eq!(version("0.1.0 (ee051e9)"), ("0.1.0", Some("ee051e9")));
        assert_eq!(version("0.1.0"), ("0.1.0", None));
        assert!(NOTICE.contains("Inter") && LICENSE.contains("MIT"));
    }
}
