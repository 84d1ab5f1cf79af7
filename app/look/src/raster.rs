//! Pictures without a window or a graphics processor: what is drawn with the components, as pixels. The same meshes
//! that a window gets, filled triangle by triangle.

use crate::{Look, Theme, fonts};
use egui::{
    Color32, ColorImage, Context, ImageData, Pos2, RawInput, Rect, TextureId, Ui, Vec2, ViewportId,
    epaint::{ClippedPrimitive, ImageDelta, Mesh, Primitive, Vertex},
};
use std::collections::BTreeMap;

/// Frames until fonts and sizes have settled.
const PASSES: usize = 3;

/// Draws `add` on a page of `size` points, at `scale` pixels a point.
pub fn picture(size: Vec2, scale: f32, look: Look, mut add: impl FnMut(&mut Ui)) -> ColorImage {
    let ctx = Context::default();
    fonts::install(&ctx);
    crate::apply(&ctx, look);
    let mut textures = Textures::default();
    let mut drawn = Vec::new();
    let page = Rect::from_min_size(Pos2::ZERO, size);
    for _ in 0..PASSES {
        let mut input = RawInput {
            screen_rect: Some(page),
            ..RawInput::default()
        };
        if let Some(viewport) = input.viewports.get_mut(&ViewportId::ROOT) {
            viewport.native_pixels_per_point = Some(scale);
        }
        let mut output = ctx.run_ui(input, &mut add);
        for (id, deltas) in std::mem::take(&mut output.textures_delta.set) {
            for delta in deltas {
                textures.set(id, delta);
            }
        }
        output.textures_delta.free.clear();
        drawn = ctx.tessellate(std::mem::take(&mut output.shapes), output.pixels_per_point);
    }
    let pixels = [(size.x * scale).round() as usize, (size.y * scale).round() as usize];
    let mut canvas = Canvas {
        image: ColorImage::filled(pixels, Theme::of_ctx(&ctx).base),
        scale,
    };
    for primitive in &drawn {
        canvas.draw(primitive, &textures);
    }
    canvas.image
}

#[derive(Default)]
struct Textures(BTreeMap<TextureId, ColorImage>);

impl Textures {
    fn set(&mut self, id: TextureId, delta: ImageDelta) {
        let ImageData::Color(patch) = delta.image;
        let Some([left, top]) = delta.pos else {
            self.0.insert(id, ColorImage::clone(&patch));
            return;
        };
        let Some(whole) = self.0.get_mut(&id) else { return };
        let (width, own) = (patch.size[0], whole.size[0]);
        for (y, row) in patch.pixels.chunks(width.max(1)).enumerate() {
            let from = (top + y) * own + left;
            if let Some(place) = whole.pixels.get_mut(from..from + width) {
                place.copy_from_slice(row);
            }
        }
    }
}

/// Between its four nearest texels, as graphics processors do.
fn sample(texture: &ColorImage, uv: Pos2) -> [f32; 4] {
    let [width, height] = texture.size;
    let (x, y) = (uv.x * width as f32 - 0.5, uv.y * height as f32 - 0.5);
    let (left, top) = (x.floor(), y.floor());
    let texel = |dx: f32, dy: f32| {
        let x = (left + dx).clamp(0.0, width as f32 - 1.0) as usize;
        let y = (top + dy).clamp(0.0, height as f32 - 1.0) as usize;
        channels(texture.pixels[y * width + x])
    };
    let (right, down) = (x - left, y - top);
    let mut sum = [0.0; 4];
    for (dx, dy, weight) in [
        (0.0, 0.0, (1.0 - right) * (1.0 - down)),
        (1.0, 0.0, right * (1.0 - down)),
        (0.0, 1.0, (1.0 - right) * down),
        (1.0, 1.0, right * down),
    ] {
        if weight > 0.0 {
            let texel = texel(dx, dy);
            for (sum, value) in sum.iter_mut().zip(texel) {
                *sum += weight * value;
            }
        }
    }
    sum
}

/// From 0 to 1.
fn channels(color: Color32) -> [f32; 4] {
    color.to_array().map(|value| f32::from(value) / 255.0)
}

struct Canvas {
    image: ColorImage,
    scale: f32,
}

impl Canvas {
    fn draw(&mut self, primitive: &ClippedPrimitive, textures: &Textures) {
        let Primitive::Mesh(mesh) = &primitive.primitive else { return };
        let Some(texture) = textures.0.get(&mesh.texture_id) else { return };
        let clip = primitive.clip_rect * self.scale;
        let whole = Rect::from_min_size(Pos2::ZERO, Vec2::new(self.image.size[0] as f32, self.image.size[1] as f32));
        let clip = Rect::from_min_max(clip.min.round(), clip.max.round()).intersect(whole);
        for corners in mesh.indices.chunks_exact(3) {
            self.triangle(mesh, corners, texture, clip);
        }
    }

    fn triangle(&mut self, mesh: &Mesh, corners: &[u32], texture: &ColorImage, clip: Rect) {
        let at = |corner: usize| mesh.vertices.get(corners[corner] as usize).copied();
        let (Some(a), Some(mut b), Some(mut c)) = (at(0), at(1), at(2)) else {
            return;
        };
        let place = |vertex: &Vertex| vertex.pos * self.scale;
        if edge(place(&a), place(&b), place(&c)) < 0.0 {
            std::mem::swap(&mut b, &mut c);
        }
        let (pa, pb, pc) = (place(&a), place(&b), place(&c));
        let area = edge(pa, pb, pc);
        if area <= 0.0 {
            return;
        }
        let bounds = Rect::from_points(&[pa, pb, pc]).intersect(clip);
        if !bounds.is_positive() {
            return;
        }
        let (ca, cb, cc) = (channels(a.color), channels(b.color), channels(c.color));
        let last = |edge: f32, limit: usize| (edge.ceil() as usize).min(limit);
        for y in bounds.top().floor() as usize..last(bounds.bottom(), self.image.size[1]) {
            for x in bounds.left().floor() as usize..last(bounds.right(), self.image.size[0]) {
                let middle = Pos2::new(x as f32 + 0.5, y as f32 + 0.5);
                if !clip.contains(middle) {
                    continue;
                }
                let (wa, wb, wc) = (edge(pb, pc, middle), edge(pc, pa, middle), edge(pa, pb, middle));
                // What lies on an edge that two triangles share belongs to one of them.
                if !(inside(wa, pb, pc) && inside(wb, pc, pa) && inside(wc, pa, pb)) {
                    continue;
                }
                let (wa, wb, wc) = (wa / area, wb / area, wc / area);
                let uv = Pos2::new(wa * a.uv.x + wb * b.uv.x + wc * c.uv.x, wa * a.uv.y + wb * b.uv.y + wc * c.uv.y);
                let texel = sample(texture, uv);
                let ink: [f32; 4] = std::array::from_fn(|i| (wa * ca[i] + wb * cb[i] + wc * cc[i]) * texel[i]);
                self.blend(x, y, ink);
            }
        }
    }

    /// Premultiplied, in the space in which the window blends.
    fn blend(&mut self, x: usize, y: usize, ink: [f32; 4]) {
        let pixel = &mut self.image.pixels[y * self.image.size[0] + x];
        let under = channels(*pixel);
        let mixed: [u8; 4] = std::array::from_fn(|i| ((ink[i] + under[i] * (1.0 - ink[3])).clamp(0.0, 1.0) * 255.0).round() as u8);
        let [r, g, b, a] = mixed;
        *pixel = Color32::from_rgba_premultiplied(r, g, b, a);
    }
}

/// Twice the area of the triangle, positive where it turns to the right on a page whose y goes down.
fn edge(a: Pos2, b: Pos2, c: Pos2) -> f32 {
    (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x)
}

fn inside(weight: f32, from: Pos2, to: Pos2) -> bool {
    let top_or_left = (from.y == to.y && to.x > from.x) || to.y < from.y;
    weight > 0.0 || (weight == 0.0 && top_or_left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::{ThemePreference, vec2};

    fn page(add: impl FnMut(&mut Ui)) -> ColorImage {
        let look = Look {
            preference: ThemePreference::Dark,
            ..Look::default()
        };
        picture(vec2(60.0, 40.0), 2.0, look, add)
    }

    fn pixel(image: &ColorImage, x: usize, y: usize) -> Color32 {
        image.pixels[y * image.size[0] + x]
    }

    #[test]
    fn a_rectangle_has_its_colour_inside_and_the_page_outside() {
        let red = Color32::from_rgb(200, 10, 20);
        let image = page(|ui| {
            let rect = Rect::from_min_max(Pos2::new(10.0, 10.0), Pos2::new(30.0, 20.0));
            ui.painter().rect_filled(rect, 0, red);
        });
        assert_eq!(image.size, [120, 80]);
        for (x, y) in [(22, 22), (40, 30), (57, 37)] {
            assert_eq!(pixel(&image, x, y), red, "{x} {y}");
        }
        for (x, y) in [(17, 30), (63, 30), (40, 17), (40, 43), (110, 70)] {
            assert_eq!(pixel(&image, x, y), crate::DARK.base, "{x} {y}");
        }
    }

    #[test]
    fn what_is_half_clear_is_blended_once() {
        let image = page(|ui| {
            // Two triangles share the diagonal: a seam would be lighter or darker.
            let rect = Rect::from_min_max(Pos2::new(4.0, 4.0), Pos2::new(44.0, 36.0));
            ui.painter().rect_filled(rect, 0, Color32::from_white_alpha(128));
        });
        let inner: Vec<Color32> = (14..80).map(|x| pixel(&image, x, 14 + x * 44 / 80)).collect();
        assert!(inner.iter().all(|color| *color == inner[0]), "{inner:?}");
        let base = f32::from(crate::DARK.base.r());
        let expected = 128.0 + base * (127.0 / 255.0);
        assert!((f32::from(inner[0].r()) - expected).abs() <= 1.0, "{:?}", inner[0]);
    }

    #[test]
    fn text_is_there() {
        let image = page(|ui| {
            let ink = Theme::of(ui).t1;
            ui.label(crate::Type::STAT.rich("88", ink));
        });
        let inked = image.pixels.iter().filter(|color| color.r() > 200).count();
        assert!((100..2500).contains(&inked), "{inked}");
    }
}
