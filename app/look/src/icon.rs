//! Phosphor icons (MIT), regular and filled, drawn as text of the `icon` families.

use egui::{Align2, Color32, FontId, Painter, Pos2, Rect, Response, Sense, Ui, vec2};

use crate::type_style::Family;

macro_rules! icons {
    ($($variant:ident, $code:literal, $fill:literal, $name:literal;)*) => {
        /// A glyph of the icon fonts. `…Fill` marks the selected screen and solid state marks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Icon { $($variant,)* }

        impl Icon {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub const fn glyph(self) -> char {
                match self { $(Self::$variant => $code,)* }
            }

            pub const fn is_fill(self) -> bool {
                match self { $(Self::$variant => $fill,)* }
            }

            /// The name in the Phosphor set.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

include!("icon_table.rs");

/// Icon sizes in points.
pub mod size {
    /// Default.
    pub const NORMAL: f32 = 16.0;
    /// Pills, small buttons.
    pub const SMALL: f32 = 14.0;
    /// Carets, chips.
    pub const TINY: f32 = 12.0;
    /// Toasts, agent marks.
    pub const LARGE: f32 = 18.0;
    /// Empty states.
    pub const EMPTY: f32 = 26.0;
}

impl Icon {
    pub fn font(self, size: f32) -> FontId {
        FontId::new(size, if self.is_fill() { Family::IconFill } else { Family::Icon }.egui())
    }

    /// Paint with the middle of the glyph's square at `center`.
    pub fn paint(self, painter: &Painter, center: Pos2, size: f32, color: Color32) {
        painter.text(center, Align2::CENTER_CENTER, self.glyph(), self.font(size), color);
    }

    /// Paint turned by `angle` radians, clockwise.
    pub fn paint_turned(self, painter: &Painter, center: Pos2, size: f32, color: Color32, angle: f32) {
        let galley = painter.layout_no_wrap(self.glyph().to_string(), self.font(size), color);
        let half = galley.size() / 2.0;
        let (sin, cos) = angle.sin_cos();
        let origin = center - vec2(half.x * cos - half.y * sin, half.x * sin + half.y * cos);
        painter.add(egui::epaint::TextShape::new(origin, galley, color).with_angle(angle));
    }

    /// An icon as a layout item of `size` × `size`.
    pub fn show(self, ui: &mut Ui, size: f32, color: Color32) -> Response {
        let (rect, response) = ui.allocate_exact_size(vec2(size, size), Sense::hover());
        self.paint_in(ui, rect, color);
        response
    }

    fn paint_in(self, ui: &Ui, rect: Rect, color: Color32) {
        self.paint(ui.painter(), rect.center(), rect.height(), color);
    }
}
