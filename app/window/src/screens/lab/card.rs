//! The picture of a race: what was raced on which machine, how fast each lane was, and what the texts were beside each
//! other. Drawn with the components of the window, without one.

use super::{
    race::words::{self, Judgement},
    setup,
    words::arm,
};
use crate::shell::{fonts, text::seconds};
use dspark_compare::{Lane, Race};
use dspark_look::{Look, Theme, Tone, Type, paint, raster, space::radius};
use dspark_strings::t;
use egui::{Color32, ColorImage, Rect, ThemePreference, Ui, Vec2, pos2, vec2};

/// Points; twice as many pixels, which is what link previews ask for.
const SIZE: Vec2 = vec2(600.0, 315.0);
const SCALE: f32 = 2.0;
const SIDE: f32 = 24.0;

/// The card as a PNG file's bytes.
///
/// # Errors
/// In words, where it cannot be encoded.
pub fn png(race: &Race) -> Result<Vec<u8>, String> {
    let image = picture(race);
    let mut file = Vec::new();
    let [width, height] = image.size.map(|side| side as u32);
    let pixels: Vec<u8> = image.pixels.iter().flat_map(|pixel| pixel.to_array()[..3].to_vec()).collect();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&pixels));
    written.map_err(|error| t!(png_not_written, error = error.to_string()))?;
    Ok(file)
}

fn picture(race: &Race) -> ColorImage {
    let look = Look {
        preference: ThemePreference::Dark,
        ..Look::default()
    };
    // Names and prompts may be in any script; from the second of its frames on the picture has letters for them.
    let mut letters = Some(fonts::system(fonts::han(dspark_strings::current())));
    raster::picture(SIZE, SCALE, look, |ui| {
        if let Some(letters) = letters.take() {
            ui.ctx().set_font_providers(vec![letters]);
        }
        draw(ui, race);
    })
}

/// Fills the page with the card of `race`.
fn draw(ui: &mut Ui, race: &Race) {
    let theme = Theme::of(ui);
    let page = Rect::from_min_size(pos2(0.0, 0.0), SIZE);
    ui.painter().rect_filled(page, 0, theme.base);
    let inner = page.shrink2(vec2(SIDE, 20.0));
    let stamp = &race.stamp;

    let title = Type::HEADING.ellipsis(ui, stamp.target.as_str(), theme.t1, 380.0);
    ui.painter().galley(inner.min, title, theme.t1);
    let name = Type::PANEL.galley(ui, "mlx-dspark", theme.t2);
    paint::text_right(
        ui.painter(),
        Rect::from_min_size(inner.min, vec2(inner.width(), 24.0)),
        inner.right(),
        name,
        theme.t2,
    );
    let about = [
        stamp.drafter.as_ref().map(|drafter| t!(with_name, name = drafter)),
        Some(stamp.quantization.clone()).filter(|words| !words.is_empty()),
        Some(stamp.device.clone()),
    ];
    let about: Vec<String> = about.into_iter().flatten().collect();
    let about = Type::SMALL.ellipsis(ui, about.join(" · "), theme.t3, inner.width());
    ui.painter().galley(inner.min + vec2(0.0, 26.0), about, theme.t3);

    let top = inner.top() + 54.0;
    let foot = inner.bottom() - 18.0;
    let band = 46.0;
    let height = (foot - 12.0 - band - 10.0 - top) / race.lanes.len().max(1) as f32;
    let fastest = race.lanes.iter().map(|lane| lane.decode_tok_s).fold(0.0, f64::max);
    for (at, lane) in race.lanes.iter().enumerate() {
        let row = Rect::from_min_size(pos2(inner.left(), top + height * at as f32), vec2(inner.width(), height));
        bar(ui, theme, race, lane, row, fastest);
    }
    verdict(
        ui,
        theme,
        race,
        Rect::from_min_size(pos2(inner.left(), foot - 12.0 - band), vec2(inner.width(), band)),
    );

    let prompt = Type::LABEL.ellipsis(ui, race.prompt.replace('\n', " "), theme.t3, 240.0);
    ui.painter().galley(pos2(inner.left(), foot), prompt, theme.t3);
    let made = format!("{} · {} · MLX {}", setup::date(stamp.at), stamp.version, stamp.mlx);
    let made = Type::LABEL.ellipsis(ui, made, theme.t3, 300.0);
    paint::text_right(
        ui.painter(),
        Rect::from_min_size(pos2(inner.left(), foot), vec2(inner.width(), 16.0)),
        inner.right(),
        made,
        theme.t3,
    );
}

/// A lane as a bar of its rate, with its figures at the right.
fn bar(ui: &Ui, theme: &Theme, race: &Race, lane: &Lane, row: Rect, fastest: f64) {
    const NAMES: f32 = 128.0;
    const FIGURES: f32 = 196.0;
    let middle = row.center().y;
    let (name, note) = arm(&lane.arm);
    let note = match lane.cap {
        Some(0) if !lane.arm.is_plain() => t!(parked_note).into(),
        Some(cap) if lane.arm.options.is_none() || note == t!(best_cap) => t!(cap_n, cap = cap),
        _ => note,
    };
    let name = Type::CONTROL.ellipsis(ui, name, theme.t1, NAMES - 8.0);
    let note = Type::LABEL.ellipsis(ui, note, theme.t3, NAMES - 8.0);
    ui.painter().galley(pos2(row.left(), middle - 18.0), name, theme.t1);
    ui.painter().galley(pos2(row.left(), middle + 1.0), note, theme.t3);
    let track = Rect::from_min_max(
        pos2(row.left() + NAMES, middle - 9.0),
        pos2(row.right() - FIGURES - 14.0, middle + 9.0),
    );
    let part = if fastest > 0.0 { (lane.decode_tok_s / fastest) as f32 } else { 0.0 };
    let ink: Color32 = if lane.arm.is_plain() {
        theme.series.plain
    } else {
        theme.series.accepted
    };
    let filled = Rect::from_min_size(track.min, vec2((track.width() * part).max(3.0), track.height()));
    ui.painter().rect_filled(track, 3, theme.panel);
    ui.painter().rect_filled(filled, 3, ink);
    let times = race.multiple(lane).filter(|_| !lane.arm.is_plain());
    let rate = format!("{:.1} tok/s", lane.decode_tok_s);
    let rate = Type::PANEL.galley(ui, rate, theme.t1);
    let place = Rect::from_min_max(pos2(row.right() - FIGURES, middle - 19.0), pos2(row.right(), middle + 1.0));
    paint::text_right(ui.painter(), place, place.right(), rate, theme.t1);
    let mut details = vec![
        t!(tokens_in_time, tokens = lane.tokens, time = seconds(lane.seconds)),
        t!(n_a_pass, n = format!("{:.2}", lane.accept)),
    ];
    if let Some(times) = times {
        details.insert(0, format!("{times:.2}×"));
    }
    let details = Type::LABEL.galley(ui, details.join(" · "), theme.t3);
    let place = place.translate(vec2(0.0, 19.0));
    paint::text_right(ui.painter(), place, place.right(), details, theme.t3);
}

fn verdict(ui: &Ui, theme: &Theme, race: &Race, rect: Rect) {
    let Judgement { title, tone, icon, .. } = words::judgement(race);
    let fill = if tone == Tone::Neutral { theme.panel } else { tone.soft(theme) };
    paint::boxed(ui.painter(), rect, radius::CARD, fill, Color32::TRANSPARENT);
    icon.paint(ui.painter(), pos2(rect.left() + 22.0, rect.center().y), 18.0, tone.ink(theme));
    let left = rect.left() + 42.0;
    let room = rect.right() - 12.0 - left;
    let title = Type::PANEL.ellipsis(ui, title, theme.t1, room);
    ui.painter().galley(pos2(left, rect.top() + 5.0), title, theme.t1);
    let line = Type::LABEL.ellipsis(ui, words::brief(race), theme.t2, room);
    ui.painter().galley(pos2(left, rect.top() + 25.0), line, theme.t2);
}
