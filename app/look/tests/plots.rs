//! Plots as pictures, with the figures of the Lab mock, and their names.

mod support;

use dspark_look::{
    Theme, card, card_title,
    plot::{Bar, BarPlot, CurvePlot, LinePlot, RibbonItem, Share, accept_ribbon, share_bar},
};
use egui::{Rect, Role, Ui, UiBuilder, pos2, vec2};
use egui_kittest::kittest::Queryable;
use support::{Shot, harness};

/// Repeatable rounds: a small linear congruential sequence.
fn rounds() -> Vec<RibbonItem> {
    let mut seed = 7_u32;
    let mut next = |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) % below
    };
    let mut items: Vec<_> = (0..150)
        .map(|_| RibbonItem::Round {
            accepted: next(5) as u8,
            drafted: 4,
            lookup: next(12) == 0,
        })
        .collect();
    items.insert(60, RibbonItem::Prefill { tokens: 726 });
    items
}

fn rates() -> Vec<Option<f32>> {
    let wave = |i: usize| 66.0 + 9.0 * (i as f32 * 0.31).sin() + 4.0 * (i as f32 * 0.83).cos();
    (0..160).map(|i| (!(66..71).contains(&i)).then(|| wave(i))).collect()
}

fn page(ui: &mut Ui, (): &mut ()) {
    let theme = Theme::of(ui);
    let series = &theme.series;
    let at = |x: f32, y: f32, w: f32, h: f32| Rect::from_min_size(pos2(x, y), vec2(w, h));
    let mut place = |rect: Rect, title: &str, note: &str, add: &mut dyn FnMut(&mut Ui)| {
        ui.scope_builder(UiBuilder::new().max_rect(rect), |ui| {
            card(ui, |ui| {
                ui.set_min_height(rect.height() - 30.0);
                card_title(ui, title, note);
                ui.add_space(8.0);
                add(ui);
            });
        });
    };
    place(
        at(24.0, 24.0, 996.0, 198.0),
        "Accept ribbon",
        "one column per round, newest right",
        &mut |ui| {
            accept_ribbon(ui, &rounds(), 4);
        },
    );
    place(
        at(24.0, 234.0, 492.0, 330.0),
        "Decode rate",
        "tok/s, rolling 16 rounds",
        &mut |ui| {
            let plot = LinePlot {
                label: "Decode rate",
                unit: "tok/s",
                values: &rates(),
                reference: Some((27.5, "plain-decode ceiling 27.5")),
                x_labels: &[(0.0, "10 s ago"), (0.5, "5 s"), (1.0, "now")],
                fade: true,
            };
            plot.show(ui, 272.0);
        },
    );
    let bar = |label, value, text, color| Bar { label, value, text, color };
    place(at(528.0, 234.0, 240.0, 330.0), "Kept by position", "n = 512", &mut |ui| {
        let c = series.accepted;
        let bars = [
            bar("d₀", 77.0, "77%", c),
            bar("d₁", 58.0, "58%", c),
            bar("d₂", 42.0, "42%", c),
            bar("d₃", 29.0, "29%", c),
        ];
        BarPlot {
            label: "Kept by position",
            bars: &bars,
            axis: false,
            top: Some(100.0),
            ghost: true,
            inside: false,
            measured: None,
            reference: None,
        }
        .show(ui, 272.0);
    });
    place(at(780.0, 234.0, 240.0, 330.0), "Tokens per round", "rounds", &mut |ui| {
        let c = series.accepted;
        let bars = [
            bar("1", 118.0, "118", series.plain),
            bar("2", 97.0, "97", c),
            bar("3", 82.0, "82", c),
            bar("4", 67.0, "67", c),
            bar("5", 148.0, "148", c),
        ];
        BarPlot {
            label: "Tokens per round",
            bars: &bars,
            axis: false,
            top: None,
            ghost: false,
            inside: false,
            measured: None,
            reference: None,
        }
        .show(ui, 272.0);
    });
    place(at(24.0, 576.0, 492.0, 200.0), "Predicted rate by draft cap", "tok/s", &mut |ui| {
        let d = series.drafted;
        let bars = [
            bar("off", 25.9, "25.9", series.plain),
            bar("1", 39.6, "39.6", d),
            bar("2", 50.2, "50.2", d),
            bar("4", 60.7, "60.7", series.accepted),
        ];
        BarPlot {
            label: "Predicted rate",
            bars: &bars,
            axis: true,
            top: None,
            ghost: false,
            inside: true,
            measured: None,
            reference: None,
        }
        .show(ui, 150.0);
    });
    place(at(528.0, 576.0, 492.0, 80.0), "Where tokens came from", "", &mut |ui| {
        let share = |name, part, color| Share { name, part, color };
        let shares = [
            share("Drafter", 0.576, series.accepted),
            share("Lookup", 0.097, series.lookup),
            share("Target", 0.327, series.plain),
        ];
        share_bar(ui, "Where tokens came from", &shares, 440.0);
    });
}

fn picture(shot: Shot) {
    let mut h = harness(shot, (), page);
    h.run_steps(3);
    for label in [
        "Accept ribbon, 151 rounds",
        "Predicted rate",
        "Where tokens came from: Drafter 57.6%, Lookup 9.7%, Target 32.7%",
    ] {
        h.get_by_role_and_label(Role::Figure, label);
    }
    h.get_by_role_and_label(Role::Label, "d₀ 77%");
    h.snapshot(format!("plots-{}", shot.name()));
}

#[test]
fn plots_dark() {
    picture(Shot::DARK);
}

#[test]
fn plots_light() {
    picture(Shot::LIGHT);
}

#[test]
fn plots_without_data_draw_nothing_and_do_not_fail() {
    let mut h = harness(Shot::DARK, (), |ui, ()| {
        accept_ribbon(ui, &[], 0);
        let empty = LinePlot {
            label: "Rate",
            unit: "tok/s",
            values: &[],
            reference: None,
            x_labels: &[],
            fade: true,
        };
        empty.show(ui, 120.0);
        LinePlot {
            values: &[Some(3.0)],
            ..empty
        }
        .show(ui, 120.0);
        BarPlot {
            label: "Bars",
            bars: &[],
            axis: true,
            top: None,
            ghost: false,
            inside: false,
            measured: None,
            reference: None,
        }
        .show(ui, 120.0);
        CurvePlot {
            label: "Verify",
            unit: "ms",
            axis: "rows",
            points: &[],
            chosen: None,
            knee: Some((3, "knee")),
            overlay: None,
            second: None,
        }
        .show(ui, 120.0);
        share_bar(ui, "Shares", &[], 100.0);
    });
    h.run_steps(2);
}

const SMALL: Shot = Shot {
    width: 720.0,
    height: 620.0,
    ..Shot::DARK
};

fn curves(ui: &mut Ui, (): &mut ()) {
    let series = &Theme::of(ui).series;
    ui.spacing_mut().item_spacing.y = 12.0;
    let verify = [38.6, 39.2, 39.9, 40.8, 42.0, 50.6, 55.9, 60.2];
    let from = |first: usize, values: &[f32]| -> Vec<(usize, f32)> { values.iter().enumerate().map(|(i, v)| (i + first, *v)).collect() };
    let deep: Vec<f32> = verify.iter().enumerate().map(|(i, v)| v + 5.8 + 0.3 * i as f32).collect();
    card(ui, |ui| {
        card_title(ui, "Verify time by width", "ms for one pass over 1 to 8 rows");
        ui.add_space(8.0);
        CurvePlot {
            label: "Verify time",
            unit: "ms",
            axis: "rows",
            points: &from(1, &verify),
            chosen: Some(5),
            knee: Some((6, "knee at 6 rows")),
            overlay: Some((&from(1, &deep), "at 32k")),
            second: Some((&from(2, &[10.4, 10.8, 11.4, 12.5, 13.5, 14.9, 16.5]), "drafter")),
        }
        .show(ui, 260.0);
    });
    card(ui, |ui| {
        card_title(ui, "Predicted rate by draft cap", "tok/s");
        ui.add_space(8.0);
        let bars = [
            Bar {
                label: "off",
                value: 25.9,
                text: "25.9",
                color: series.plain,
            },
            Bar {
                label: "1",
                value: 39.6,
                text: "39.6",
                color: series.drafted,
            },
            Bar {
                label: "2",
                value: 60.7,
                text: "60.7",
                color: series.accepted,
            },
        ];
        BarPlot {
            axis: true,
            inside: true,
            measured: Some((2, 66.2, "66.2 measured")),
            reference: Some((25.9, "plain")),
            ..BarPlot::new("Predicted rate", &bars)
        }
        .show(ui, 200.0);
    });
}

fn curves_picture(shot: Shot) {
    let mut h = harness(shot, (), curves);
    h.run_steps(3);
    h.get_by_role_and_label(Role::Figure, "Verify time: 38.6 ms at 1 to 60.2 ms at 8 rows");
    h.get_by_role_and_label(Role::Label, "5 rows: 42.0 ms");
    h.snapshot(format!("curves-{}", shot.name()));
}

#[test]
fn curves_dark() {
    curves_picture(SMALL);
}

#[test]
fn curves_light() {
    curves_picture(Shot { dark: false, ..SMALL });
}
