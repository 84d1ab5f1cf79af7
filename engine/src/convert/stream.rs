//! Pieces of a few rows, from the source through the work to the writer.

use super::{
    ConvertError, Float, Result,
    pack::pack,
    plan::{Item, Plan, Run, Work},
    writer::Writer,
};
use dspark_hub::{Job, Stage};
use std::{fs::File, os::unix::fs::FileExt};

/// Rows are moved in pieces of about this many bytes: memory does not grow with the model.
const PIECE: u64 = 4 << 20;

/// Writes every tensor that is not written yet.
pub(super) fn run(plan: &Plan, writer: &mut Writer, job: &Job) -> Result<()> {
    let open = |path| File::open(path).map_err(ConvertError::io("open", path));
    let files = plan.files.iter().map(|path| open(path)).collect::<Result<Vec<_>>>()?;
    let total = plan.bytes();
    let mut done: u64 = plan.items[..writer.done()].iter().map(Item::bytes).sum();
    let mut piece = Piece::default();
    for (index, item) in plan.items.iter().enumerate().skip(writer.done()) {
        for run in &item.runs {
            let mut at = 0;
            while at < run.bytes {
                if job.token().is_cancelled() {
                    writer.remember()?;
                    return Err(ConvertError::Cancelled);
                }
                let bytes = (PIECE / item.row_bytes).max(1) * item.row_bytes;
                let part = Run {
                    file: run.file,
                    at: run.at + at,
                    bytes: bytes.min(run.bytes - at),
                };
                let path = &plan.files[part.file];
                piece.raw.resize(part.bytes as usize, 0);
                let read = files[part.file].read_exact_at(&mut piece.raw, part.at);
                read.map_err(ConvertError::io("read", path))?;
                piece.write(item, index, writer).map_err(|error| match error {
                    Bad::NotFinite => ConvertError::NotFinite {
                        name: item.name.clone(),
                        path: path.clone(),
                    },
                    Bad::Other(error) => error,
                })?;
                at += part.bytes;
                done += part.bytes;
                job.report(Stage::Converting, &item.name, done, total);
            }
        }
        writer.item_done(index)?;
    }
    writer.remember()
}

enum Bad {
    NotFinite,
    Other(ConvertError),
}

impl From<ConvertError> for Bad {
    fn from(error: ConvertError) -> Self {
        Self::Other(error)
    }
}

fn finite(values: &[f32]) -> std::result::Result<(), Bad> {
    if values.iter().all(|value| value.is_finite()) {
        Ok(())
    } else {
        Err(Bad::NotFinite)
    }
}

/// Buffers that are used again.
#[derive(Default)]
struct Piece {
    raw: Vec<u8>,
    values: Vec<f32>,
    out: Vec<u8>,
}

impl Piece {
    fn write(&mut self, item: &Item, index: usize, writer: &mut Writer) -> std::result::Result<(), Bad> {
        self.values.clear();
        match item.work {
            Work::Copy => {
                if let Some(float) = Float::stored(&item.slots[0].dtype) {
                    float.widen(&self.raw, &mut self.values);
                    finite(&self.values)?;
                }
                writer.append(index, 0, &self.raw)?;
            }
            Work::Float { from, to, add } => {
                from.widen(&self.raw, &mut self.values);
                finite(&self.values)?;
                if add != 0.0 {
                    self.values.iter_mut().for_each(|value| *value += add);
                    from.round(&mut self.values);
                }
                self.out.clear();
                to.narrow(&self.values, &mut self.out);
                writer.append(index, 0, &self.out)?;
            }
            Work::Pack { from, float, packing } => {
                from.widen(&self.raw, &mut self.values);
                if from != float {
                    float.round(&mut self.values);
                }
                finite(&self.values)?;
                let packed = pack(&self.values, packing, float)?;
                let parts = [&packed.weight, &packed.scales, &packed.biases];
                for (slot, bytes) in parts.into_iter().enumerate().take(item.slots.len()) {
                    writer.append(index, slot, bytes)?;
                }
            }
        }
        Ok(())
    }
}
