//! Words whose addresses can be clicked.

use egui::{Color32, Label, OpenUrl, Role, Sense, Ui, WidgetInfo};

use crate::{Theme, Type, urls::urls};

/// `text` in one style, wrapped; its addresses open in the browser. Text without any is one label.
pub fn linked(ui: &mut Ui, text: &str, style: Type, ink: Color32) {
    let addresses = urls(text);
    if addresses.is_empty() {
        ui.add(Label::new(style.rich(text, ink)).wrap());
        return;
    }
    let accent = Theme::of(ui).accent;
    ui.scope(|ui| {
        ui.spacing_mut().item_spacing = egui::Vec2::ZERO;
        ui.horizontal_wrapped(|ui| {
            let mut from = 0;
            for address in addresses {
                if address.start > from {
                    ui.add(Label::new(style.rich(&text[from..address.start], ink)).wrap());
                }
                let url = &text[address.clone()];
                let link = ui.add(Label::new(style.rich(url, accent).underline()).wrap().sense(Sense::click()));
                link.widget_info(|| WidgetInfo::labeled(Role::Link, true, url));
                let link = link.on_hover_cursor(egui::CursorIcon::PointingHand);
                if link.clicked() {
                    ui.ctx().open_url(OpenUrl::new_tab(url));
                }
                from = address.end;
            }
            if from < text.len() {
                ui.add(Label::new(style.rich(&text[from..], ink)).wrap());
            }
        });
    });
}
