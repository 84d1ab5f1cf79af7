//! DSpine: after each layer every row hears of the row before it, and pairs of candidates are scored by what the last
//! injection would have made of the row. Source: `spec/drafters.md` §4.4; SpecForge's `DSpineDraftModel`.

use super::{
    DrafterError, Result,
    bind::Ends,
    reader::Reader,
    selector::{Lattice, best, predecessors},
    spec::{DrafterSpec, InjectionSpec},
};
use mlx_cpu::Weight;
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{add, concatenate, divide, indexing::TryIndexOp, matmul, maximum, multiply, sigmoid, sqrt},
};

type Computed<T> = std::result::Result<T, Exception>;

#[derive(Debug)]
pub(super) struct Injection {
    spec: InjectionSpec,
    /// By layer, `[R, H]`.
    readouts: Vec<Weight>,
    /// By layer, `[H, M]`.
    writes: Vec<Weight>,
    /// `[M, R]` each.
    message: Weight,
    receiver: Weight,
    predecessor: Weight,
    /// `[M]`.
    bias: Array,
    /// `[V, R]`, rows of length 1.
    codes: Array,
}

impl Injection {
    pub(super) fn read(reader: &mut Reader, injection: InjectionSpec, spec: &DrafterSpec) -> Result<Self> {
        if reader.integers("transfer_ready")?.is_some_and(|ready| ready.first() != Some(&1)) {
            return Err(DrafterError::Unsupported(
                "its token codes were never made (`transfer_ready` is false): the checkpoint is from before its training".into(),
            ));
        }
        let (rank, message, hidden) = (injection.rank, injection.message, spec.hidden);
        let mut by_layer = |name: &str, columns: usize| -> Result<Vec<Weight>> {
            let path = |layer| format!("injection.{name}.{layer}");
            (0..spec.layers())
                .map(|layer| reader.matrix(&path(layer), columns, false))
                .collect()
        };
        let (readouts, writes) = (by_layer("readouts", hidden)?, by_layer("writes", message)?);
        Ok(Self {
            spec: injection,
            readouts,
            writes,
            message: reader.matrix("injection.message", rank, false)?,
            receiver: reader.matrix("injection.receiver_gate", rank, false)?,
            predecessor: reader.matrix("injection.predecessor_gate", rank, false)?,
            bias: reader.raw("injection.bias")?,
            codes: reader.stored("transfer_codes")?,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        let weights = [&self.message, &self.receiver, &self.predecessor];
        let weights = weights.into_iter().chain(&self.readouts).chain(&self.writes);
        weights.map(Weight::nbytes).sum::<usize>() + self.codes.nbytes() + self.bias.nbytes()
    }

    /// `√R · readout(h) / ‖readout(h)‖`, `[.., H]` to `[.., R]`.
    fn feature(&self, h: &Array, layer: usize) -> Computed<Array> {
        let read = mlx_cpu::linear(h, &self.readouts[layer])?.as_dtype(Dtype::Float32)?;
        let length = maximum(norm(&read)?, Array::from_slice(&[1e-12_f32], &[1]))?;
        super::drafter::scaled(&divide(&read, &length)?, self.root())?.as_dtype(h.dtype())
    }

    /// `√R · code`, `[..]` ids to `[.., R]`.
    fn code(&self, ids: &Array, dtype: Dtype) -> Computed<Array> {
        super::drafter::scaled(&self.codes.take_axis(ids, 0)?.as_dtype(dtype)?, self.root())
    }

    fn root(&self) -> f32 {
        (self.spec.rank as f32).sqrt()
    }

    /// `h + (‖h‖ / √H) · write(σ(Wr receiver + Wp predecessor + b) ⊙ Wm predecessor)`.
    fn written(&self, h: &Array, receiver: &Array, predecessor: &Array, layer: usize) -> Computed<Array> {
        let open = add(
            &mlx_cpu::linear(receiver, &self.receiver)?,
            &mlx_cpu::linear(predecessor, &self.predecessor)?,
        )?;
        let gate = sigmoid(&add(&open, &self.bias)?)?;
        let delta = mlx_cpu::linear(
            &multiply(&gate, &mlx_cpu::linear(predecessor, &self.message)?)?,
            &self.writes[layer],
        )?;
        let width = h.dim(-1) as f32;
        let scale = super::drafter::scaled(&norm(&h.as_dtype(Dtype::Float32)?)?, width.sqrt().recip())?;
        add(h, &multiply(&scale.as_dtype(h.dtype())?, &delta)?)
    }

    /// The rows of a block after `layer`, `[1, w, H]`: the anchor's as it is, the next with the anchor's code, each other
    /// with the feature of the row before it.
    pub(super) fn inject(&self, x: &Array, layer: usize, anchor: &Array) -> Computed<Array> {
        let rows = x.dim(1);
        if rows < 2 {
            return Ok(x.clone());
        }
        let first = x.try_index((.., ..1, ..))?;
        let features = self.feature(&x.try_index((.., 1.., ..))?, layer)?;
        let code = self.code(&anchor.reshape(&[1, 1])?, x.dtype())?;
        let before = if rows > 2 {
            concatenate(&[code, features.try_index((.., ..rows - 2, ..))?], 1)?
        } else {
            code
        };
        let rest = self.written(&x.try_index((.., 1.., ..))?, &features, &before, layer)?;
        concatenate(&[first, rest], 1)
    }

    /// Candidates and the scores between them. `logits`: `[cap, V]` of the target's head on the final rows; `before`:
    /// `[cap, H]`, rows of the last layer before its injection; `norm`: the final one.
    pub(super) fn lattice(&self, logits: &Array, before: &Array, anchor: &Array, ends: &Ends, norm: (&Array, f32)) -> Computed<Lattice> {
        let (cap, last) = (logits.dim(0), self.readouts.len() - 1);
        let candidates = best(logits, self.spec.top_k as i32)?;
        let unary = logits.take_along_axis(&candidates, -1)?.as_dtype(Dtype::Float32)?;
        let h = before.reshape(&[cap, 1, -1])?;
        let receiver = self.feature(&h, last)?;
        let code = self.code(&predecessors(&candidates, anchor)?, h.dtype())?;
        let refined = mlx_cpu::rms_norm(&self.written(&h, &receiver, &code, last)?, Some(norm.0), norm.1)?;
        let heads = ends.head_rows(&candidates, Dtype::Float32)?;
        let scores = matmul(&refined.as_dtype(Dtype::Float32)?, &heads.transpose_axes(&[0, 2, 1])?)?;
        Ok(Lattice { candidates, unary, scores })
    }
}

/// Euclidean lengths of rows, `[.., n]` to `[.., 1]`.
fn norm(x: &Array) -> Computed<Array> {
    sqrt(&multiply(x, x)?.sum_axis(-1, true)?)
}
