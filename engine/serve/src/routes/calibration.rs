//! `GET /calibration`: what a round costs on this machine and what follows from it. Source: `spec/http-api.md` §13.5.

use super::rounds::rounded;
use crate::{App, error::ApiError};
use axum::{Json, extract::State};
use dspark_protocol::{Curves, MachineInfo, ModelInfo, SpeculationState};
use dspark_speculate::cost::knee;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// From this width on a DFlash block pays whole. Source: `spec/speculation.md` §9.4.
const FULL_BLOCK_KNEE: usize = 16;

pub(crate) async fn calibration(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    let snapshot = app.engine.snapshot();
    let model = app.ready(&snapshot)?;
    let state = snapshot.speculation.as_deref().cloned().unwrap_or_default();
    let Some(curves) = &state.curves else {
        let reason = state
            .reason
            .clone()
            .unwrap_or_else(|| "this pair has not been measured on this machine yet".into());
        return Ok(Json(json!({
            "available": false,
            "reason": reason,
            "mode": state.mode,
            "target": model.name,
            "drafter": state.drafter.as_ref().map(|drafter| &drafter.name),
        })));
    };
    Ok(Json(describe(&model, &snapshot.machine, &state, curves)))
}

fn describe(model: &ModelInfo, machine: &MachineInfo, state: &SpeculationState, curves: &Curves) -> Value {
    let knee = knee(&curves.verify);
    json!({
        "available": true,
        "key": {
            "device": machine.device,
            "backend": machine.backend,
            "mlx": machine.mlx_version,
            "quantization": model.quantization,
            "context": curves.context,
        },
        "mode": state.mode,
        "target": model.name,
        "drafter": state.drafter.as_ref().map(|drafter| &drafter.name),
        "verify_ms": curve(&curves.verify, 3),
        "drafter_ms": curve(&curves.drafter, 3),
        "round_overhead_ms": rounded(curves.overhead, 3),
        "depth_slope_ms_per_token": curve(&curves.slope, 7),
        "measured_at": curves.measured_at,
        "recommendation": {
            "knee_width": knee,
            "dflash_full_block_viable": knee >= FULL_BLOCK_KNEE,
            "recommend": state.cap,
        },
        "controller": {
            "cap": state.cap,
            "origin": state.cap_origin,
            "parked": state.cap == 0,
            "acceptance": rounded(state.acceptance, 4),
            "predicted_tokens_per_sec": curve(&state.predicted, 1),
        },
    })
}

pub(super) fn curve(points: &BTreeMap<usize, f64>, decimals: i32) -> Map<String, Value> {
    points
        .iter()
        .map(|(at, value)| (at.to_string(), rounded(*value, decimals)))
        .collect()
}
