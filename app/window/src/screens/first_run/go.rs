//! Third step: what happens between choosing a model and the first word, one line a stage.

use crate::{
    shell::{header::fetching_words, text::bytes},
    state::{FirstRunMsg, ModelsMsg, Msg, State},
};
use dspark_look::{Button, Icon, Theme, Type, card_flush, paint, paint_ring, progress_bar};
use dspark_protocol::LoadStage;
use dspark_strings::{Key, key, t};
use egui::{Ui, vec2};

const ROW: f32 = 52.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Download,
    Read,
    Prepare,
    Measure,
    WarmUp,
    Try,
}

impl Stage {
    const ALL: [(Self, Key, Key); 6] = [
        (Self::Download, key!(stage_download), key!(stage_download_note)),
        (Self::Read, key!(stage_read), key!(stage_read_note)),
        (Self::Prepare, key!(stage_prepare), key!(stage_prepare_note)),
        (Self::Measure, key!(stage_measure), key!(stage_measure_note)),
        (Self::WarmUp, key!(stage_warm_up), key!(stage_warm_up_note)),
        (Self::Try, key!(stage_try), key!(stage_try_note)),
    ];
}

fn now(state: &State) -> Stage {
    if state.models.fetching.is_some() {
        return Stage::Download;
    }
    match state.models.loading.as_ref().map(|loading| loading.stage) {
        Some(LoadStage::Checking | LoadStage::Reading) => Stage::Read,
        Some(LoadStage::Preparing) => Stage::Prepare,
        Some(LoadStage::Calibrating) => Stage::Measure,
        Some(LoadStage::WarmingUp) => Stage::WarmUp,
        None => Stage::Try,
    }
}

pub(super) fn show(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let current = now(state);
    let fetches = state.first_run.fetches || current == Stage::Download;
    card_flush(ui, |ui| {
        let mut first = true;
        for (stage, name, note) in Stage::ALL {
            // A model that is on disk is not downloaded; one that is loaded outside the first run is not tried.
            let left_out =
                (stage == Stage::Download && !fetches) || (stage == Stage::Try && !state.first_run.going && !state.first_run.trial);
            if left_out {
                continue;
            }
            row(ui, state, (stage, name.text(), note.text()), current, !std::mem::take(&mut first));
        }
    });
    ui.add_space(16.0);
    dspark_look::controls(ui, |ui| {
        dspark_look::from_right(ui, |ui| match current {
            Stage::Try => {
                if ui.add(Button::secondary(t!(skip_trial))).clicked() {
                    out.push(FirstRunMsg::Skip.into());
                }
            }
            Stage::Download => {
                if ui.add(Button::secondary(t!(cancel_download))).clicked() {
                    out.push(Msg::Models(ModelsMsg::CancelFetch));
                }
            }
            _ => {
                if ui.add(Button::secondary(t!(cancel))).clicked() {
                    out.push(Msg::Models(ModelsMsg::CancelLoad));
                }
            }
        });
    });
}

/// Detail at the right and how far it is, of the stage that runs.
fn progress(state: &State, stage: Stage) -> (String, Option<f32>) {
    let (fetching, loading) = (&state.models.fetching, &state.models.loading);
    match (stage, fetching, loading) {
        (Stage::Download, Some(fetching), _) if fetching.cancelled => (t!(cancelling).into(), None),
        (Stage::Download, Some(fetching), _) => (
            fetching_words(fetching),
            fetching.percent().map(|percent| f32::from(percent) / 100.0),
        ),
        (_, _, Some(loading)) if loading.cancelled => (t!(cancelling).into(), None),
        (Stage::Read, _, Some(loading)) if loading.total > 0 => (
            t!(done_of_total, done = bytes(loading.done), total = bytes(loading.total)),
            loading.part(),
        ),
        _ => (String::new(), None),
    }
}

fn row(ui: &mut Ui, state: &State, (stage, name, note): (Stage, &str, &str), current: Stage, line: bool) {
    let theme = Theme::of(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), egui::Sense::hover());
    let (word, ink) = match stage.cmp(&current) {
        std::cmp::Ordering::Less => (t!(stage_done), theme.t1),
        std::cmp::Ordering::Equal => (t!(stage_running), theme.t1),
        std::cmp::Ordering::Greater => (t!(stage_waiting), theme.t3),
    };
    let (detail, part) = if stage == current {
        progress(state, stage)
    } else {
        (String::new(), None)
    };
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Status, true, format!("{name}: {word} {detail}").trim_end()));
    if line {
        paint::hline(ui.painter(), rect.x_range(), rect.top(), theme.line);
    }
    let mark = rect.left_center() + vec2(24.0, 0.0);
    match stage.cmp(&current) {
        std::cmp::Ordering::Less => Icon::CheckCircleFill.paint(ui.painter(), mark, 16.0, theme.ok),
        std::cmp::Ordering::Equal => paint_ring(ui, mark, 14.0, theme.accent),
        std::cmp::Ordering::Greater => {
            ui.painter().circle_stroke(mark, 6.5, egui::Stroke::new(1.5, theme.line2));
        }
    }
    let galley = Type::CONTROL.galley(ui, name, ink);
    ui.painter().galley(rect.left_top() + vec2(44.0, 7.0), galley, ink);
    let galley = Type::SMALL.galley(ui, note, theme.t3);
    ui.painter().galley(rect.left_top() + vec2(44.0, 27.0), galley, theme.t3);
    if detail.is_empty() {
        return;
    }
    let galley = Type::SMALL.galley(ui, &detail, theme.t2);
    let right = rect.right() - 16.0;
    let at = egui::pos2(right - galley.size().x, rect.top() + 8.0);
    ui.painter().galley(at, galley, theme.t2);
    if part.is_some() {
        let bar = egui::Rect::from_min_size(egui::pos2(right - 180.0, rect.top() + 34.0), vec2(180.0, 4.0));
        paint::over_down(ui, bar, |ui| progress_bar(ui, part, theme.accent));
    }
}
