//! The components as pictures, and found by role and label.

mod support;

use dspark_look::gallery::{GalleryState, gallery};
use support::{Shot, harness};

fn page(shot: Shot) {
    let mut harness = harness(shot, GalleryState::default(), |ui, state| gallery(ui, state));
    harness.run_steps(4);
    harness.snapshot(format!("components-{}", shot.name()));
}

#[test]
fn components_dark() {
    page(Shot::DARK);
}

#[test]
fn components_light() {
    page(Shot::LIGHT);
}

#[test]
fn components_dark_at_150_percent() {
    page(Shot { scale: 1.5, ..Shot::DARK });
}
