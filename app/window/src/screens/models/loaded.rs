//! The loaded model: what it is, and what was expected of its memory beside what MLX measures.

use crate::{
    bridge::{FitAt, Part},
    screens::lab::words::{mode, mode_named},
    shell::text::{bytes, count},
    state::State,
};
use dspark_look::{Theme, Type, card, key_value, middle_ellipsis, tip};
use dspark_protocol::ModelInfo;
use dspark_strings::t;
use egui::{Label, Ui, vec2};

pub(super) fn show(ui: &mut Ui, state: &State) {
    let Some(model) = &state.engine.model else { return };
    let theme = Theme::of(ui);
    card(ui, |ui| {
        ui.spacing_mut().item_spacing = vec2(8.0, 0.0);
        ui.label(Type::PANEL.rich(t!(loaded_title, name = model.name), theme.t1));
        ui.add_space(8.0);
        for compared in compare(state, model) {
            let row = key_value(ui, compared.name, &compared.words());
            tip(row, compared.name, compared.explain);
        }
        let parameters = model.parameters as f64;
        let size = if parameters >= 1e9 {
            t!(billion, n = format!("{:.1}", parameters / 1e9))
        } else {
            t!(million, n = format!("{:.0}", parameters / 1e6))
        };
        let rows = [
            (t!(architecture), model.model_type.clone()),
            (t!(parameters), size),
            (t!(weights), format!("{}, {}", model.quantization, bytes(model.weight_bytes))),
            (t!(drafter), drafter(state)),
            (t!(decoding), decoding(state)),
            (t!(context_window), t!(tokens_count, count = count(model.context_window))),
            (t!(cache_per_1000), bytes(model.kv_bytes_per_token * 1000)),
            (t!(folder), model.path.display().to_string()),
        ];
        for (key, value) in rows {
            let shown = middle_ellipsis(ui, Type::NOTE, &value, ui.available_width() - 190.0);
            key_value(ui, key, &shown);
        }
        for note in &model.notes {
            ui.add_space(6.0);
            ui.add(Label::new(Type::NOTE.rich(note, theme.t2)).wrap());
        }
    });
}

/// An estimate beside a measurement, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Compared {
    name: &'static str,
    estimate: Option<u64>,
    measured: Option<u64>,
    /// The two are of the same moment: their difference means something.
    same: bool,
    explain: &'static str,
}

impl Compared {
    /// `estimate 9.5 GB, measured 9.6 GB (+1%)`.
    fn words(&self) -> String {
        match (self.estimate, self.measured) {
            (Some(estimate), Some(measured)) if !self.same => {
                t!(estimate_measured_so_far, estimate = bytes(estimate), measured = bytes(measured))
            }
            (Some(estimate), Some(measured)) if estimate > 0 => {
                let off = 100.0 * (measured as f64 / estimate as f64 - 1.0);
                let sign = if off < 0.0 { "−" } else { "+" };
                t!(
                    estimate_measured,
                    estimate = bytes(estimate),
                    measured = bytes(measured),
                    sign = sign,
                    off = format!("{:.0}", off.abs())
                )
            }
            (Some(estimate), None) => t!(estimate_not_measured, estimate = bytes(estimate)),
            (_, Some(measured)) => t!(measured_size, size = bytes(measured)),
            (None, None) => t!(not_known).into(),
        }
    }
}

/// What the verdict of this model assumed, and what came of it.
fn compare(state: &State, model: &ModelInfo) -> [Compared; 2] {
    let survey = state.models.survey.as_ref();
    let entry = survey
        .and_then(|survey| survey.entry(&model.path))
        .filter(|entry| !entry.fit.at.parts.is_empty());
    let drafts = state.engine.speculation.as_ref().is_some_and(|known| known.drafter.is_some());
    let resident = |at: &FitAt| at.part(Part::Weights) + if drafts { at.part(Part::Drafter) } else { 0 };
    let whole = |at: &FitAt| {
        // Not of MLX, and not of this load.
        let left_out = at.part(Part::App)
            + if drafts {
                0
            } else {
                at.part(Part::Drafter) + at.part(Part::DrafterContext)
            };
        at.total() - left_out
    };
    let measured = state.models.shelf.resident.as_ref().filter(|known| known.path == model.path);
    let peak = state.engine.memory.peak;
    [
        Compared {
            name: t!(memory_after_loading),
            estimate: entry.map(|entry| resident(&entry.fit.at)),
            measured: measured.map(|known| known.bytes),
            same: true,
            explain: t!(memory_after_explain),
        },
        Compared {
            name: t!(memory_full_context),
            estimate: entry.map(|entry| whole(entry.fit.near(model.context_window as u64))),
            measured: Some(peak).filter(|peak| *peak > 0),
            same: false,
            explain: t!(memory_full_explain),
        },
    ]
}

/// `Qwen3-8B-DSpark, DSpark, 780 MB`.
fn drafter(state: &State) -> String {
    let loaded = state.engine.speculation.as_ref().and_then(|state| state.drafter.as_ref());
    loaded.map_or_else(
        || t!(none_small).into(),
        |drafter| format!("{}, {}, {}", drafter.name, mode_named(&drafter.kind), bytes(drafter.weight_bytes)),
    )
}

/// What is done with it, or why nothing is.
fn decoding(state: &State) -> String {
    let Some(speculation) = &state.engine.speculation else {
        return t!(plain_small).into();
    };
    let name = mode(speculation.mode);
    match (&speculation.reason, speculation.cap) {
        (Some(reason), _) => format!("{name}: {reason}"),
        (None, 0) => name.into(),
        (None, cap) => t!(up_to_drafted, name = name, cap = cap),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_beside_a_measurement() {
        let words = |estimate, measured| {
            Compared {
                name: "",
                estimate,
                measured,
                same: true,
                explain: "",
            }
            .words()
        };
        assert_eq!(
            words(Some(10_000_000_000), Some(10_100_000_000)),
            "estimate 10.0 GB, measured 10.1 GB (+1%)"
        );
        assert_eq!(
            words(Some(200_000_000), Some(150_000_000)),
            "estimate 200 MB, measured 150 MB (−25%)"
        );
        assert_eq!(words(None, Some(5_000_000)), "measured 5 MB");
        assert_eq!(words(Some(5_000_000), None), "estimate 5 MB, not measured yet");
        assert_eq!(words(None, None), "not known");
    }
}
