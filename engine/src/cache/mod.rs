//! The state of one sequence, layer by layer: keys and values of all positions, of the last ones, or a recurrent state.

mod parts;
mod recurrent;
mod sliding;

use crate::target::{Cache, Parts};
use mlx_cpu::KvCache;
use mlx_rs::{Array, Dtype, error::Exception, ops::zeros_dtype};
pub(crate) use parts::{export_kv, import_kv};
pub use recurrent::Recurrent;
pub(crate) use recurrent::{Left, last};
pub use sliding::SlidingCache;
use std::any::Any;

/// Positions by which a cache grows.
const STEP: i32 = 256;

/// Widest verify whose rollback a sliding layer must stand, unless a caller needs more.
pub const WIDEST: usize = 64;

/// What a layer keeps of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheKind {
    /// All positions.
    Full,
    /// So many of the last positions.
    Sliding(usize),
    /// A state that every position changes.
    Recurrent,
}

/// One layer's state.
#[derive(Debug, Clone)]
pub enum LayerCache {
    /// All positions.
    Kv(KvCache),
    /// The last positions.
    Sliding(SlidingCache),
    /// A state of fixed size.
    Recurrent(Recurrent),
}

impl LayerCache {
    pub(crate) fn new(kind: CacheKind, dtype: Dtype, widest: usize) -> Self {
        match kind {
            CacheKind::Full => Self::Kv(KvCache::new(dtype, STEP)),
            CacheKind::Sliding(window) => Self::Sliding(SlidingCache::new(dtype, window, widest)),
            CacheKind::Recurrent => Self::Recurrent(Recurrent::new(widest)),
        }
    }

    /// Tokens seen.
    fn len(&self) -> usize {
        match self {
            Self::Kv(kv) => kv.len() as usize,
            Self::Sliding(sliding) => sliding.len(),
            Self::Recurrent(recurrent) => recurrent.len(),
        }
    }

    /// The rows to append to and attend over, with room made for `rows` more.
    pub(crate) fn for_append(&mut self, rows: usize) -> Result<&mut KvCache, Exception> {
        match self {
            Self::Kv(kv) => Ok(kv),
            Self::Sliding(sliding) => sliding.for_append(rows),
            Self::Recurrent(_) => Err(wrong_kind()),
        }
    }

    /// The rows to attend over.
    pub(crate) fn kv(&self) -> Result<&KvCache, Exception> {
        match self {
            Self::Kv(kv) => Ok(kv),
            Self::Sliding(sliding) => Ok(sliding.kv()),
            Self::Recurrent(_) => Err(wrong_kind()),
        }
    }

    pub(crate) fn recurrent(&mut self) -> Result<&mut Recurrent, Exception> {
        match self {
            Self::Recurrent(recurrent) => Ok(recurrent),
            Self::Kv(_) | Self::Sliding(_) => Err(wrong_kind()),
        }
    }

    fn trim(&mut self, n: usize) -> Result<(), Exception> {
        match self {
            Self::Kv(kv) => kv.trim(kv.len() - n as i32),
            Self::Sliding(sliding) => sliding.trim(n),
            Self::Recurrent(recurrent) => return recurrent.trim(n),
        }
        Ok(())
    }

    fn commit(&mut self, rows: usize, path: &[i32]) -> Result<(), Exception> {
        let kv = match self {
            Self::Kv(kv) => kv,
            Self::Sliding(sliding) => sliding.kv_mut(),
            Self::Recurrent(recurrent) => return recurrent.commit(rows, path),
        };
        kv.compact(kv.len() - rows as i32, path)
    }

    /// Whether any number of tokens can always be dropped.
    fn elastic(&self) -> bool {
        matches!(self, Self::Kv(_))
    }

    /// How many tokens can be dropped.
    fn trimmable(&self) -> usize {
        match self {
            Self::Kv(kv) => kv.len() as usize,
            Self::Sliding(sliding) => sliding.trimmable(),
            Self::Recurrent(recurrent) => recurrent.trimmable(),
        }
    }

    fn arrays(&self) -> Vec<&Array> {
        match self {
            Self::Kv(kv) => kv.arrays().map_or_else(Vec::new, |(keys, values)| vec![keys, values]),
            Self::Sliding(sliding) => sliding.kv().arrays().map_or_else(Vec::new, |(keys, values)| vec![keys, values]),
            Self::Recurrent(recurrent) => recurrent.arrays(),
        }
    }
}

fn wrong_kind() -> Exception {
    Exception::custom("a layer was given the cache of another kind of layer")
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
    pub(crate) fn layers_mut(&mut self) -> Result<&mut [LayerCache], Exception> {
        // A forward that failed half-way has left some layers longer than others.
        let len = self.len;
        for layer in &mut self.layers {
            let held = layer.len();
            if held > len && held - len <= layer.trimmable() {
                layer.trim(held - len)?;
            } else if held != len {
                return Err(Exception::custom(
                    "the cache is left unusable by an earlier failure: start over with a new one",
                ));
            }
        }
        Ok(&mut self.layers)
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
                "cannot drop {n} of {} tokens: at most {most}, a window has moved on or a state knows only its last rows",
                self.len
            )));
        }
        for layer in &mut self.layers {
            layer.trim(n)?;
        }
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
            if let LayerCache::Recurrent(recurrent) = layer {
                recurrent.pretend(rows);
                continue;
            }
            let Some((keys, values)) = layer.kv()?.arrays() else {
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
        let any = |layer: &LayerCache| !matches!(layer, LayerCache::Recurrent(_)) && layer.trimmable() >= self.len;
        self.layers.iter().all(any)
    }

    fn snapshot(&self) -> Option<Box<dyn Cache>> {
        Some(Box::new(self.clone()))
    }

    fn droppable(&self) -> usize {
        self.layers.iter().map(LayerCache::trimmable).min().unwrap_or(0).min(self.len)
    }

    fn rigid(&self) -> bool {
        !self.layers.iter().all(LayerCache::elastic)
    }

    fn checkpoint(&self) -> Option<Box<dyn Cache>> {
        let left = |layer: &LayerCache| match layer {
            LayerCache::Kv(kv) => LayerCache::Kv(KvCache::new(kv.dtype(), STEP)),
            layer => layer.clone(),
        };
        let kept = Self {
            layers: self.layers.iter().map(left).collect(),
            len: self.len,
        };
        self.rigid().then(|| Box::new(kept) as Box<dyn Cache>)
    }

    fn restore(&mut self, checkpoint: &dyn Cache) -> Result<(), Exception> {
        let kept = (checkpoint as &dyn Any).downcast_ref::<Self>();
        let Some(kept) = kept.filter(|kept| kept.layers.len() == self.layers.len() && kept.len <= self.len) else {
            return Err(Exception::custom("a checkpoint of another cache, or of a longer text"));
        };
        let drop = self.len - kept.len;
        for (layer, kept) in self.layers.iter_mut().zip(&kept.layers) {
            if layer.elastic() {
                layer.trim(drop)?;
            } else {
                *layer = kept.clone();
            }
        }
        self.len = kept.len;
        Ok(())
    }

    fn detach(&mut self) -> Result<(), Exception> {
        for layer in &mut self.layers {
            if let LayerCache::Kv(kv) = layer
                && let Some((keys, values)) = kv.state()?.filter(|(keys, _)| keys.dim(2) > 0)
            {
                *kv = KvCache::from_arrays(keys, values, STEP)?;
            }
        }
        Ok(())
    }

    fn export(&self, name: &str, parts: &mut Parts) -> Result<bool, Exception> {
        parts.numbers.insert(name.to_owned(), self.len);
        for (index, layer) in self.layers.iter().enumerate() {
            let name = format!("{name}.{index}");
            match layer {
                LayerCache::Kv(kv) => export_kv(kv, &name, parts)?,
                LayerCache::Sliding(sliding) => sliding.export(&name, parts)?,
                LayerCache::Recurrent(recurrent) => recurrent.export(&name, parts),
            }
        }
        Ok(true)
    }

    fn import(&mut self, name: &str, parts: &mut Parts) -> Result<(), Exception> {
        self.len = parts.number(name)?;
        for (index, layer) in self.layers.iter_mut().enumerate() {
            let name = format!("{name}.{index}");
            match layer {
                LayerCache::Kv(kv) => import_kv(kv, STEP, &name, parts)?,
                LayerCache::Sliding(sliding) => sliding.import(&name, parts)?,
                LayerCache::Recurrent(recurrent) => recurrent.import(&name, parts)?,
            }
        }
        Ok(())
    }

    fn arrays(&self) -> Vec<&Array> {
        self.layers.iter().flat_map(LayerCache::arrays).collect()
    }

    fn bytes(&self) -> usize {
        self.arrays().iter().map(|array| array.nbytes()).sum()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use mlx_rs::ops::zeros;

    fn cache(window: Option<usize>) -> DecoderCache {
        DecoderCache::new(vec![
            LayerCache::new(CacheKind::Full, Dtype::Float32, 4),
            LayerCache::new(window.map_or(CacheKind::Full, CacheKind::Sliding), Dtype::Float32, 4),
        ])
    }

    fn append(cache: &mut DecoderCache, rows: usize, layers: usize) {
        let kv = zeros::<f32>(&[1, 1, rows as i32, 8]).unwrap();
        for layer in cache.layers_mut().unwrap().iter_mut().take(layers) {
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
