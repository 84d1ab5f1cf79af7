//! The tray icon, drawn here: a bolt, or two bars while the server is paused.

use tray_icon::Icon;

const SIDE: usize = 44;
/// Corners of the bolt in a unit square.
const BOLT: [(f32, f32); 6] = [(0.58, 0.06), (0.20, 0.56), (0.46, 0.56), (0.40, 0.94), (0.80, 0.42), (0.53, 0.42)];

/// A template image on macOS; on Linux the grey is seen on light and dark panels alike.
pub(super) fn bolt(paused: bool) -> Option<Icon> {
    let ink = if cfg!(target_os = "macos") { [0, 0, 0] } else { [0xAD, 0xB4, 0xBF] };
    let mut pixels = Vec::with_capacity(SIDE * SIDE * 4);
    for y in 0..SIDE {
        for x in 0..SIDE {
            pixels.extend_from_slice(&ink);
            pixels.push((255.0 * coverage(x, y, paused)) as u8);
        }
    }
    Icon::from_rgba(pixels, SIDE as u32, SIDE as u32).ok()
}

/// The window's icon: the bolt in white on a blue tile. macOS takes its icon from the bundle.
pub(crate) fn window() -> egui::IconData {
    if cfg!(target_os = "macos") {
        return egui::IconData::default();
    }
    const TILE: [f32; 3] = [47.0, 111.0, 204.0];
    let mut rgba = Vec::with_capacity(TILE_SIDE * TILE_SIDE * 4);
    for y in 0..TILE_SIDE {
        for x in 0..TILE_SIDE {
            let at = |v: usize| (v as f32 + 0.5) / TILE_SIDE as f32;
            let (px, py) = (at(x), at(y));
            let bolt = f32::from(u8::from(in_bolt((px - 0.5) / 0.78 + 0.5, (py - 0.5) / 0.78 + 0.5)));
            rgba.extend(TILE.map(|channel| (channel + (255.0 - channel) * bolt) as u8));
            rgba.push((255.0 * tile(px, py)) as u8);
        }
    }
    egui::IconData {
        rgba,
        width: TILE_SIDE as u32,
        height: TILE_SIDE as u32,
    }
}

const TILE_SIDE: usize = 128;

/// A square with round corners: 1 inside, fading to 0 over one pixel.
fn tile(x: f32, y: f32) -> f32 {
    const RADIUS: f32 = 0.22;
    let past = |v: f32| ((v - 0.5).abs() - (0.48 - RADIUS)).max(0.0);
    let distance = (past(x).powi(2) + past(y).powi(2)).sqrt() - RADIUS;
    (0.5 - distance * TILE_SIDE as f32).clamp(0.0, 1.0)
}

/// How much of a pixel the figure covers, from 16 samples.
fn coverage(x: usize, y: usize, paused: bool) -> f32 {
    let inside = (0..16).filter(|sample| {
        let offset = |nth: usize| (nth as f32 + 0.5) / 4.0;
        let px = (x as f32 + offset(sample % 4)) / SIDE as f32;
        let py = (y as f32 + offset(sample / 4)) / SIDE as f32;
        if paused { in_bars(px, py) } else { in_bolt(px, py) }
    });
    inside.count() as f32 / 16.0
}

fn in_bars(x: f32, y: f32) -> bool {
    (0.16..0.84).contains(&y) && ((0.24..0.42).contains(&x) || (0.58..0.76).contains(&x))
}

fn in_bolt(x: f32, y: f32) -> bool {
    let mut inside = false;
    let mut previous = BOLT[BOLT.len() - 1];
    for corner in BOLT {
        if (corner.1 > y) != (previous.1 > y) && x < (previous.0 - corner.0) * (y - corner.1) / (previous.1 - corner.1) + corner.0 {
            inside = !inside;
        }
        previous = corner;
    }
    inside
}

#[cfg(all(test, not(target_os = "macos")))]
mod tests {
    use super::*;

    #[test]
    fn a_white_bolt_on_a_blue_tile_with_clear_corners() {
        let icon = window();
        let pixel = |x: usize, y: usize| {
            let at = (y * TILE_SIDE + x) * 4;
            [icon.rgba[at], icon.rgba[at + 1], icon.rgba[at + 2], icon.rgba[at + 3]]
        };
        assert_eq!(pixel(0, 0)[3], 0);
        assert_eq!(pixel(64, 64), [255, 255, 255, 255]);
        assert_eq!(pixel(20, 64), [47, 111, 204, 255]);
        let covered: f32 = (0..SIDE * SIDE).map(|at| coverage(at % SIDE, at / SIDE, false)).sum();
        assert!((0.12..0.35).contains(&(covered / (SIDE * SIDE) as f32)), "{covered}");
    }
}
