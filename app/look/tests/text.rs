//! Measures of the embedded fonts as egui lays them out.

mod support;

use dspark_look::{Family, Icon, Type};
use support::{Shot, harness};

#[test]
fn measures() {
    let mut h = harness(Shot::DARK, (), |ui, ()| {
        for size in [12.0, 14.0, 16.0, 26.0] {
            let g = ui.painter().layout_no_wrap(
                Icon::DotsThree.glyph().to_string(),
                Icon::DotsThree.font(size),
                egui::Color32::WHITE,
            );
            eprintln!("{size}: {:?} {:?} {:?}", g.size(), g.mesh_bounds, g.rows[0].glyphs[0]);
        }
        for s in ["1111", "0000", "->"] {
            eprintln!(
                "{s} {:?}",
                Type::BASE.with_family(Family::Regular).galley(ui, s, egui::Color32::WHITE).size()
            );
        }
    });
    h.run_steps(1);
}
