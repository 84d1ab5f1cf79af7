//! Keys and values that a drafter holds of the committed text. Preallocated; a block's own rows go into the scratch
//! tail behind them and are forgotten after the forward, so nothing is copied in a round.

use crate::{
    cache::{export_kv, import_kv},
    drafters::spec::BlockMask,
    target::Parts,
};
use mlx_cpu::KvCache;
use mlx_rs::{Array, Dtype, error::Exception};

/// Positions by which the buffers grow.
const STEP: i32 = 1024;
/// Rows that a windowed layer can drop again besides those its window needs.
const ROLLBACK: usize = 64;
/// Rows that gather before old ones are dropped, so that the copying is rare.
const SLACK: usize = 256;

/// The context of one sequence.
#[derive(Debug, Clone)]
pub struct Context {
    pub(super) layers: Vec<LayerContext>,
    len: usize,
}

#[derive(Debug, Clone)]
pub(super) struct LayerContext {
    pub(super) kv: KvCache,
    /// Rows that a window needs; `None` needs all.
    keep: Option<usize>,
    /// Committed rows seen; those before the held ones are gone.
    len: usize,
}

impl LayerContext {
    fn held(&self) -> usize {
        self.kv.len() as usize
    }

    /// How many of `rows` new ones are worth projecting.
    pub(super) fn wanted(&self, rows: usize) -> usize {
        self.keep.map_or(rows, |keep| rows.min(keep + ROLLBACK))
    }

    /// Appends the last rows of `rows` new ones. `k`, `v`: `[1, heads, wanted, dim]`.
    pub(super) fn append(&mut self, k: &Array, v: &Array, rows: usize) -> Result<(), Exception> {
        let new = k.dim(2) as usize;
        if new < rows {
            // Older rows than these would be out of every window, and there would be a hole before these.
            self.kv.trim(0);
        } else if let Some(most) = self.keep.map(|keep| keep + ROLLBACK)
            && self.held() > most
            && self.held() + new > most + SLACK
        {
            let path: Vec<i32> = ((self.held() - most)..self.held()).map(|row| row as i32).collect();
            self.kv.compact(0, &path)?;
        }
        self.kv.append(k, v)?;
        self.len += rows;
        Ok(())
    }

    fn trimmable(&self) -> usize {
        match self.keep {
            Some(keep) if self.len > self.held() => self.held().saturating_sub(keep),
            _ => self.held(),
        }
    }
}

impl Context {
    pub(super) fn new(masks: &[BlockMask], dtype: Dtype) -> Self {
        let layer = |mask: &BlockMask| LayerContext {
            kv: KvCache::new(dtype, STEP),
            keep: mask.window().map(|window| window - 1),
            len: 0,
        };
        Self {
            layers: masks.iter().map(layer).collect(),
            len: 0,
        }
    }

    /// Committed rows: the position of the anchor.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn advance(&mut self, rows: usize) {
        self.len += rows;
    }

    /// Passes over `n` committed rows whose features are not known: the drafter sees the text from there on.
    pub fn skip(&mut self, n: usize) {
        if n == 0 {
            return;
        }
        for layer in &mut self.layers {
            layer.kv.trim(0);
            layer.len += n;
        }
        self.len += n;
    }

    /// Drops the last `n` rows.
    ///
    /// # Errors
    /// When a window has moved on and the rows before them are gone.
    pub fn trim(&mut self, n: usize) -> Result<(), Exception> {
        let most = self.layers.iter().map(LayerContext::trimmable).min().unwrap_or(self.len);
        if n > most {
            return Err(Exception::custom(format!(
                "cannot drop {n} of the drafter's {} rows: at most {most}, its window has moved on",
                self.len
            )));
        }
        for layer in &mut self.layers {
            layer.kv.trim(layer.kv.len() - n as i32);
            layer.len -= n;
        }
        self.len -= n;
        Ok(())
    }

    /// What trimming cannot bring back of the present state: the layers with a window; the others are left empty.
    pub(crate) fn checkpoint(&self) -> Self {
        let left = |layer: &LayerContext| match layer.keep {
            Some(_) => layer.clone(),
            None => LayerContext {
                kv: KvCache::new(layer.kv.dtype(), STEP),
                ..layer.clone()
            },
        };
        Self {
            layers: self.layers.iter().map(left).collect(),
            len: self.len,
        }
    }

    /// Goes back to where a checkpoint of a text that begins alike was taken.
    ///
    /// # Errors
    /// When rows of a layer without a window are gone: the text before them was skipped.
    pub(crate) fn restore(&mut self, kept: &Self) -> Result<(), Exception> {
        let Some(drop) = self.len.checked_sub(kept.len).filter(|_| kept.layers.len() == self.layers.len()) else {
            return Err(Exception::custom("a checkpoint of another drafter's context, or of a longer text"));
        };
        for (layer, kept) in self.layers.iter_mut().zip(&kept.layers) {
            if layer.keep.is_some() {
                *layer = kept.clone();
                continue;
            }
            if drop > layer.held() {
                return Err(Exception::custom("the drafter's context begins behind the checkpoint"));
            }
            layer.kv.trim(layer.kv.len() - drop as i32);
            layer.len -= drop;
        }
        self.len = kept.len;
        Ok(())
    }

    /// Lets go of buffers shared with the context this was copied from.
    pub(crate) fn detach(&mut self) -> Result<(), Exception> {
        for layer in &mut self.layers {
            if let Some((keys, values)) = layer.kv.state()?.filter(|(keys, _)| keys.dim(2) > 0) {
                layer.kv = KvCache::from_arrays(keys, values, STEP)?;
            }
        }
        Ok(())
    }

    /// Takes it apart under names that begin with `name`.
    pub(crate) fn export(&self, name: &str, parts: &mut Parts) -> Result<(), Exception> {
        parts.numbers.insert(name.to_owned(), self.len);
        for (index, layer) in self.layers.iter().enumerate() {
            let name = format!("{name}.{index}");
            parts.numbers.insert(format!("{name}.len"), layer.len);
            export_kv(&layer.kv, &name, parts)?;
        }
        Ok(())
    }

    /// Puts what [`Self::export`] took apart into a new, empty context of the same drafter.
    ///
    /// # Errors
    /// When a part is missing.
    pub(crate) fn import(&mut self, name: &str, parts: &mut Parts) -> Result<(), Exception> {
        self.len = parts.number(name)?;
        for (index, layer) in self.layers.iter_mut().enumerate() {
            let name = format!("{name}.{index}");
            layer.len = parts.number(&format!("{name}.len"))?;
            import_kv(&mut layer.kv, STEP, &name, parts)?;
        }
        Ok(())
    }

    /// Arrays to evaluate between chunks.
    pub fn arrays(&self) -> Vec<&Array> {
        let pairs = self.layers.iter().filter_map(|layer| layer.kv.arrays());
        pairs.flat_map(|(keys, values)| [keys, values]).collect()
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.kv.nbytes()).sum()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn rows(from: usize, n: usize) -> Array {
        let values: Vec<f32> = (from..from + n).map(|row| row as f32).collect();
        Array::from_slice(&values, &[1, 1, n as i32, 1])
    }

    fn held(layer: &LayerContext) -> Vec<f32> {
        layer.kv.state().unwrap().unwrap().0.to_vec_cast::<f32>().unwrap()
    }

    /// A windowed layer holds a contiguous tail of the text whatever the chunks, and says what can be dropped.
    #[test]
    fn a_window_holds_the_tail() {
        for chunks in [&[3, 700, 1, 5, 400][..], &[1109], &[277; 4], &[1; 1109]] {
            let mut context = Context::new(&[BlockMask::Sliding(8), BlockMask::Full], Dtype::Float32);
            let mut len = 0;
            for &chunk in chunks {
                for layer in &mut context.layers {
                    let wanted = layer.wanted(chunk);
                    let new = rows(len + chunk - wanted, wanted);
                    layer.append(&new, &new, chunk).unwrap();
                }
                context.advance(chunk);
                len += chunk;
            }
            for layer in &context.layers {
                let found = held(layer);
                let expected: Vec<f32> = (len - found.len()..len).map(|row| row as f32).collect();
                assert_eq!(found, expected, "{chunks:?}");
            }
            let (window, full) = (&context.layers[0], &context.layers[1]);
            assert!(window.held() >= 7 && window.held() <= 7 + ROLLBACK + SLACK + 1, "{}", window.held());
            assert_eq!((full.held(), full.trimmable()), (len, len));
            let most = window.trimmable();
            assert_eq!(most, window.held() - 7);
            assert!(context.trim(most + 1).is_err());
            context.trim(most.min(5)).unwrap();
            assert_eq!(context.len(), len - most.min(5));
        }
    }
}
