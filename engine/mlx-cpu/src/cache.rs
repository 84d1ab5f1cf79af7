//! Keys and values of one attention layer, in place.

use crate::{Result, stock};
use mlx_rs::{Array, Dtype, error::Exception};

/// Preallocated keys and values, `[B, Hkv, capacity, D]` each.
///
/// [`KvCache::append`] writes in place: the cache holds the only handle, so MLX hands the buffer on. A clone (a snapshot for a
/// prefix store) is cheap, and costs one copy at the next append to either.
#[derive(Debug, Clone)]
pub struct KvCache {
    arrays: Option<(Array, Array)>,
    len: i32,
    dtype: Dtype,
    step: i32,
}

impl KvCache {
    /// An empty cache of `dtype` (f32, f16 or bf16) that grows by at least `step` positions. The first append fixes the shape.
    pub fn new(dtype: Dtype, step: i32) -> Self {
        Self {
            arrays: None,
            len: 0,
            dtype,
            step: step.max(1),
        }
    }

    /// A cache that begins with `keys` and `values`, `[B, Hkv, len, D]` (a restored prefix).
    pub fn from_arrays(keys: Array, values: Array, step: i32) -> Result<Self> {
        let [.., len, _] = stock::four(&keys)?;
        stock::four(&values)?;
        Ok(Self {
            len,
            dtype: keys.dtype(),
            step: step.max(1),
            arrays: Some((keys, values)),
        })
    }

    /// Positions held.
    pub fn len(&self) -> i32 {
        self.len
    }

    /// Nothing held yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Positions there is room for without another allocation.
    pub fn capacity(&self) -> i32 {
        self.arrays.as_ref().map_or(0, |(k, _)| k.shape()[2])
    }

    /// Bytes allocated.
    pub fn nbytes(&self) -> usize {
        self.arrays.as_ref().map_or(0, |(k, v)| k.nbytes() + v.nbytes())
    }

    /// Element type of the held keys and values.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The whole buffers, `[B, Hkv, capacity, D]`; only the first [`KvCache::len`] positions mean something. For `eval`.
    pub fn arrays(&self) -> Option<(&Array, &Array)> {
        self.arrays.as_ref().map(|(k, v)| (k, v))
    }

    /// Held keys and values, `[B, Hkv, len, D]`: views.
    pub fn state(&self) -> Result<Option<(Array, Array)>> {
        let Some((k, v)) = &self.arrays else { return Ok(None) };
        Ok(Some((stock::positions(k, 0, self.len)?, stock::positions(v, 0, self.len)?)))
    }

    /// Writes `k` and `v`, `[B, Hkv, L, D]` (any dtype and strides), after what is held.
    pub fn append(&mut self, k: &Array, v: &Array) -> Result<()> {
        let [b, h, l, d] = stock::four(k)?;
        let [vb, vh, vl, dv] = stock::four(v)?;
        if [vb, vh, vl] != [b, h, l] {
            return Err(Exception::custom(format!(
                "KvCache: keys {:?} and values {:?} differ",
                k.shape(),
                v.shape()
            )));
        }
        let (keys, values) = self.room(l, [b, h, d], dv)?;
        let (from, to) = (self.len, self.len + l);
        self.put(stock::write(keys, k, from, to)?, stock::write(values, v, from, to)?, l);
        Ok(())
    }

    /// Takes the arrays out, with room for `l` more positions.
    pub(crate) fn room(&mut self, l: i32, [b, h, d]: [i32; 3], dv: i32) -> Result<(Array, Array)> {
        let needed = self.len + l;
        if let Some((k, v)) = &self.arrays {
            let (ks, vs) = (k.shape(), v.shape());
            if [ks[0], ks[1], ks[3], vs[3]] != [b, h, d, dv] {
                return Err(Exception::custom(format!(
                    "KvCache: holds {ks:?}, was given keys of {b} x {h} heads of {d}"
                )));
            }
        }
        // An eighth more than needed keeps the copying of a long generation linear.
        let capacity = (needed + (needed / 8).max(self.step)) / self.step * self.step;
        let capacity = capacity.max(needed);
        match self.arrays.take() {
            Some((k, v)) if k.shape()[2] >= needed => Ok((k, v)),
            Some((k, v)) => Ok((stock::grow(&k, self.len, capacity)?, stock::grow(&v, self.len, capacity)?)),
            None => Ok((
                stock::zeros(&[b, h, capacity, d], self.dtype)?,
                stock::zeros(&[b, h, capacity, dv], self.dtype)?,
            )),
        }
    }

    /// Puts back what [`KvCache::room`] took, with `l` more positions.
    pub(crate) fn put(&mut self, keys: Array, values: Array, l: i32) {
        self.arrays = Some((keys, values));
        self.len += l;
    }

    /// Forgets every position from `len` on.
    pub fn trim(&mut self, len: i32) {
        self.len = self.len.min(len.max(0));
    }

    /// Commits a draft tree: of the rows appended from position `base` on, keeps `path` (increasing offsets from `base`), moved
    /// together in place. Then `len` is `base + path.len()`.
    pub fn compact(&mut self, base: i32, path: &[i32]) -> Result<()> {
        let mut last = -1;
        for &node in path {
            if node <= last || base + node >= self.len {
                return Err(Exception::custom(format!(
                    "KvCache: path {path:?} from {base} does not increase within {} positions",
                    self.len
                )));
            }
            last = node;
        }
        let moved = path.iter().enumerate().any(|(i, &node)| node != i as i32);
        if let (true, Some((k, v))) = (moved, self.arrays.take()) {
            self.arrays = Some((stock::gather(k, base, path)?, stock::gather(v, base, path)?));
        }
        self.len = base + path.len() as i32;
        Ok(())
    }
}
