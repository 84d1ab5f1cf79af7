//! The state of one sequence, layer by layer. Recurrent states (gated delta-net, Mamba-2, short convolution) will be
//! further kinds beside the two here, with `commit` and `trim` of their own.

mod sliding;

use crate::target::Cache;
use mlx_cpu::KvCache;
use mlx_rs::{Array, Dtype, error::Exception, ops::zeros_dtype};
use sliding::SlidingCache;

/// Positions by which a cache grows.
const STEP: i32 = 256;

/// Widest verify whose rollback a sliding layer must stand, unless a caller needs more.
pub const WIDEST: usize = 64;

/// One layer's state.
#[derive(Debug, Clone)]
pub enum LayerCache {
    /// All positions.
    Kv(KvCache),
    /// The last positions.
    Sliding(SlidingCache),
}

impl LayerCache {
    pub(crate) fn new(dtype: Dtype, window: Option<usize>, widest: usize) -> Self {
        match window {
            None => Self::Kv(KvCache::new(dtype, STEP)),
            Some(window) => Self::Sliding(SlidingCache::new(dtype, window, widest)),
        }
    }

    /// The rows to append to and attend over, with room made for `rows` more.
    pub(crate) fn for_append(&mut self, rows: usize) -> Result<&mut KvCache, Exception> {
        match self {
            Self::Kv(kv) => Ok(kv),
            Self::Sliding(sliding) => sliding.for_append(rows),
        }
    }

    fn kv(&self) -> &KvCache {
        match self {
            Self::Kv(kv) => kv,
            Self::Sliding(sliding) => sliding.kv(),
        }
    }

    fn trim(&mut self, n: usize) {
        match self {
            Self::Kv(kv) => kv.trim(kv.len() - n as i32),
            Self::Sliding(sliding) => sliding.trim(n),
        }
    }

    fn commit(&mut self, rows: usize, path: &[i32]) -> Result<(), Exception> {
        let kv = match self {
            Self::Kv(kv) => kv,
            Self::Sliding(sliding) => sliding.kv_mut(),
        };
        kv.compact(kv.len() - rows as i32, path)
    }

    /// How many tokens can be dropped.
    fn trimmable(&self) -> usize {
        match self {
            Self::Kv(kv) => kv.len() as usize,
            Self::Sliding(sliding) => sliding.trimmable(),
        }
    }
}

/// The layers of one sequence. A clone is a snapshot: cheap, until either is appended to.
#[derive(Debug, Clone)]
pub struct DecoderCache {
    layers: Vec<LayerCache>,
    len: usize,
}

impl DecoderCache {
    pub(crate) fn new(layers: Vec<LayerCache>) -> Self {
        Self { layers, len: 0 }
    }

    /// The layers, each to be appended to; then [`Self::advance`].
    pub(crate) fn layers_mut(&mut self) -> Result<std::slice::IterMut<'_, LayerCache>, Exception> {
        // A forward that failed half-way has left some layers longer than others.
        let len = self.len;
        for layer in &mut self.layers {
            let held = match layer {
                LayerCache::Kv(kv) => kv.len() as usize,
                LayerCache::Sliding(sliding) => sliding.len(),
            };
            if held > len && held - len <= layer.trimmable() {
                layer.trim(held - len);
            } else if held != len {
                return Err(Exception::custom(
                    "the cache is left unusable by an earlier failure: start over with a new one",
                ));
            }
        }
        Ok(self.layers.iter_mut())
    }

    pub(crate) fn advance(&mut self, rows: usize) {
        self.len += rows;
    }
}

impl Cache for DecoderCache {
    fn len(&self) -> usize {
        self.len
    }

    fn trim(&mut self, n: usize) -> Result<(), Exception> {
        let most = self.layers.iter().map(LayerCache::trimmable).min().unwrap_or(0).min(self.len);
        if n > most {
            return Err(Exception::custom(format!(
                "cannot drop {n} of {} tokens: at most {most}, a window has moved on",
                self.len
            )));
        }
        self.layers.iter_mut().for_each(|layer| layer.trim(n));
        self.len -= n;
        Ok(())
    }

    fn commit(&mut self, rows: usize, path: &[usize]) -> Result<(), Exception> {
        let ascends = path.is_sorted_by(|a, b| a < b) && path.last().is_none_or(|&last| last < rows);
        if rows > self.len || !ascends {
            return Err(Exception::custom(format!(
                "path {path:?} does not ascend within the last {rows} of {} rows",
                self.len
            )));
        }
        if path.iter().copied().eq(0..path.len()) {
            return self.trim(rows - path.len());
        }
        let path: Vec<i32> = path.iter().map(|&row| row as i32).collect();
        for layer in &mut self.layers {
            layer.commit(rows, &path)?;
        }
        self.len -= rows - path.len();
        Ok(())
    }

    fn pretend(&mut self, rows: usize) -> Result<(), Exception> {
        if rows == 0 {
            return Ok(());
        }
        for layer in &mut self.layers {
            let Some((keys, values)) = layer.kv().arrays() else {
                return Err(Exception::custom(
                    "nothing was computed yet, so the shape of keys and values is not known",
                ));
            };
            let empty = |like: &Array| zeros_dtype(&[like.dim(0), like.dim(1), rows as i32, like.dim(3)], like.dtype());
            let (keys, values) = (empty(keys)?, empty(values)?);
            layer.for_append(rows)?.append(&keys, &values)?;
        }
        self.len += rows;
        Ok(())
    }

    fn trimmable(&self) -> bool {
        self.layers.iter().all(|layer| layer.trimmable() >= self.len)
    }

    fn arrays(&self) -> Vec<&Array> {
        let pairs = self.layers.iter().filter_map(|layer| layer.kv().arrays());
        pairs.flat_map(|(keys, values)| [keys, values]).collect()
    }

    fn bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.kv().nbytes()).sum()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use mlx_rs::ops::zeros;

    fn cache(window: Option<usize>) -> DecoderCache {
        DecoderCache::new(vec![
            LayerCache::new(Dtype::Float32, None, 4),
            LayerCache::new(Dtype::Float32, window, 4),
        ])
    }

    fn append(cache: &mut DecoderCache, rows: usize, layers: usize) {
        let kv = zeros::<f32>(&[1, 1, rows as i32, 8]).unwrap();
        for layer in cache.layers_mut().unwrap().take(layers) {
            layer.for_append(rows).unwrap().append(&kv, &kv).unwrap();
        }
        if layers == 2 {
            cache.advance(rows);
        }
    }

    #[test]
    fn a_path_must_ascend_within_the_last_rows() {
        let mut cache = cache(None);
        append(&mut cache, 10, 2);
        for (rows, path) in [(4, &[0, 4][..]), (4, &[1, 1]), (4, &[2, 1]), (11, &[0])] {
            let message = cache.commit(rows, path).unwrap_err().to_string();
            assert!(message.contains("does not ascend"), "{message}");
        }
        assert_eq!(cache.len(), 10);
        cache.commit(4, &[1, 3]).unwrap();
        assert_eq!(cache.len(), 8);
        cache.commit(3, &[]).unwrap();
        assert_eq!(cache.len(), 5);
        assert!(cache.trim(6).is_err());
        cache.trim(5).unwrap();
        assert!(cache.is_empty() && cache.trimmable());
    }

    #[test]
    fn a_forward_that_failed_half_way_leaves_no_trace() {
        let mut cache = cache(Some(8));
        append(&mut cache, 10, 2);
        append(&mut cache, 3, 1);
        assert_eq!(cache.len(), 10);
        append(&mut cache, 1, 2);
        assert_eq!(cache.len(), 11);
        assert!(cache.layers.iter().all(|layer| layer.trimmable() == 11));
    }

    #[test]
    fn a_snapshot_stays_as_it_was() {
        let mut cache = cache(Some(8));
        append(&mut cache, 20, 2);
        let snapshot = cache.clone();
        append(&mut cache, 200, 2);
        append(&mut cache, 200, 2);
        assert_eq!((snapshot.len(), cache.len()), (20, 420));
        assert!(snapshot.trimmable() && !cache.trimmable());
        // What a full layer holds grows, a sliding one has reached its size.
        assert!(cache.bytes() > snapshot.bytes());
    }
}
