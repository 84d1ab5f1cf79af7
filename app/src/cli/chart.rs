//! The benchmark as a picture: for each prompt, how many times plain decoding each way is.

use dspark_compare::Bench;
use plotters::{
    backend::SVGBackend,
    chart::ChartBuilder,
    coord::ranged1d::{IntoSegmentedCoord, SegmentValue},
    drawing::IntoDrawingArea,
    element::{PathElement, Rectangle},
    series::LineSeries,
    style::{Color, RGBColor, ShapeStyle, TextStyle},
};
use std::path::Path;

const SIZE: (u32, u32) = (1000, 520);
const INK: RGBColor = RGBColor(28, 30, 36);
const COLOURS: [RGBColor; 6] = [
    RGBColor(74, 108, 247),
    RGBColor(16, 163, 127),
    RGBColor(230, 126, 34),
    RGBColor(155, 89, 182),
    RGBColor(201, 62, 88),
    RGBColor(108, 117, 125),
];

/// Writes an SVG file.
///
/// # Errors
/// What the file system or the drawing says.
pub(super) fn write(path: &Path, title: &str, bench: &Bench) -> Result<(), Box<dyn std::error::Error>> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&RGBColor(255, 255, 255))?;
        let cells = bench.runs.iter().flat_map(|run| run.per_kind.values());
        let most = cells.map(|cell| cell.speedup).fold(1.0, f64::max);
        let groups = bench.kinds.len();
        let mut chart = ChartBuilder::on(&area)
            .caption(title, TextStyle::from(("sans-serif", 17)).color(&INK))
            .margin(16)
            .x_label_area_size(36)
            .y_label_area_size(56)
            .build_cartesian_2d((0..groups).into_segmented(), 0.0..most * 1.15)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .y_desc("× plain decoding")
            .x_label_formatter(&|value| match value {
                SegmentValue::CenterOf(at) | SegmentValue::Exact(at) => bench.kinds.get(*at).cloned().unwrap_or_default(),
                SegmentValue::Last => String::new(),
            })
            .label_style(("sans-serif", 14))
            .draw()?;
        let width = 1.0 / (bench.runs.len() as f64 + 1.0);
        for (arm, run) in bench.runs.iter().enumerate() {
            let name = run.run.as_str();
            let colour = COLOURS[arm % COLOURS.len()];
            let style: ShapeStyle = colour.filled();
            let plot = chart.plotting_area();
            let (pixels, _) = plot.get_pixel_range();
            let group = f64::from(pixels.end - pixels.start) / groups.max(1) as f64;
            let cells = bench
                .kinds
                .iter()
                .enumerate()
                .filter_map(|(at, kind)| Some((at, run.per_kind.get(kind)?)));
            for (at, cell) in cells {
                let (_, top) = plot.map_coordinate(&(SegmentValue::Exact(at), cell.speedup));
                let (_, bottom) = plot.map_coordinate(&(SegmentValue::Exact(at), 0.0));
                let left = f64::from(pixels.start) + group * (at as f64 + width * (arm as f64 + 0.5));
                let corners = [(left as i32, top), ((left + group * width * 0.9) as i32, bottom)];
                area.draw(&Rectangle::new(corners, style))?;
            }
            chart
                .draw_series(LineSeries::new(std::iter::empty(), style))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(6)));
        }
        chart
            .configure_series_labels()
            .label_font(("sans-serif", 13))
            .background_style(RGBColor(255, 255, 255).mix(0.85))
            .border_style(RGBColor(220, 222, 228))
            .draw()?;
        area.present()?;
    }
    std::fs::write(path, svg)?;
    Ok(())
}
