//! A layer that sees the last W positions. Rows stay in order of position and `W − 1 + S` of them outlive an append,
//! S being the widest verify: so appending many rows and dropping some again is arithmetic, before and after the
//! window is full. (A ring buffer that rotates in place keeps rejected rows when a single row follows.)

use super::{export_kv, import_kv};
use crate::target::Parts;
use mlx_cpu::KvCache;
use mlx_rs::{Dtype, error::Exception};

#[derive(Debug, Clone)]
pub struct SlidingCache {
    kv: KvCache,
    window: usize,
    widest: usize,
    /// Rows that gather before old ones are dropped, so that the copying is rare.
    slack: usize,
    /// Tokens that were there before the first row held.
    dropped: usize,
}

impl SlidingCache {
    pub(super) fn new(dtype: Dtype, window: usize, widest: usize) -> Self {
        let slack = (window / 4).clamp(32, 256);
        Self {
            kv: KvCache::new(dtype, slack as i32),
            window,
            widest,
            slack,
            dropped: 0,
        }
    }

    /// Tokens seen.
    pub(super) fn len(&self) -> usize {
        self.dropped + self.held()
    }

    fn held(&self) -> usize {
        self.kv.len() as usize
    }

    pub(super) fn kv(&self) -> &KvCache {
        &self.kv
    }

    pub(super) fn kv_mut(&mut self) -> &mut KvCache {
        &mut self.kv
    }

    /// Drops rows that nothing will see any more.
    pub(super) fn for_append(&mut self, rows: usize) -> Result<&mut KvCache, Exception> {
        let keep = self.window - 1 + self.widest;
        if self.held() + rows > keep + self.slack && self.held() > keep {
            let from = self.held() - keep;
            let path: Vec<i32> = (from..self.held()).map(|row| row as i32).collect();
            self.kv.compact(0, &path)?;
            self.dropped += from;
        }
        Ok(&mut self.kv)
    }

    /// Tokens that can be dropped with a full window left.
    pub(super) fn trimmable(&self) -> usize {
        if self.dropped == 0 {
            self.held()
        } else {
            (self.held() + 1).saturating_sub(self.window)
        }
    }

    pub(super) fn trim(&mut self, n: usize) {
        self.kv.trim(self.kv.len() - n as i32);
    }

    pub(super) fn export(&self, name: &str, parts: &mut Parts) -> Result<(), Exception> {
        parts.numbers.insert(format!("{name}.dropped"), self.dropped);
        export_kv(&self.kv, name, parts)
    }

    pub(super) fn import(&mut self, name: &str, parts: &mut Parts) -> Result<(), Exception> {
        self.dropped = parts.number(&format!("{name}.dropped"))?;
        import_kv(&mut self.kv, self.slack as i32, name, parts)
    }
}
