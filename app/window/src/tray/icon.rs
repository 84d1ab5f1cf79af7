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
